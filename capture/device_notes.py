"""What is noted on the device itself while modules and phases begin and end; the CPU has nothing to note."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from .format.schema import Events, Phase

if TYPE_CHECKING:
    from torch import nn

    from .format.interning import StringTable


class DeviceNotes(Protocol):
    """Called by the watches, from any thread, with the very times (Unix ns) that they note themselves.

    Nothing here may synchronise the device, compute on it, or raise.
    """

    def entered(self, module: nn.Module, phase: Phase, time: int) -> None:
        """A module begins to run on this thread."""

    def left(self, module: nn.Module, time: int) -> None:
        """The innermost module that ran on this thread ended."""

    def unpacking(self, module: nn.Module | None, time: int) -> None:
        """Backward asks for a tensor that this module saved."""

    def unpacked(self, module: nn.Module | None, time: int) -> None:
        """Backward has the tensor that this module saved."""

    def phase(self, phase: Phase, time: int) -> None:
        """Backward or the optimizer begins on this thread (`other`: it ended)."""

    def worked(self, start: int, end: int) -> int:
        """Nanoseconds that the device worked between two times noted here, -1 where it was not measured."""

    def named(self, events: Events, strings: StringTable, path_of: Callable[[nn.Module], str | None]) -> None:
        """Put module paths into what was stamped on events (which it changes); the path is None for other models."""
