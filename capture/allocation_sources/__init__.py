"""Where allocations come from. Every source yields the same tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from ..format.interning import StackTable, StringTable
from ..format.problems import Problem
from ..format.recording import Device
from ..format.schema import Table
from ..step_log import StepLog


@dataclass
class Allocations:
    """What a source measured: `tables` holds events and, where there is an allocator to ask, its end state."""

    devices: tuple[Device, ...]
    tables: dict[str, Table]
    has_reserved: bool
    settings: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    """Fields of `Meta` that this source knows better than the recorder."""


class Source(Protocol):
    """Measures allocations between `start` and `stop`.

    One on whose device something can be noted in the step has a method `notes(log)` that returns `DeviceNotes`.
    """

    name: str

    def start(self) -> None:
        """Begin; raises CaptureError if this cannot be measured now."""

    def stop(self) -> None:
        """End; must not raise and must leave nothing switched on that was off."""

    def collect(self, log: StepLog, strings: StringTable, stacks: StackTable) -> Allocations:
        """The tables of what was measured, after `stop`."""


def choose(name: str | Source | None) -> Source:
    """The source of that name (`cpu` or `cuda`), or the one given; by default CUDA where this process uses it."""
    if not (name is None or isinstance(name, str)):
        return name
    import torch

    from .cpu import CpuSource
    from .cuda import CudaSource

    if name is None:
        name = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else "cpu"
    return CudaSource() if name == "cuda" else CpuSource()
