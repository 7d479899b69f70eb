"""Which of a million rectangles are in sight: buckets of rectangles of similar width and height, each in order of x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import F64, I32, I64

from .ordering import ascending

_STEP = 2
"""Powers of two from one bucket to the next."""


@dataclass(frozen=True)
class Bucket:
    """A stretch of the index, and the upper bounds of the width and height of what is in it."""

    first: int
    last: int
    width: float
    height: float


@dataclass(frozen=True, eq=False)
class Box:
    """A part of the plane, in the units of the rectangles; borders belong to it."""

    x0: float
    x1: float
    y0: float
    y1: float


@dataclass(frozen=True, eq=False)
class AddressIndex:
    """Rectangle i is `row[i]` of the caller and reaches from (x0, y0) to (x1, y1)."""

    row: I32
    x0: F64
    x1: F64
    y0: F64
    y1: F64
    buckets: tuple[Bucket, ...]

    def __len__(self) -> int:
        return len(self.row)

    def thinned(self, step: int) -> AddressIndex:
        """One of every `step` neighbours, side by side in memory and without buckets: always the same one, but any of
        them, for what repeats itself must not fall in step with it."""
        places = np.arange(0, len(self) - step + 1, step)
        places += np.random.default_rng(step).integers(0, step, len(places))
        x0, x1, y0, y1 = (column[places] for column in (self.x0, self.x1, self.y0, self.y1))
        return AddressIndex(self.row[places], x0, x1, y0, y1, ())

    def candidates(self, box: Box, buckets: tuple[Bucket, ...] | None = None) -> list[tuple[int, int]]:
        """Stretches of the index outside of which none of these buckets (default: all) touches the box."""
        found = []
        for bucket in self.buckets if buckets is None else buckets:
            part = self.x0[bucket.first : bucket.last]
            first = bucket.first + int(part.searchsorted(box.x0 - bucket.width))
            last = bucket.first + int(part.searchsorted(box.x1, "right"))
            if first < last:
                found.append((first, last))
        return found

    def inside(self, places: I64, box: Box) -> I64:
        """Those of these rectangles that touch the box."""
        out = self.x1[places] >= box.x0
        out &= self.x0[places] <= box.x1
        out &= self.y1[places] >= box.y0
        out &= self.y0[places] <= box.y1
        return places[out]

    def touching(self, box: Box, buckets: tuple[Bucket, ...] | None = None) -> I64:
        """Places in the index of the rectangles that touch the box."""
        return self.inside(joined(self.candidates(box, buckets)), box)

    def split(self, width: float, height: float) -> tuple[tuple[Bucket, ...], tuple[Bucket, ...]]:
        """(buckets that may hold a rectangle at least so wide and so high; those that cannot)."""
        large = tuple(b for b in self.buckets if b.width >= width and b.height >= height)
        return large, tuple(b for b in self.buckets if b.width < width or b.height < height)


def joined(stretches: list[tuple[int, int]]) -> I64:
    """All numbers of these half-open stretches."""
    return np.concatenate([np.empty(0, np.int64), *(np.arange(first, last) for first, last in stretches)])


def address_index(row: I64, x0: F64, x1: F64, y0: F64, y1: F64) -> AddressIndex:
    """The index of rectangles in rising order of `x0`."""
    wide, high = (np.frexp(np.maximum(size, 2.0**-60))[1] // _STEP for size in (x1 - x0, y1 - y0))
    key = (wide.astype(np.int64) << 16) + high + (1 << 12)
    order = ascending(key)
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=key[:1] - 1)).tolist() if len(key) else []
    buckets = tuple(
        Bucket(a, b, _bound(int(key[a]) >> 16), _bound((int(key[a]) & 0xFFFF) - (1 << 12)))
        for a, b in zip(first, [*first[1:], len(key)])
    )
    return AddressIndex(row[order].astype(np.int32), x0[order], x1[order], y0[order], y1[order], buckets)


def _bound(step: int) -> float:
    """What is smaller than anything of the next step."""
    return 2.0 ** (step * _STEP + _STEP - 1)
