"""The sizes of the native allocator: rounding, pools, segments. All bytes."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import I64

from .config import INTERVALS, MIB, Config

MIN_BLOCK = 512
SMALL_SIZE = MIB
"""The largest request of the small pool."""
SMALL_SEGMENT = 2 * MIB
MIN_LARGE = 10 * MIB
"""From this size on a request gets an allocator segment of its own size."""
ROUND_LARGE = 2 * MIB
UNLIMITED = 1 << 62


def rounded(sizes: I64, config: Config) -> I64:
    """Requested bytes to block bytes: to 512 B, or to a division of the power of two below."""
    sizes = np.asarray(sizes, np.int64)
    out = np.maximum((sizes + MIN_BLOCK - 1) // MIN_BLOCK, 1) * MIN_BLOCK
    if not any(config.roundup_power2_divisions):
        return out
    log = _floor_log2(np.maximum(sizes, 1))
    table = np.array(config.roundup_power2_divisions, np.int64)
    divisions = table[np.clip(log - 20, 0, INTERVALS - 1)]
    step = np.maximum((np.int64(1) << log) // np.maximum(divisions, 1), 1)
    up = -(-sizes // step) * step
    return np.where((divisions > 1) & (sizes > MIN_BLOCK * divisions), up, out)


def _floor_log2(sizes: I64) -> I64:
    """Exact for every int64, where a float logarithm is not."""
    log = np.log2(sizes).astype(np.int64)
    log -= (np.int64(1) << np.minimum(log, 62)) > sizes
    return log


def segment_bytes(size: int, config: Config) -> int:
    """What is asked of cudaMalloc for a block of this (rounded) size."""
    if size <= SMALL_SIZE:
        return SMALL_SEGMENT
    if size < MIN_LARGE:
        return config.large_segment_bytes
    return -(-size // ROUND_LARGE) * ROUND_LARGE


def page_bytes(is_small: bool, config: Config) -> int:
    """What an expandable segment grows by."""
    return SMALL_SEGMENT if is_small else config.large_segment_bytes


def least_remainder(is_small: bool, config: Config) -> int:
    """A block is split if at least so much would remain (and it is not too large to be split)."""
    return MIN_BLOCK if is_small or config.expandable_segments else SMALL_SIZE + 1
