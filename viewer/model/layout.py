"""Where allocations lie in a picture: by address with the empty stretches closed up, or stacked on each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import F64, I32, I64, NONE

from .live_set import LiveSet
from .reserved_ranges import LAST, ReservedRanges, reserved_ranges
from .run import Run

_KEPT = 256
"""A stretch without anything in it is drawn to scale up to this part of all the bytes in use, and closed up else."""
_LEAST_KEPT = 1 << 16
_GAPS = 16
"""All closed gaps together take at most this part of the height."""


@dataclass(frozen=True, eq=False)
class AddressLayout:
    """Addresses on one line from 0 to `height`: stretch i holds `bytes[i]` from `address[i]` and begins at `y[i]`."""

    address: I64
    bytes: I64
    y: I64
    height: int
    ranges: ReservedRanges
    low: I64
    """For each allocation where it begins; -1 for those without an address."""

    def y_of(self, addresses: I64) -> I64:
        """Where addresses of the stretches lie."""
        home = np.maximum(np.searchsorted(self.address, addresses, "right") - 1, 0)
        out: I64 = self.y[home] + np.minimum(addresses - self.address[home], self.bytes[home])
        return out

    def address_at(self, y: float) -> int | None:
        """The address drawn at y; None in a closed gap and outside."""
        home = int(np.searchsorted(self.y, y, "right")) - 1
        if home < 0 or not 0 <= y - self.y[home] < self.bytes[home]:
            return None
        return int(self.address[home]) + int(y - self.y[home])


def address_layout(run: Run) -> AddressLayout:
    """The layout of everything the device ever reserved or allocated."""
    a, ranges = run.allocations, reserved_ranges(run)
    drawn = np.flatnonzero((a.address != 0) & (a.bytes > 0))
    start = np.concatenate([a.address[drawn], ranges.address])
    size = np.concatenate([a.bytes[drawn], ranges.bytes])
    address, length = _stretches(start, np.minimum(size, LAST - np.maximum(start, 0)))
    gap = int(length.sum()) // (_GAPS * len(length)) if len(length) else 0
    y = np.cumsum(length + gap) - length - gap
    height = int(y[-1] + length[-1]) if len(y) else 0
    layout = AddressLayout(address, length, y, height, ranges, np.full(len(a), NONE, np.int64))
    if len(drawn):
        layout.low[drawn] = layout.y_of(a.address[drawn])
    return layout


def _stretches(start: I64, size: I64) -> tuple[I64, I64]:
    """(first address, bytes) of the stretches in use; what is nearly nothing between two of them belongs to them."""
    if not len(start):
        return start, size
    order = np.argsort(start, kind="stable")
    start, top = start[order], np.maximum.accumulate(start[order] + size[order])
    empty = np.maximum(start[1:] - top[:-1], 0)
    used = int(top[-1] - start[0]) - int(empty.sum())
    first = np.concatenate([[0], np.flatnonzero(empty > max(used // _KEPT, _LEAST_KEPT)) + 1])
    last = np.append(first[1:], len(start)) - 1
    return start[first], top[last] - start[first]


@dataclass(frozen=True, eq=False)
class Stacked:
    """Each allocation lies on those that were there when it was made, and slides down when one of them is freed."""

    live: LiveSet

    def column(self, position: int, y: F64) -> I64:
        """The allocation at each height y (bytes) at a position, -1 for none."""
        rows = self.live.at(position)
        tops = np.cumsum(self.live.allocations.bytes[rows])
        found = np.searchsorted(tops, y, "right")
        return np.where(y < 0, NONE, np.append(rows, NONE)[found])

    def columns(self, positions: I64, y: F64) -> I32:
        """The same for many positions and for heights that fall in even steps; shape [positions, heights].

        Each allocation takes up neighbouring heights, so that how many are below its top is all that has to be found.
        """
        rows, count = self.live.at_each(positions)
        last = np.cumsum(count)
        tops = np.cumsum(self.live.allocations.bytes.take(rows, mode="clip"))
        tops -= np.repeat(np.append(0, tops)[last - count], count)
        # for each position how many heights are below: all of them, zero, each top, the ceiling
        edges = 3 * np.arange(len(count))
        below = np.zeros(len(rows) + 3 * len(count), np.int64)
        what = np.full(len(below), NONE, np.int32)
        place = np.arange(len(rows)) + np.repeat(edges + 2, count)
        up = y[::-1]
        below[last - count + edges + 1] = np.searchsorted(up, 0)
        below[place], what[place] = _numbers_below(up, tops), rows
        below[last + edges + 2] = len(y)
        high = np.diff(below)
        some = np.flatnonzero(high > 0)[::-1]
        return np.repeat(what[some + 1], high[some]).reshape(len(count), len(y))[::-1]

    def at(self, position: int, y: float) -> int:
        """The allocation at this height, -1 for none."""
        return int(self.column(position, np.array([y]))[0])

    def span(self, position: int, row: int) -> tuple[int, int] | None:
        """From where to where an allocation reaches at a position; None if it is not alive then."""
        rows = self.live.at(position)
        place = int(np.searchsorted(rows, row))
        if place == len(rows) or rows[place] != row:
            return None
        sizes = self.live.allocations.bytes[rows[: place + 1]]
        return int(sizes[:-1].sum()), int(sizes.sum())


def _numbers_below(even: F64, values: I64) -> I64:
    """How many of these numbers, which rise in even steps, are below each value: a search in a tenth of the time."""
    if len(even) < 2:
        return np.searchsorted(even, values)
    guess = np.ceil((values - even[0]) * ((len(even) - 1) / (even[-1] - even[0])))
    found: I64 = np.clip(guess, 0, len(even), out=guess).astype(np.int64)
    around = np.concatenate([[-np.inf], even, [np.inf]])
    found -= around[found] >= values
    found += around[found + 1] < values
    return found
