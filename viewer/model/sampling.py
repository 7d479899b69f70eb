"""What each pixel column shows: the position of the highest state in it, so that no zoom loses a peak. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import F64, I64

from .axes import XAxis
from .peaks import Peaks, peaks_between


@dataclass(frozen=True, eq=False)
class Columns:
    """Neighbouring pixel columns: `x` has one value more than there are columns, `positions` one for each."""

    x: F64
    positions: I64


def spans_of_columns(axis: XAxis, low: float, high: float, width: int) -> tuple[F64, I64, I64]:
    """(x, first, last): the edges of those of `width` columns between low and high that lie on the axis, and the
    positions each shows. A column in which no event falls shows the state that reaches into it."""
    x = np.linspace(low, high, max(width, 1) + 1)
    keep = (x[1:] > axis.edges[0]) & (x[:-1] < axis.edges[-1])
    if not keep.any():
        none = np.empty(0, np.int64)
        return x[:1], none, none
    start = int(np.argmax(keep))
    x = x[start : start + int(keep.sum()) + 1]
    found = np.searchsorted(axis.edges, x, "right") - 1  # the last edge that is not right of it
    first = np.clip(found[:-1], 0, axis.last)
    last = np.maximum(found[1:] - (axis.edges[found[1:]] == x[1:]), first)  # what begins at the border is not seen
    return x, first, np.minimum(last, axis.last)


def peak_columns(curve: I64 | Peaks, axis: XAxis, low: float, high: float, width: int) -> Columns:
    """For each of `width` columns between low and high the position with the largest value of `curve`."""
    x, first, last = spans_of_columns(axis, low, high, width)
    found = curve.between(first, last) if isinstance(curve, Peaks) else peaks_between(curve, first, last)
    return Columns(x, found)
