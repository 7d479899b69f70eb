"""Where stacked bands lie: for every pixel column the edges of all of them, in whole device pixels. No painting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import F64, I64


@dataclass(frozen=True, eq=False)
class Stack:
    """Bands on the screen: column c reaches from `x[c]` to `x[c + 1]`; band g from `y[g]` up to `y[g + 1]`."""

    x: F64
    y: F64
    """Shape [groups + 1, columns]; y falls upwards, as on the screen."""
    ratio: float = 1.0
    """Device pixels to one unit of x and y."""

    @property
    def groups(self) -> int:
        """How many bands there are."""
        return len(self.y) - 1

    def sides(self, group: int) -> tuple[F64, F64, F64, F64]:
        """(left, top, right, bottom) of the rectangles of one band, neighbours of equal height joined; none where it
        is less than a pixel high."""
        low, high = self.y[group], self.y[group + 1]
        starts = np.flatnonzero(np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1]))[: len(low)])
        ends = np.append(starts[1:], len(low))[: len(starts)]
        keep = low[starts] > high[starts]
        starts, ends = starts[keep], ends[keep]
        return self.x[starts], high[starts], self.x[ends], low[starts]


def stack(x: F64, group_bytes: I64, zero: float, per_byte: float, ratio: float = 1.0) -> Stack:
    """Bands of `group_bytes` [groups, columns] on the line y = `zero`, `per_byte` pixels high for each byte.

    The tops are rounded, not the heights, so that the top of the stack is exact to half a device pixel. Where all bands
    together are less than that, the largest of them gets a pixel: no column that has any bytes is empty.
    """
    tops = np.cumsum(group_bytes, axis=0, dtype=np.float64)
    y = np.vstack([np.zeros(group_bytes.shape[1]), tops])
    np.multiply(y, -per_byte * ratio, out=y)
    y += zero * ratio
    np.rint(y, out=y)
    flat = np.flatnonzero(tops[-1:].sum(axis=0) * (y[-1] == y[0]))
    if len(flat):
        largest = np.argmax(group_bytes[:, flat], axis=0)
        y[:, flat] -= np.arange(len(y))[:, None] > largest
    return Stack(np.rint(x * ratio) / ratio, y / ratio, ratio)
