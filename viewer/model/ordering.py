"""Orders of many rows, found quickly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.schema import I64


def ascending(keys: NDArray[Any]) -> I64:
    """The stable order of the keys, as `np.argsort(keys, kind="stable")`.

    Whole numbers that leave room are packed together with their row and sorted as they are: sorting a million plain
    numbers takes a tenth of the time of sorting a million rows by them.
    """
    n = len(keys)
    if n < 2 or keys.dtype.kind not in "iub":
        return np.argsort(keys, kind="stable")
    low, high = int(keys.min()), int(keys.max())
    bits = (n - 1).bit_length()
    if (high - low).bit_length() + bits > 62 or not -(2**62) < low <= high < 2**62:
        return np.argsort(keys, kind="stable")
    packed = (keys.astype(np.int64) - low) << bits
    packed |= np.arange(n, dtype=np.int64)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def descending(keys: NDArray[Any]) -> I64:
    """Largest first; equal keys keep their order."""
    return len(keys) - 1 - ascending(keys[::-1])[::-1]
