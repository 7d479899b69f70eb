"""Where a curve is highest in each of many intervals. Pure numpy."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import I64

from .run import Run

_BLOCK = 64


class Peaks:
    """A curve prepared for finding where it is highest: what a search costs does not grow with the curve.

    A value and its position share one number, so that the largest of these numbers tells both; of equal values the
    first position wins. Blocks of these numbers are kept with the largest of each.
    """

    def __init__(self, curve: I64) -> None:
        self.curve = curve
        self._bits = max(len(curve) - 1, 1).bit_length()
        self._fits = len(curve) > 0 and int(curve.min()) >= 0 and int(curve.max()).bit_length() + self._bits <= 62
        if self._fits:
            self._numbers = np.append(curve, -1)
            numbers = self._numbers[:-1]
            numbers <<= self._bits
            numbers |= np.arange(len(curve) - 1, -1, -1)  # the first position is the largest
            self._blocks = np.append(np.maximum.reduceat(numbers, np.arange(0, len(numbers), _BLOCK)), -1)

    def between(self, begin: I64, end: I64) -> I64:
        """The first position with the largest value in each closed interval [begin, end]."""
        if not self._fits:
            return peaks_between(self.curve, begin, end)
        stop = end + 1
        first, last = -(-begin // _BLOCK), stop // _BLOCK
        whole = first < last
        best = _largest(self._numbers, begin, np.where(whole, first * _BLOCK, stop))
        np.maximum(best, _largest(self._blocks, first, np.where(whole, last, first)), out=best)
        np.maximum(best, _largest(self._numbers, np.where(whole, last * _BLOCK, stop), stop), out=best)
        return len(self.curve) - 1 - (best & ((1 << self._bits) - 1))


def _largest(numbers: I64, begin: I64, stop: I64) -> I64:
    """The largest number in each half-open interval; -1 in an empty one."""
    if not len(begin):
        return np.empty(0, np.int64)
    found = np.maximum.reduceat(numbers, np.stack([begin, stop], axis=1).ravel())[::2]
    return np.where(begin < stop, found, -1)


def peaks_between(curve: I64, begin: I64, end: I64) -> I64:
    """The first position with the largest value in each closed interval [begin, end]."""
    return np.array(
        [b if b == e else b + int(np.argmax(curve[b : e + 1])) for b, e in zip(begin.tolist(), end.tolist())],
        np.int64,
    )


def peaks_of(run: Run) -> Peaks:
    """The curve of all bytes of a run."""
    return Peaks(run.curve)
