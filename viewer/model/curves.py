"""Bytes over positions: exact curves, exact sums by group at chosen positions, and columns for a chart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I64, Action

from .allocations import Allocations
from .events import device_events
from .ordering import ascending


def live_bytes(allocations: Allocations, n_events: int, mask: B1 | None = None) -> I64:
    """Bytes alive at each position 0 .. n_events, of all rows or of those in `mask`."""
    if mask is not None:
        allocations = allocations.take(np.flatnonzero(mask))
    delta = np.zeros(n_events + 2, np.int64)
    np.add.at(delta, allocations.start, allocations.bytes)
    np.subtract.at(delta, allocations.end, allocations.bytes)
    return np.cumsum(delta)[: n_events + 1]


def at_positions(
    allocations: Allocations, labels: NDArray[np.integer], n_groups: int, positions: NDArray[np.integer]
) -> I64:
    """Exact bytes of each group alive at each position; shape [n_groups, len(positions)].

    `labels` gives the group of each allocation; rows with a negative label belong to no group. Positions may come in
    any order.
    """
    order = np.argsort(positions, kind="stable")
    ordered = np.asarray(positions)[order]
    mine = np.flatnonzero(labels >= 0)
    first = np.searchsorted(ordered, allocations.start[mine])
    last = np.searchsorted(ordered, allocations.end[mine])
    width = len(ordered) + 1
    delta = np.zeros(n_groups * width, np.int64)
    group = labels[mine].astype(np.int64) * width
    np.add.at(delta, group + first, allocations.bytes[mine])
    np.subtract.at(delta, group + last, allocations.bytes[mine])
    sums = np.cumsum(delta.reshape(n_groups, width), axis=1)[:, :-1]
    out = np.empty_like(sums)
    out[:, order] = sums
    return out


_CHANGES = 64
"""Changes from one kept sum to the next, where there are no more groups than that."""


@dataclass(frozen=True, eq=False)
class GroupSums:
    """The bytes of each group at any position. Making it goes over all allocations once; asking costs as much as
    there are positions and groups, however many allocations there are."""

    position: I64
    """Of each change, rising; frees before allocations."""
    group: I64
    change: I64
    """Bytes that the group gains."""
    every: int
    """Changes from one row of `kept` to the next: no fewer than there are groups, so that `kept` is no larger than
    the changes themselves."""
    kept: I64
    """Shape [n, groups]: bytes before change n x every."""

    def at(self, positions: NDArray[np.integer]) -> I64:
        """Exact bytes of each group at each position, in any order; shape [groups, len(positions)]."""
        done = np.searchsorted(self.position, positions, "right")
        row = done // self.every
        sums = self.kept[row]
        left = done - row * self.every
        changes = np.arange(int(left.sum())) + np.repeat(done - np.cumsum(left), left)
        column = np.repeat(np.arange(len(done)) * sums.shape[1], left)
        np.add.at(sums.reshape(-1), column + self.group[changes], self.change[changes])
        return sums.T

    @property
    def highest(self) -> I64:
        """The most bytes that each group has at any position."""
        order = ascending(self.group)
        group, sums = self.group[order], np.cumsum(self.change[order])
        out = np.zeros(self.kept.shape[1], np.int64)
        first = np.flatnonzero(np.diff(group, prepend=-1))
        if len(first):  # every allocation of a group ends in it, so each group begins where the sum is 0
            out[group[first]] = np.maximum.reduceat(sums, first)
        return out


def group_sums(allocations: Allocations, labels: NDArray[np.integer], n_groups: int) -> GroupSums:
    """The sums of `labels`, the group of each allocation; rows with a negative label belong to no group."""
    mine = np.flatnonzero(labels >= 0)
    position = np.concatenate([allocations.end[mine], allocations.start[mine]])
    order = ascending(position)
    group = np.tile(labels[mine].astype(np.int64), 2)[order]
    change = np.concatenate([-allocations.bytes[mine], allocations.bytes[mine]])[order]
    every = max(_CHANGES, n_groups)
    kept = np.zeros((len(order) // every + 2, n_groups), np.int64)
    np.add.at(kept.reshape(-1), (np.arange(len(order)) // every + 1) * n_groups + group, change)
    np.cumsum(kept, axis=0, out=kept)
    return GroupSums(position[order], group, change, every, kept)


def local_peaks(curve: I64, least: float = 0.05) -> I64:
    """Positions of the peaks that rise by at least this share of the curve's range above the dips on both sides,
    the first position of each; the highest is always one."""
    if not len(curve):
        return np.empty(0, np.int64)
    needed = max((int(curve.max()) - int(curve.min())) * least, 1)
    moves = np.flatnonzero(np.diff(curve))
    rises = curve[moves + 1] > curve[moves]
    turns = moves[:-1][rises[1:] != rises[:-1]] + 1
    return np.array(_standing_out(curve, [0, *turns.tolist(), *(moves[-1:] + 1).tolist()], needed), np.int64)


def _standing_out(curve: I64, corners: list[int], needed: float) -> list[int]:
    """Walks from corner to corner; a peak counts once the curve has fallen far enough from it, a dip once it has
    risen far enough."""
    found: list[int] = []
    high, low, rising = corners[0], corners[0], True
    for corner in corners:
        size = int(curve[corner])
        if rising:
            high = corner if size > curve[high] else high
            if curve[high] - size >= needed:
                found.append(high)
                low, rising = corner, False
        else:
            low = corner if size < curve[low] else low
            if size - curve[low] >= needed:
                high, rising = corner, True
    return [*found, high] if rising and (not found or high > found[-1]) else found


@dataclass(frozen=True, eq=False)
class Columns:
    """A curve cut into columns of neighbouring positions: where the maximum of each is (first one), and its extent."""

    position: I64
    min: I64
    max: I64
    start: I64
    """First position of each column."""

    def __len__(self) -> int:
        return len(self.position)


def columns(curve: I64, first: int, last: int, n: int) -> Columns:
    """At most `n` columns of the positions first .. last (both included), which lose neither a peak nor a dip."""
    first, last = max(first, 0), min(last, len(curve) - 1)
    count = min(n, last - first + 1)
    if count < 1:
        none = np.empty(0, np.int64)
        return Columns(none, none, none, none)
    part = curve[first : last + 1]
    start = np.arange(count, dtype=np.int64) * len(part) // count
    top = np.maximum.reduceat(part, start)
    widths = np.diff(np.append(start, len(part)))
    peaks = np.flatnonzero(part == np.repeat(top, widths))
    position = peaks[np.searchsorted(peaks, start)]
    return Columns(position + first, np.minimum.reduceat(part, start), top, start + first)


def reserved(recording: Recording, device_row: int) -> I64 | None:
    """Reserved bytes at each position: the end state minus the net of the allocator segment events after it.

    None where no allocator reports reserved memory (CPU, dry run).
    """
    if not recording.meta.has_reserved:
        return None
    events = device_events(recording, device_row)
    up = (events.action == Action.segment_alloc) | (events.action == Action.segment_map)
    down = (events.action == Action.segment_free) | (events.action == Action.segment_unmap)
    net = np.cumsum(np.where(up, events.bytes, 0) - np.where(down, events.bytes, 0))
    segments = recording.allocator_segments
    end = int(segments.bytes[segments.device == device_row].sum())
    return np.concatenate([[0], net]) + (end - (int(net[-1]) if len(net) else 0))
