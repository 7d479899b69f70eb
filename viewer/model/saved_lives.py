"""Which allocation held what autograd saved, and for how long it did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import F64, I64, NONE

from .matching import Matcher
from .run import Run


@dataclass(frozen=True, eq=False)
class SavedLives:
    """One value for each row of saved_tensors."""

    allocation: I64
    """Row of the run's allocations that held the storage when it was packed; -1 unknown, or on another device."""
    kept: F64
    """From packing until the storage was freed, in seconds, or in events where times only give the order; where no
    allocation is known, until it was first unpacked. Infinite if it outlived the recording, NaN if nothing says it."""


def saved_lives(run: Run) -> SavedLives:
    """Found by address and time, as attribution finds them."""
    table = run.recording.saved_tensors
    allocation = np.full(len(table), NONE, np.int64)
    rows = np.flatnonzero((table.address != 0) & ((table.device == run.device_row) | (table.device == NONE)))
    allocation[rows] = Matcher(run.events, run.allocations).alive(table.address[rows], table.time[rows])
    return SavedLives(allocation, _kept(run, allocation))


def _kept(run: Run, allocation: I64) -> F64:
    table = run.recording.saved_tensors
    place = run.events.started
    start, unpacked = _clock(run, table.time, place(table.time)), table.unpack_time != NONE
    kept = np.full(len(table), np.nan)
    kept[unpacked] = (_clock(run, table.unpack_time, place(table.unpack_time)) - start)[unpacked]
    found = np.flatnonzero(allocation != NONE)
    end = run.allocations.end[allocation[found]]
    over = end <= run.n_events
    last = np.minimum(end, run.n_events)
    times = run.events.time
    freed = _clock(run, last if times is None else times[last - 1], last)
    kept[found] = np.where(over, np.maximum(freed - start[found], 0), np.inf)
    return kept


def _clock(run: Run, times: I64, positions: I64) -> F64:
    """Seconds since the first event; the position where there are no durations."""
    origin = run.events.time
    if not run.has_times or origin is None:
        return positions.astype(np.float64)
    seconds: F64 = (times - origin[0]).astype(np.float64) / 1e9
    return seconds
