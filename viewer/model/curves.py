"""Bytes over positions: exact curves, exact sums by group at chosen positions, and columns for a chart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I32, I64, Action

from .allocations import Allocations
from .baseline import end_blocks
from .events import DeviceEvents, device_events, net_bytes, rows_of
from .ordering import ascending


def live_bytes(allocations: Allocations, n_events: int, mask: B1 | None = None) -> I64:
    """Bytes alive at each position 0 .. n_events, of all rows or of those in `mask`."""
    if mask is not None:
        allocations = allocations.take(np.flatnonzero(mask))
    delta = np.zeros(n_events + 2, np.int64)
    np.add.at(delta, allocations.start, allocations.bytes)
    np.subtract.at(delta, allocations.end, allocations.bytes)
    return np.cumsum(delta)[: n_events + 1]


def unpaired(recording: Recording, device_row: int) -> I64:
    """Active bytes at each position by what the events say of themselves, before any pairing: at the last one what the
    end state says, unless that would make them negative somewhere."""
    _, rows = rows_of(recording, device_row)
    ends = end_blocks(recording, device_row)
    net = net_bytes(recording.events.action[rows], recording.events.bytes[rows])
    out = np.zeros(len(net) + 1, np.int64)
    np.cumsum(net, out=out[1:])
    end_bytes = 0 if ends is None else int(ends.bytes.sum())
    out += max(end_bytes - int(out[-1]), -int(out.min()))
    return out


def at_position(allocations: Allocations, labels: NDArray[np.integer], n_groups: int, position: int) -> I64:
    """Exact bytes of each group alive at a position. Rows with a negative label belong to no group."""
    alive = allocations.alive(position)
    alive = alive[labels[alive] >= 0]
    out = np.zeros(n_groups, np.int64)
    np.add.at(out, labels[alive], allocations.bytes[alive])
    return out


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


@dataclass(frozen=True, eq=False)
class Changes:
    """What each allocation adds when it is made and takes away when it is freed. The same for every grouping."""

    position: I32
    """Rising; frees before allocations."""
    row: I32
    """The allocation."""
    bytes: I64
    """What is gained."""


_NOBODY = np.iinfo(np.int32).max


def changes_of(allocations: Allocations) -> Changes:
    """Two changes for each allocation. Each but the first and the last position is that of one event, so that nothing
    need be sorted, unless bytes without an event of their own are freed with others."""
    last = int(allocations.end.max(initial=0))
    made, freed = allocations.start > 0, allocations.end < last
    row = np.arange(len(allocations), dtype=np.int32)
    at = np.full(last, _NOBODY, np.int32)
    at[allocations.start[made]] = row[made]
    at[allocations.end[freed]] = ~row[freed]
    position = np.flatnonzero(at != _NOBODY)
    first, end = row[~made], ~row[~freed]
    if len(first) + len(position) + len(end) < 2 * len(row):
        return _changes_sorted(allocations)
    ends = np.full(len(end), last, np.int32)
    return _changes(
        allocations,
        np.concatenate([np.zeros(len(first), np.int32), position.astype(np.int32), ends]),
        np.concatenate([first, at[position], end]),
    )


def _changes_sorted(allocations: Allocations) -> Changes:
    position = np.concatenate([allocations.end, allocations.start])
    row = np.arange(len(allocations), dtype=np.int32)
    order = ascending(position)
    return _changes(allocations, position[order].astype(np.int32), np.concatenate([~row, row])[order])


def _changes(allocations: Allocations, position: I32, what: I32) -> Changes:
    """`what` is the allocation that is made, or `~` of the one that is freed."""
    freed = what < 0
    row = np.where(freed, ~what, what)
    gained = allocations.bytes[row]
    np.negative(gained, out=gained, where=freed)
    return Changes(position, row, gained)


def highest(changes: Changes, labels: NDArray[np.integer], n_groups: int) -> I64:
    """The most bytes that each group has at any position. `labels` gives the group of each allocation; rows with a
    negative label belong to no group."""
    group = _narrow(labels, n_groups)[changes.row]
    order = ascending(group)
    sums = np.cumsum(changes.bytes[order])
    count = np.bincount(group + 1, minlength=n_groups + 1)
    first = (np.cumsum(count) - count)[1:]
    out = np.zeros(n_groups, np.int64)
    mine = np.flatnonzero(count[1:])
    if len(mine):  # every allocation of a group ends in it, so each group begins where the sum is 0
        out[mine] = np.maximum.reduceat(sums, first[mine])
    return out


def highest_of(changes: Changes, mask: B1) -> int:
    """The most bytes that the allocations in the mask have at any position together."""
    gained = np.where(mask[changes.row], changes.bytes, 0)
    return int(np.cumsum(gained, out=gained).max(initial=0))


def _narrow(labels: NDArray[np.integer], n_groups: int) -> NDArray[np.signedinteger]:
    return labels.astype(np.int16 if n_groups < 1 << 15 else np.int32)


_CHANGES = 16
"""Changes from one kept sum to the next, where there are no more groups than that."""


@dataclass(frozen=True, eq=False)
class GroupSums:
    """The bytes of each group at any position. Making it goes over all allocations once; asking costs as much as
    there are positions and groups, however many allocations there are."""

    changes: Changes
    """Of the allocations that are in a group."""
    group: NDArray[np.signedinteger]
    """Of each change."""
    every: int
    """Changes from one row of `kept` to the next: no fewer than there are groups, so that `kept` is no larger than
    the changes themselves."""
    kept: I64
    """Shape [n, groups]: bytes before change n x every."""

    def at(self, positions: NDArray[np.integer]) -> I64:
        """Exact bytes of each group at each position, in any order; shape [groups, len(positions)]."""
        done = np.searchsorted(self.changes.position, np.asarray(positions, np.int32), "right")
        row = done // self.every
        sums = self.kept[row]
        left = done - row * self.every
        changes = np.arange(int(left.sum())) + np.repeat(done - np.cumsum(left), left)
        column = np.repeat(np.arange(len(done)) * sums.shape[1], left)
        np.add.at(sums.reshape(-1), column + self.group[changes], self.changes.bytes[changes])
        return sums.T


def group_sums(
    allocations: Allocations, labels: NDArray[np.integer], n_groups: int, changes: Changes | None = None
) -> GroupSums:
    """The sums of `labels`, the group of each allocation; rows with a negative label belong to no group. `changes` are
    those of the allocations, if at hand."""
    changes = changes_of(allocations) if changes is None else changes
    group = _narrow(labels, n_groups)[changes.row]
    if (labels < 0).any():
        mine = np.flatnonzero(group >= 0)
        group, changes = group[mine], Changes(changes.position[mine], changes.row[mine], changes.bytes[mine])
    every = max(_CHANGES, n_groups)
    kept = np.zeros((len(group) // every + 2, n_groups), np.int64)
    place = np.repeat(np.arange(1, len(kept)) * n_groups, every)[: len(group)]
    np.add.at(kept.reshape(-1), place + group, changes.bytes)
    np.cumsum(kept, axis=0, out=kept)
    return GroupSums(changes, group, every, kept)


def local_peaks(curve: I64, least: float = 0.05) -> I64:
    """Positions of the peaks that rise by at least this share of the curve's range above the dips on both sides,
    the first position of each; the highest is always one."""
    if not len(curve):
        return np.empty(0, np.int64)
    needed = max((int(curve.max()) - int(curve.min())) * least, 1)
    moves = np.flatnonzero(np.diff(curve))
    rises = curve[moves + 1] > curve[moves]
    turns = moves[:-1][rises[1:] != rises[:-1]] + 1
    corners = np.concatenate([[0], turns, moves[-1:] + 1])
    found: I64 = corners[_standing_out(curve[corners].tolist(), needed)]
    return found


def _standing_out(sizes: list[int], needed: float) -> list[int]:
    """Walks from corner to corner, plain numbers as there may be a million; a peak counts once the curve has fallen
    far enough from it, a dip once it has risen far enough."""
    found: list[int] = []
    high, top, bottom, rising = 0, sizes[0], sizes[0], True
    for corner, size in enumerate(sizes):
        if rising:
            if size > top:
                high, top = corner, size
            elif top - size >= needed:
                found.append(high)
                bottom, rising = size, False
        elif size < bottom:
            bottom = size
        elif size - bottom >= needed:
            high, top, rising = corner, size, True
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


_GROWS, _SHRINKS = (Action.segment_alloc, Action.segment_map), (Action.segment_free, Action.segment_unmap)


def reserved(recording: Recording, device_row: int, events: DeviceEvents | None = None) -> I64 | None:
    """Reserved bytes at each position: the end state minus the net of the allocator segment events after it.

    `events` are those of the device, if at hand. None where no allocator reports reserved memory (CPU, dry run).
    """
    if not recording.meta.has_reserved:
        return None
    events = device_events(recording, device_row) if events is None else events
    sign = np.zeros(256, np.int8)
    sign[[*_GROWS]], sign[[*_SHRINKS]] = 1, -1
    sign = sign[events.action]
    at = np.flatnonzero(sign)
    change = events.bytes[at] * sign[at]
    segments = recording.allocator_segments
    out = np.zeros(len(events) + 1, np.int64)
    out[0] = int(segments.bytes[segments.device == device_row].sum()) - int(change.sum())
    out[at + 1] = change
    return np.cumsum(out, out=out)
