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
    index = np.flatnonzero(events.device == device_row)
    time = _monotone(events.time[index]) if recording.meta.has_time else None
    return DeviceEvents(
        index=index,
        action=events.action[index],
        address=events.address[index],
        bytes=events.bytes[index],
        stack=events.stack[index],
        stream=events.stream[index],
        thread=events.thread[index],
        time=time,
        resolution=_resolution(time),
    )


def moves(events: DeviceEvents) -> int:
    """How many events change the allocated bytes."""
    return int(((events.action == Action.alloc) | (events.action == Action.free_completed)).sum())


def net_bytes(events: DeviceEvents) -> I64:
    """What each event adds to the allocated bytes by its own size, before any pairing."""
    freed = np.where(events.action == Action.free_completed, -events.bytes, 0)
    return np.where(events.action == Action.alloc, events.bytes, freed)


def _monotone(time: I64) -> I64 | None:
    """Threads stamp before they queue, so neighbours may be swapped by a little: the order of events is the truth."""
    if len(time) == 0 or int(time.min()) < 0:
        return None
    return np.maximum.accumulate(time)


def _resolution(time: I64 | None) -> int:
    return MICROSECOND if time is not None and not (time % MICROSECOND).any() else 1
