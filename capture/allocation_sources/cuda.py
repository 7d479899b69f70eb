"""CUDA allocations out of torch's memory history."""

from __future__ import annotations

import dataclasses
import os
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CaptureError
from ..format import schema
from ..format.interning import StackTable, StringTable
from ..format.recording import Device
from ..format.schema import NONE, MarkKind
from ..format.torch_records import read_snapshot
from ..step_log import StepLog
from . import Allocations
from . import cuda_history as history
from .cuda_cut import cut
from .cuda_graphs import GraphWatch
from .cuda_history import Moment
from .cuda_notes import CudaNotes
from .cuda_problems import problems_of


@dataclass(frozen=True)
class Taken:
    """A snapshot of the history and the moment it was taken at."""

    snapshot: Any
    moment: Moment
    still_on: bool


class CudaSource:
    """Waits for the devices in use once before the step and once after it, and nowhere inside.

    A history that the user records already is used as it is: never changed, emptied or switched off.

    Args:
        ring: entries of the history for each device; `MEMSTRATA_CUDA_RING` where it is not given.
        stacks: `python`, or `all` for C++ frames too; `MEMSTRATA_CUDA_STACKS` where it is not given.
    """

    name = "cuda"

    def __init__(self, ring: int | None = None, stacks: str | None = None) -> None:
        self.ring = _ring(ring)
        self.stacks = stacks or os.environ.get("MEMSTRATA_CUDA_STACKS") or "python"
        if self.stacks not in history.STACKS:
            raise CaptureError(f"The stacks must be 'python' or 'all', not {self.stacks!r}.")
        self._users_history = False
        self._switched_on = False
        self._first = Moment(NONE, {})
        self._taken: Taken | None = None
        self._why = ""
        self._notes: CudaNotes | None = None
        self._graphs = GraphWatch()

    def start(self) -> None:
        """Switch the history on, unless the user records one. Raises CaptureError if there can be none."""
        history.check()
        self._users_history, self._graphs = history.is_on(), GraphWatch()
        history.synchronize(history.used_devices())
        try:
            if not self._users_history:
                self._switched_on = True
                history.switch_on(self.ring, self.stacks)
            self._graphs.install()
            self._first = history.moment()
        except BaseException:
            self._undo()
            raise

    def notes(self, log: StepLog) -> CudaNotes:
        """What notes times, stamps and memory on the devices; replaces what noted before."""
        if self._notes is not None:
            self._notes.finish()
        self._notes = CudaNotes(log)
        return self._notes

    def moment(self) -> Moment:
        """A point in the history from which a step can be cut later; costs some ten microseconds, waits for nothing."""
        return history.moment()

    def take(self) -> Taken:
        """Wait for the devices and take a snapshot; the history goes on. For a step that failed too."""
        try:
            history.synchronize(history.used_devices())
        except RuntimeError:
            pass  # a failed kernel raises here again; the training's own exception already says so
        still_on, before = _is_on(), history.moment()
        snapshot = history.snapshot()
        after = history.made()
        steady = {ordinal: made for ordinal, made in before.made.items() if after.get(ordinal) == made}
        return Taken(snapshot, Moment(before.time, steady), still_on)

    def taken(self) -> Taken | None:
        """What `stop` took, once."""
        taken, self._taken = self._taken, None
        return taken

    def stop(self) -> None:
        """Take the snapshot, and leave everything as it was."""
        self._taken, self._why = None, "nothing was taken"
        try:
            self._taken = self.take()
        except Exception as error:
            self._why = " ".join(str(error).split())
            raise
        finally:
            self._undo()

    def _undo(self) -> None:
        self._graphs.remove()
        try:
            if self._notes is not None:
                self._notes.finish()
        finally:
            if self._switched_on:
                self._switched_on = False
                history.switch_off()

    def collect(self, log: StepLog, strings: StringTable, stacks: StackTable) -> Allocations:
        """The step's events with the allocator's end state; several devices share the tables."""
        taken = self.taken()
        if taken is None:
            raise CaptureError(f"torch gave no snapshot of the CUDA memory ({self._why}).")
        found = self.cut(taken, self._first, strings, stacks)
        worked = NONE if self._notes is None else self._notes.worked(log.start_time, log.end_time)
        if worked != NONE:  # the host only launches the step, and may be through long before the device is
            found.meta["step_seconds_recorded"] = max(worked, log.end_time - log.start_time) / 1e9
        return found

    def cut(self, taken: Taken, first: Moment, strings: StringTable, stacks: StackTable) -> Allocations:
        """What happened from a moment to the snapshot. A history that goes on can be cut as often as one likes."""
        read = read_snapshot(taken.snapshot, strings, stacks, project=os.getcwd())
        tables = dict(read.tables)
        events, marks = tables["events"], tables["marks"]
        assert isinstance(events, schema.Events) and isinstance(marks, schema.Marks)
        ordinals = [device.ordinal for device in read.devices]
        step = cut(events, marks, first, taken.moment, ordinals)
        tables["events"], tables["marks"] = step.events, self._with_memory(step.marks, first.time, strings)
        devices = tuple(_with_capacity(device) for device in read.devices)
        known = problems_of(read, step, self._ring_in_force(), taken.still_on)
        return Allocations(devices, tables, True, read.settings, known + self._graphs.problems())

    def _ring_in_force(self) -> int | None:
        """None where the history is the user's: torch does not say how large theirs is."""
        return None if self._users_history else self.ring

    def _with_memory(self, marks: schema.Marks, start: int, strings: StringTable) -> schema.Marks:
        """With a mark for each time the device's memory was asked for."""
        taken = [found for found in (self._notes.memory if self._notes is not None else []) if found[0] >= start]
        rows = [
            (MarkKind.device_memory, time, NONE, strings.intern(f"cuda:{device}"), float(used))
            for time, device, used in taken
        ]
        more = schema.from_rows(schema.Marks, rows)
        names = [f.name for f in schema.columns_of(schema.Marks)]
        joined = {name: np.concatenate([getattr(marks, name), getattr(more, name)]) for name in names}
        return schema.from_columns(schema.Marks, **joined)


def _ring(ring: int | None) -> int:
    asked: Any = os.environ.get("MEMSTRATA_CUDA_RING") or history.RING if ring is None else ring
    try:
        size = int(asked)
    except ValueError:
        raise CaptureError(f"MEMSTRATA_CUDA_RING must be a whole number, not {asked!r}.") from None
    if size < 1:
        raise CaptureError(f"The ring of the memory history has at least one entry, not {size}.")
    return min(size, sys.maxsize)


def _is_on() -> bool:
    try:
        return history.is_on()
    except RuntimeError:  # the device failed: nothing can be asked, and nothing was switched
        return True


def _with_capacity(device: Device) -> Device:
    total = history.capacity(device.ordinal)
    return device if total is None else dataclasses.replace(device, total_bytes=total)
