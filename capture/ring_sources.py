"""The sources of allocations as a run of many steps needs them: marked at every step, asked again and again."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import Any

import torch

from .allocation_sources import Allocations, Source
from .allocation_sources.cpu import CpuSource
from .allocation_sources.cuda import CudaSource
from .errors import CaptureError
from .format.interning import StackTable, StringTable
from .format.schema import NONE
from .open_ranges import OpenRanges
from .step_log import StepLog


class CpuRing:
    """torch.profiler, begun anew at every step: what it saw is kept as events, about a hundredth of its own size."""

    longest = 50_000
    """Module calls in a step beyond which it is given up: half a million events of the profiler are some gigabytes."""

    def __init__(self, source: CpuSource) -> None:
        self.source = source
        self.highest = 0
        """The most bytes that lived at once before the last lap, since the one before it."""
        self._ranges = OpenRanges()
        self._parsed_until = NONE
        self._runs = False

    def start(self) -> None:
        """Begin."""
        self.source.start()
        self._ranges.install()
        self._runs = True

    def stop(self) -> None:
        """End for good; what was not looked at by then is lost."""
        self._ranges.remove()
        self.source.stop()
        self._runs = False

    def mark(self) -> None:
        """Time alone says where a step began."""

    def lap(self, stacks: StackTable) -> None:
        """A step has ended: the profiler gives out what it saw, at once or as soon as no range is open."""

        def now() -> None:
            self._look(stacks)
            self._go_on()

        self._when_closed(now)

    def pause(self, stacks: StackTable) -> None:
        """A profiler that nobody stops grows: it must not run on through an evaluation between two steps."""
        self._ranges.then = None
        self._look(stacks)

    def resume(self) -> bool:
        """Go on. Frees were missed."""
        self._when_closed(self._go_on)
        return True

    def forget_before(self, time: int) -> None:
        """Let go of what happened before (Unix ns)."""
        self.source.forget_before(time)

    def forget_all(self) -> None:
        """Let go of everything, of what lives on too."""
        self.source.forget_all()

    def allocations(self, log: StepLog, strings: StringTable, stacks: StackTable, mark: Any) -> Allocations:
        """What happened between the log's two times. Goes on where the log does, once no range is open."""
        if not log.active:
            self.pause(stacks)
            self._ranges.remove()
        elif self._parsed_until < log.end_time:
            self.pause(stacks)
            self.resume()
        return self.source.collect_between(log.start_time, log.end_time, log)

    def _when_closed(self, act: Callable[[], None]) -> None:
        if self._ranges:
            self._ranges.then = act
        else:
            act()

    def _look(self, stacks: StackTable) -> None:
        if self._runs:
            self._runs = False
            self.highest = self.source.pause(stacks)
            self._parsed_until = time_ns()

    def _go_on(self) -> None:
        if not self._runs:
            self.source.start()
            self._runs = True


class CudaRing:
    """The allocator's history is a ring by itself: a step is cut out of it, and it goes on."""

    longest = 500_000

    def __init__(self, source: CudaSource) -> None:
        self.source = source

    @property
    def highest(self) -> int:
        """The most bytes that lived at once, on all devices, since the program last reset torch's own statistics."""
        return sum(torch.cuda.max_memory_allocated(device) for device in range(torch.cuda.device_count()))

    def start(self) -> None:
        """Begin."""
        self.source.start()

    def stop(self) -> None:
        """End for good."""
        self.source.stop()

    def mark(self) -> Any:
        """Where the history is now."""
        return self.source.moment()

    def lap(self, stacks: StackTable) -> None:
        """A step has ended; the history goes on."""

    def pause(self, stacks: StackTable) -> None:
        """The history costs next to nothing, and goes on."""

    def resume(self) -> bool:
        """Nothing was missed."""
        return False

    def forget_before(self, time: int) -> None:
        """The ring forgets by itself."""

    def forget_all(self) -> None:
        """A mark decides what belongs to a step."""

    def allocations(self, log: StepLog, strings: StringTable, stacks: StackTable, mark: Any) -> Allocations:
        """What happened since a mark. Goes on where the log does."""
        if log.active:
            return self.source.cut(self.source.take(), mark, strings, stacks)
        self.source.stop()
        taken = self.source.taken()
        assert taken is not None
        return self.source.cut(taken, mark, strings, stacks)


def ring_of(source: Source) -> CpuRing | CudaRing:
    """The ring over a source; raises CaptureError for one that can only record once."""
    if isinstance(source, CpuSource):
        return CpuRing(source)
    if isinstance(source, CudaSource):
        return CudaRing(source)
    raise CaptureError(f"The source {source.name!r} records one step and cannot wait for one.")
