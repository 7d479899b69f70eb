"""What is noted on the GPU while the step runs: event pairs for times, stamps on allocations, memory at phases.

An event is put into the stream where a module or phase begins and ends; it waits for nothing, and the times are read
after the step. The time axis of a recording stays that of the host, which launches the work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..format import schema
from ..format.interning import StringTable
from ..format.schema import NONE, Phase
from ..step_log import StepLog, guarded, thread_id
from . import cuda_history as history
from .cuda_stamps import MetadataStamp

EVENTS = 200_000
"""Most events of one recording: a step with more module calls keeps the times of the first."""

PAUSE = 1_000_000
"""Nanoseconds between two questions for the device's memory: where optimizers step inside backward, phases are many."""


class CudaNotes:
    """See `DeviceNotes`. A failure disarms it and is counted; the step goes on."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False
        self.memory: list[tuple[int, int, int]] = []
        """(Unix ns, device ordinal, bytes taken on it by whomever) at phases."""
        stamping = history.stamping()
        self.stamp = MetadataStamp(*stamping) if stamping is not None else None
        self._events: dict[int, dict[int, Any]] = {}
        """By time and device ordinal."""
        self._room = EVENTS
        self._devices: list[int] = []
        self._asked = NONE
        self._device_of: dict[int, int | None] = {}
        self._unpacked: dict[int, Any] = {}

    @guarded
    def entered(self, module: nn.Module, phase: Phase, time: int) -> None:
        """A module begins to run on this thread."""
        if self.stamp is not None:
            self.stamp.entered(module, phase)
        self._mark(time, self._device(module))

    @guarded
    def left(self, module: nn.Module, time: int) -> None:
        """A module ended."""
        self._mark(time, self._device(module))
        if self.stamp is not None:
            self.stamp.left(module)

    @guarded
    def unpacking(self, module: nn.Module | None, time: int) -> None:
        """Backward asks for what this module saved; a checkpoint's recomputation begins here."""
        if self._unpacked.get(thread_id(), self) is not module:
            self._mark(time, torch.cuda.current_device())

    @guarded
    def unpacked(self, module: nn.Module | None, time: int) -> None:
        """Backward has it: what it saved is used next."""
        if self._unpacked.get(thread_id(), self) is not module:
            self._mark(time, torch.cuda.current_device())
            self._unpacked[thread_id()] = module
        if self.stamp is not None:
            self.stamp.unpacked(module)

    @guarded
    def phase(self, phase: Phase, time: int) -> None:
        """A phase of the whole step begins (`other`: ended)."""
        self._unpacked.clear()
        if self.stamp is not None:
            self.stamp.phase(phase)
        if time - self._asked > PAUSE and not torch.cuda.is_current_stream_capturing():
            self._devices, self._asked = history.used_devices(), time
            self.memory += [(time, device, history.used_bytes(device)) for device in self._devices]
        for device in self._devices:
            self._mark(time, device)

    def finish(self) -> None:
        """Leave the calling thread as it was."""
        if self.stamp is not None:
            with contextlib.suppress(RuntimeError):  # the device failed, and with it this process
                self.stamp.clear()

    def worked(self, start: int, end: int) -> int:
        """Nanoseconds the device worked between two times, of several devices the one that worked longest."""
        started, ended = self._events.get(start, {}), self._events.get(end, {})
        return max((_elapsed(started[d], ended[d]) for d in started.keys() & ended.keys()), default=NONE)

    def named(self, events: schema.Events, strings: StringTable, path_of: Callable[[nn.Module], str | None]) -> None:
        """Put module paths into the stamps on events."""
        if self.stamp is not None:
            self.stamp.named(events, strings, path_of)

    def _mark(self, time: int, device: int | None) -> None:
        here = self._events.setdefault(time, {})
        if device is None or device in here or self._room == 0 or torch.cuda.is_current_stream_capturing():
            return
        here[device] = torch.cuda.Event(enable_timing=True)
        here[device].record(torch.cuda.current_stream(device))
        self._room -= 1

    def _device(self, module: nn.Module) -> int | None:
        """Where a module computes: where its parameters are; one without any, on the current device."""
        if id(module) not in self._device_of:
            first = next(module.parameters(), None)
            index = first.device.index if first is not None and first.is_cuda else None
            self._device_of[id(module)] = torch.cuda.current_device() if first is None else index
        return self._device_of[id(module)]


def _elapsed(start: Any, end: Any) -> int:
    try:
        return max(NONE, round(start.elapsed_time(end) * 1e6))  # milliseconds
    except RuntimeError:  # the device failed in the step, or another thread was capturing a graph
        return NONE
