"""CUDA allocations out of torch's memory history, with Python stacks (`stacks="all"` can make a dump take minutes)."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any

import numpy as np
import torch

from ..errors import CaptureError
from ..format import schema
from ..format.interning import StackTable, StringTable
from ..format.recording import Device
from ..format.schema import NONE
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
        read = read_snapshot(self._snapshot, strings, stacks, project=os.getcwd())
        self._snapshot = None
        tables = dict(read.tables)
        events, marks = tables["events"], tables["marks"]
        assert isinstance(events, schema.Events) and isinstance(marks, schema.Marks)
        tables["events"], tables["marks"] = since(events, marks, self._start_time)
        devices = tuple(_with_capacity(device) for device in read.devices)
        return Allocations(devices, tables, True, read.settings, list(read.problems))


def since(events: schema.Events, marks: schema.Marks, start: int) -> tuple[schema.Events, schema.Marks]:
    """The events and marks of the recorded step, which began at `start` (Unix ns): a history may reach further back.

    The history's clock has microseconds, so the start is rounded down to one. Marks keep standing before their event.
    """
    start -= start % 1000
    keep = (events.time == NONE) | (events.time >= start)
    index = np.append(np.cumsum(keep) - keep, keep.sum())
    columns = {f.name: getattr(marks, f.name) for f in schema.columns_of(schema.Marks)}
    columns["event"] = np.where(marks.event == NONE, NONE, index[np.clip(marks.event, 0, len(events))])
    kept = (marks.time == NONE) | (marks.time >= start)
    return schema.select(events, keep), schema.select(schema.from_columns(schema.Marks, **columns), kept)


def _with_capacity(device: Device) -> Device:
    if device.ordinal >= torch.cuda.device_count():
        return device
    total = torch.cuda.get_device_properties(device.ordinal).total_memory
    return dataclasses.replace(device, total_bytes=int(total))
