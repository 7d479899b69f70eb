"""CUDA allocations out of torch's memory history, with Python stacks (`stacks="all"` can make a dump take minutes)."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import torch

from ..errors import CaptureError
from ..format import schema
from ..format.interning import StackTable, StringTable
from ..format.recording import Device
from ..format.torch_records import read_snapshot
from ..step_log import StepLog
from . import Allocations

MAX_ENTRIES = 4_000_000
"""Ring size of the history: a step has thousands of events, and a runaway one must not eat the host's memory."""


class CudaSource:
    """Adds one synchronisation before the step and one after, none inside."""

    name = "cuda"

    def __init__(self) -> None:
        self._users_history = False
        self._snapshot: Any = None
        self._start_time = 0

    def start(self) -> None:
        """Switch the history on, unless the user already records: then the step is cut out of it by time."""
        if not torch.cuda.is_available():
            raise CaptureError("CUDA memory cannot be recorded: torch sees no CUDA device.")
        torch.cuda.synchronize()
        self._users_history = bool(torch._C._cuda_isHistoryEnabled())
        if not self._users_history:
            torch.cuda.memory._record_memory_history("all", context="all", stacks="python", max_entries=MAX_ENTRIES)
        self._start_time = time.time_ns()

    def stop(self) -> None:
        """Take the snapshot, and switch the history off if it was off."""
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            pass  # a failed kernel raises here again; the training's own exception already says so
        try:
            self._snapshot = torch.cuda.memory._snapshot()
        finally:
            if not self._users_history:
                torch.cuda.memory._record_memory_history(None)

    def collect(self, log: StepLog, strings: StringTable, stacks: StackTable) -> Allocations:
        """The step's events with the allocator's end state; several devices share the tables."""
        read = read_snapshot(self._snapshot, strings, stacks)
        self._snapshot = None
        tables = dict(read.tables)
        events = tables["events"]
        assert isinstance(events, schema.Events)
        tables["events"] = _since(events, self._start_time)
        devices = tuple(_with_capacity(device) for device in read.devices)
        return Allocations(devices, tables, True, read.settings, list(read.problems))


def _since(events: schema.Events, start: int) -> schema.Events:
    """Events of the recorded step; the clock has microseconds, so the start is rounded down to one."""
    keep = (events.time < 0) | (events.time >= start - start % 1000)
    columns = {f.name: getattr(events, f.name)[keep] for f in schema.columns_of(schema.Events)}
    return schema.Events(**columns)


def _with_capacity(device: Device) -> Device:
    if device.ordinal >= torch.cuda.device_count():
        return device
    total = torch.cuda.get_device_properties(device.ordinal).total_memory
    return dataclasses.replace(device, total_bytes=int(total))
