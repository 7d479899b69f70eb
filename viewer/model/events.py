"""The events of one device, re-numbered from 0, and the way from a time to a position among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I32, I64, U8, Action

MICROSECOND = 1000
"""Nanoseconds. torch's CUDA history stamps whole microseconds; the recorder's own times are finer."""


@dataclass(frozen=True, eq=False)
class DeviceEvents:
    """Columns of the events of one device, in order. `index` is the row in the recording's events."""

    index: I64
    action: U8
    address: I64
    bytes: I64
    stack: I32
    stream: I64
    thread: I64
    time: I64 | None
    """Unix time in ns, never decreasing; None where the source has no time."""
    resolution: int
    """The step of `time` in ns: an event happened within [time, time + resolution)."""

    def __len__(self) -> int:
        return len(self.index)

    def started(self, times: NDArray[np.int64]) -> I64:
        """How many events had begun at these times (ns); 0 for all where there is no time."""
        return self._search(times, "right")

    def surely_over(self, times: NDArray[np.int64]) -> I64:
        """How many events were certainly over at these times (ns), given the resolution of the event times."""
        return self._search(times - self.resolution, "right")

    def before_tick(self, times: NDArray[np.int64]) -> I64:
        """How many events came before the tick of the event clock that holds these times (ns)."""
        return self._search(times - times % self.resolution, "left")

    def _search(self, times: NDArray[np.int64], side: str) -> I64:
        if self.time is None:
            return np.zeros(len(times), np.int64)
        found = np.searchsorted(self.time, times, side="left" if side == "left" else "right")
        return found.astype(np.int64)


def device_events(recording: Recording, device_row: int) -> DeviceEvents:
    """The events of the device in this row of `meta.devices`; none if there is no such row."""
    events = recording.events
    index, rows = rows_of(recording, device_row)
    time = _monotone(events.time[rows]) if recording.meta.has_time else None
    return DeviceEvents(
        index=index,
        action=events.action[rows],
        address=events.address[rows],
        bytes=events.bytes[rows],
        stack=events.stack[rows],
        stream=events.stream[rows],
        thread=events.thread[rows],
        time=time,
        resolution=_resolution(time),
    )


def rows_of(recording: Recording, device_row: int) -> tuple[I64, slice | I64]:
    """The rows of the events of a device, and what to index their columns with: no column is copied where one device
    has them all."""
    mine = recording.events.device == device_row
    if mine.all():
        return np.arange(len(mine)), slice(None)
    index = np.flatnonzero(mine)
    return index, index


def moves(events: DeviceEvents) -> int:
    """How many events change the allocated bytes."""
    return int(((events.action == Action.alloc) | (events.action == Action.free_completed)).sum())


def net_bytes(action: U8, sizes: I64) -> I64:
    """What each event adds to the allocated bytes by its own size, before any pairing."""
    freed = np.where(action == Action.free_completed, -sizes, 0)
    return np.where(action == Action.alloc, sizes, freed)


def _monotone(time: I64) -> I64 | None:
    """Threads stamp before they queue, so neighbours may be swapped by a little: the order of events is the truth."""
    if len(time) == 0 or int(time.min()) < 0:
        return None
    return time if (time[1:] >= time[:-1]).all() else np.maximum.accumulate(time)


def _resolution(time: I64 | None) -> int:
    """Whole microseconds, or whatever the source has; a division is quicker than a remainder of a million numbers."""
    if time is None or (time[:1024] % MICROSECOND).any():
        return 1
    return MICROSECOND if np.array_equal(time // MICROSECOND * MICROSECOND, time) else 1
