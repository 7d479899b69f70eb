"""Where a curve is highest in each of many intervals. Pure numpy."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import I64

from .run import Run

_BLOCK = 8
_NEAR = np.arange(_BLOCK)[:, None]


class Peaks:
    """A curve prepared for finding where it is highest: what a search costs hardly grows with the curve.

    A value and its position share one number, so that the largest of these numbers tells both; of equal values the
    first position wins. Blocks of these numbers are kept with the largest of each: an interval is as many numbers as a
    block has from its begin, as many up to its end, and the blocks that lie in it, some of which are looked at twice.
    """

    def __init__(self, curve: I64) -> None:
        self.curve = curve
        self._bits = max(len(curve) - 1, 1).bit_length()
        self._fits = len(curve) > 0 and int(curve.min()) >= 0 and int(curve.max()).bit_length() + self._bits <= 62
        if self._fits:
            numbers = self._numbers = curve << self._bits
            numbers |= np.arange(len(curve) - 1, -1, -1)  # the first position is the largest
            self._blocks = np.append(np.maximum.reduceat(numbers, np.arange(0, len(numbers), _BLOCK)), -1)

    def between(self, begin: I64, end: I64) -> I64:
        """The first position with the largest value in each closed interval [begin, end]."""
        if not self._fits:
            return peaks_between(self.curve, begin, end)
        best: I64 = self._numbers[np.minimum(begin + _NEAR, end)].max(axis=0)
        np.maximum(best, self._numbers[np.maximum(end - _NEAR, begin)].max(axis=0), out=best)
        np.maximum(best, _largest(self._blocks, -(-begin // _BLOCK), (end + 1) // _BLOCK), out=best)
        out: I64 = len(self.curve) - 1 - (best & ((1 << self._bits) - 1))
        return out


def _largest(numbers: I64, begin: I64, stop: I64) -> I64:
    """The largest number in each half-open interval; -1 in an empty one."""
    some = np.flatnonzero(begin < stop)
    out = np.full(len(begin), -1, np.int64)
    if len(some):
        begin, stop = begin[some], stop[some]
        low, high = int(begin.min()), int(stop.max()) + 1
        out[some] = np.maximum.reduceat(numbers[low:high], np.stack([begin - low, stop - low], axis=1).ravel())[::2]
    return out


def peaks_between(curve: I64, begin: I64, end: I64) -> I64:
    """The first position with the largest value in each closed interval [begin, end]."""
    return np.array(
        [b if b == e else b + int(np.argmax(curve[b : e + 1])) for b, e in zip(begin.tolist(), end.tolist())],
        np.int64,
    )


def peaks_of(run: Run) -> Peaks:
    """The curve of all bytes of a run."""
    return Peaks(run.curve)


def reserved_peaks(run: Run) -> Peaks | None:
    """The curve of reserved bytes of a run; None where no allocator reports them."""
    return None if run.reserved is None else Peaks(run.reserved)
