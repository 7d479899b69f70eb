"""The reserved memory as the file ends, as it was recorded: for allocators whose rules are not torch's CUDA ones."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import I64

from ...model.baseline import ACTIVE
from ...model.ordering import ascending
from ...model.run import Run
from .history import Layout, columns_of
from .past import pool_numbers


def end_layout(run: Run) -> Layout | None:
    """The allocator segments of the device with the blocks in use in them; None where the file has none. A block's
    number is the row of its allocation, or the number of allocations where the file tells of none."""
    segments, blocks = run.recording.allocator_segments, run.recording.blocks
    mine = np.flatnonzero((segments.device == run.device_row) & (segments.bytes > 0))
    mine = mine[ascending(segments.address[mine])]
    if not len(mine):
        return None
    columns = (segments.address, segments.bytes, segments.is_expandable, segments.stream)
    ranges = np.stack([*(c[mine].astype(np.int64) for c in columns), _pools(run)[mine], segments.is_small[mine]], 1)
    home = np.full(len(segments), -1, np.int64)
    home[mine] = np.arange(len(mine))
    used = np.flatnonzero((home[blocks.segment] >= 0) & np.isin(blocks.state, ACTIVE))
    used = used[ascending(blocks.address[used])]
    numbers = _allocation_at(run, blocks.address[used])
    return Layout(*columns_of(ranges), numbers, blocks.address[used], blocks.bytes[used], home[blocks.segment[used]])


def _pools(run: Run) -> I64:
    """The pool's number of each allocator segment of the file, where it is of this device."""
    segments = run.recording.allocator_segments
    mine = np.flatnonzero(segments.device == run.device_row)
    out = np.zeros(len(segments), np.int64)
    out[mine[ascending(segments.address[mine])]] = pool_numbers(run)
    return out


def _allocation_at(run: Run, address: I64) -> I64:
    """The allocation alive at the end at each of these addresses."""
    a = run.allocations
    alive = np.flatnonzero(a.end > run.n_events)
    alive = alive[ascending(a.address[alive])]
    if not len(alive):
        return np.full(len(address), len(a), np.int64)
    at = np.minimum(np.searchsorted(a.address[alive], address), len(alive) - 1)
    return np.where(a.address[alive][at] == address, alive[at], len(a)).astype(np.int64)
