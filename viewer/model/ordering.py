"""Orders of many rows, found quickly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.schema import I32, I64


def ascending(keys: NDArray[Any]) -> I64:
    """The stable order of the keys, as `np.argsort(keys, kind="stable")`.

    Whole numbers that leave room are packed together with their row and sorted as they are: sorting a million plain
    numbers takes a tenth of the time of sorting a million rows by them. Of few different numbers numpy counts each.
    """
    if len(keys) < 2 or keys.dtype.kind not in "iub":
        return np.argsort(keys, kind="stable")
    low, high = int(keys.min()), int(keys.max())
    if high - low < 1 << 16:
        return np.argsort((keys.astype(np.int64) - low).astype(np.uint16), kind="stable")
    bits = (len(keys) - 1).bit_length()
    packed = _packed(keys, np.arange(len(keys)), bits)
    if packed is None:
        return np.argsort(keys, kind="stable")
    packed &= (1 << bits) - 1
    return packed


def _packed(keys: NDArray[Any], rows: I64, bits: int) -> I64 | None:
    """key << bits | row, sorted, the lowest key counted as 0; None where that does not fit."""
    low, high = int(keys.min()), int(keys.max())
    if (high - low).bit_length() + bits > 62 or not -(2**62) < low <= high < 2**62:
        return None
    packed = keys.astype(np.int64)
    packed -= low
    packed <<= bits
    packed |= rows
    packed.sort()
    return packed


def following(keys: I64, rows: I64, n: int) -> I32:
    """For each row of 0 .. n - 1 the next one of `rows` with the same key, n if there is none. `rows` are rising and
    below n, `keys` are theirs."""
    out = np.full(n + 1, n, np.int32)
    if len(keys) < 2:
        return out
    bits = (n - 1).bit_length()
    packed = _packed(keys, rows, bits)
    if packed is None:
        order = np.argsort(keys, kind="stable")
        same, at = keys[order[1:]] == keys[order[:-1]], rows[order].astype(np.int32)
    else:
        same = (packed[1:] ^ packed[:-1]) < 1 << bits
        packed &= (1 << bits) - 1
        at = packed.astype(np.int32)
    out[at[:-1]] = np.where(same, at[1:], np.int32(n))
    return out


def descending(keys: NDArray[Any]) -> I64:
    """Largest first; equal keys keep their order."""
    return len(keys) - 1 - ascending(keys[::-1])[::-1]


def distinct(values: NDArray[Any]) -> tuple[NDArray[Any], I32]:
    """The different values, rising, and for each value which of them it is; quick where all are equal."""
    if len(values) and (values == values[0]).all():
        return values[:1], np.zeros(len(values), np.int32)
    found, which = np.unique(values, return_inverse=True)
    return found, which.astype(np.int32)
