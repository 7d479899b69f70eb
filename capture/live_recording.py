"""Everything that is switched on while steps are recorded: the log, the watches, and the source of allocations."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules import module as nn_module

from .allocation_sources import Allocations, Source, choose
from .communication import CommunicationWatch
from .discovery import Found, choose_root, optimizers_of
from .format.interning import StackTable, StringTable
from .format.schema import NONE, Phase, Severity
from .layers import ModuleWatch
from .messages import say, sentence
from .phases import PhaseWatch, note_gradients, note_parameters, note_state
from .ring import Bound, Ring, as_it_was
from .ring_sources import CpuRing, CudaRing, ring_of
from .saved_tensors import SavedTensorWatch
from .selective import SelectiveCacheWatch
from .step_log import StepLog, thread_id
from .step_rows import StepRow, given_inputs

R = TypeVar("R")


@dataclass
class Kept:
    """A recorded step and its place in the log; `end` is None while it runs."""

    row: StepRow
    start: Bound
    end: Bound | None = None


class LiveRecording:
    """Switched on once; steps begin and end in it.

    The hooks on optimizers are installed first, by `prepare`: torch goes through them by iterating, so that none can
    be added or taken away while an optimizer steps, which is when a step ends and recording may have to begin.
    """

    def __init__(self, found: Callable[[], Found], source: str | Source | None, several: bool = False,
                 endless: bool = False) -> None:  # fmt: skip
        self._found = found
        """Asked when it is switched on: steps that run after `prepare` may have been looked at by then."""
        self.log = StepLog()
        self.source: Source | None = None
        self.strings = StringTable()
        self.stacks = StackTable(self.strings)
        self.kept: list[Kept] = []
        self._asked_source = source
        self._several = several
        self._endless = endless
        self._source_runs = False
        self._room = 0
        self._rings: CpuRing | CudaRing | None = None
        self._bounds = Ring(self.log)
        self._phases: PhaseWatch | None = None
        self._watches: list[Any] = []
        self.outside = False
        """Whether something runs that is no step: a model that is called now is not trained, and pauses this."""
        self._paused = False
        self._outsider: Any = None

    @property
    def highest_bytes(self) -> int:
        """The most bytes that lived at once in the step that ended last, 0 where it is not known; where the step ended
        inside a range of torch's, in the one before."""
        return self._try(lambda rings: rings.highest) or 0

    @property
    def runs(self) -> bool:
        """Whether a step has begun and not ended."""
        return bool(self.kept) and self.kept[-1].end is None

    def prepare(self) -> None:
        """Install what cannot be installed while an optimizer steps. It sees nothing yet."""
        if self._phases is None:
            self._phases = PhaseWatch(self.log)
            self._phases.install()

    def begin(self) -> bool:
        """Switch everything on. Where memory cannot be recorded, says so, and the step runs unrecorded."""
        try:
            source = choose(self._asked_source)
            self._rings = ring_of(source) if self._several else None
            (self._rings or source).start()
        except Exception as error:
            say(f"not recording: {sentence(error)}")
            self._remove()
            return False
        self.source, self._source_runs = source, True
        self._install()
        return True

    def _install(self) -> None:
        log = self.log
        log.active, log.thread = True, thread_id()
        log.storages.address_of = getattr(self.source, "address_of", log.storages.address_of)
        notes = None if self._endless else getattr(self.source, "notes", None)  # a thousand steps would fill them
        log.device = None if notes is None else notes(log)
        try:
            self.prepare()
            self._outsider = nn_module.register_module_forward_pre_hook(self._called)  # before any watch sees the call
            self._watches = [ModuleWatch(log), SavedTensorWatch(log), SelectiveCacheWatch(log), CommunicationWatch(log)]
            self._name_what_is_there()
            for watch in self._watches:
                watch.install()
        except Exception as error:
            self._remove()
            log.failures[f"{type(error).__name__}: {sentence(error)}"] += 1
        log.start_time = time.time_ns()

    def _name_what_is_there(self) -> None:
        found = self._found()
        model, optimizers = found.model(), found.optimizers()
        if model is not None:
            self.log.roots.append(model)
            note_parameters(self.log, model)
            note_gradients(self.log, model)
        for optimizer in optimizers:
            self.log.optimizers[id(optimizer)] = optimizer
            note_state(self.log, optimizer)

    def bound(self, at: int | None = None) -> Bound:
        """The place in the log where a step begins or ends, now; `at` is its time (Unix ns) where that was before."""
        return self._bounds.here(self._rings.mark() if self._rings is not None else None, at)

    def begin_step(self, row: StepRow, bound: Bound) -> None:
        """A step to be recorded begins at this bound."""
        self.kept.append(Kept(row, bound))
        self.log.end_time = NONE
        if self.log.device is not None:
            self.log.device.phase(Phase.other, bound.time)
        self._room = len(self.log.calls) + (self._rings.longest if self._rings is not None else sys.maxsize)

    def end_step(self, bound: Bound) -> None:
        """The step that runs ends at this bound."""
        step = self.kept[-1]
        step.end, step.row.end = bound, bound.time
        self.log.end_time = bound.time
        if self.log.device is not None:
            self.log.device.phase(Phase.other, bound.time)
        self._describe(step, bound)
        self._bounds.step_ended(bound)
        self._try(lambda rings: rings.lap(self.stacks))

    def _describe(self, step: Kept, end: Bound) -> None:
        losses = self._bounds.between("losses", step.start, end)
        step.row.loss = losses[-1] if losses else None
        step.row.given = given_inputs(self._bounds.between("inputs", step.start, end))

    def forget_all_but(self, number: int) -> None:
        """Keep the last steps, and let go of everything before them."""
        if len(self.kept) <= number:
            return
        oldest = self.kept[len(self.kept) - number].start if number else self.kept[-1].end or self.bound()
        del self.kept[: len(self.kept) - number]
        self._bounds.forget_before(oldest)
        self._try(lambda rings: rings.forget_before(oldest.time))

    def forget_allocations(self) -> None:
        """Let go of what lives on, too."""
        self._try(lambda rings: rings.forget_all())

    def drop_running(self) -> None:
        """The step that began last turns out to be none."""
        if self.kept and self.kept[-1].end is None:
            self.kept.pop()

    # While something that is no step runs, such as an evaluation, nothing is seen; a profiler must not run on.

    def _called(self, module: nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():  # a compiled region must not trace the recorder
            return
        if thread_id() != self.log.thread:  # a profiler can only be stopped where it was started
            return
        if self.outside:
            self.pause()
        elif len(self.log.calls) > self._room:
            self._room = sys.maxsize
            text = "More modules ran in one step than can be kept; from there on it was not seen."
            self.log.problem("step_too_long", Severity.error, text)
            self.pause()

    def pause(self) -> None:
        """See nothing until `resume`."""
        if self._paused or self._rings is None:
            return
        self._paused, self.log.active = True, False
        self._try(lambda rings: rings.pause(self.stacks))

    def resume(self) -> bool:
        """See again. Returns whether frees may have been missed in between."""
        if not self._paused:
            return False
        self._paused = False
        missed = self._try(lambda rings: rings.resume())
        self.log.active = True
        return missed is not False

    def _try(self, act: Callable[[CpuRing | CudaRing], R]) -> R | None:
        """A source that fails is counted, and the step goes on without it."""
        if self._rings is None or not self._source_runs:
            return None
        try:
            return act(self._rings)
        except Exception as error:
            self._source_runs = False
            self.log.failures[f"{type(self.source).__name__}: {sentence(error)}"] += 1
            return None

    def end(self) -> None:
        """Switch everything off and put everything back; never raises. A ring is read out after this."""
        log = self.log
        if log.end_time == NONE:
            log.end_time = time.time_ns()
        if log.device is not None and log.active:
            log.device.phase(Phase.other, log.end_time)
        log.active = False
        self._remove()
        if self._rings is None:
            self._stop_source()

    def _stop_source(self) -> None:
        if self.source is None or not self._source_runs:
            return
        self._source_runs = False
        try:
            (self._rings or self.source).stop()
        except Exception as error:
            self.log.failures[f"{type(self.source).__name__}: {sentence(error)}"] += 1

    def _remove(self) -> None:
        if self._outsider is not None:
            self._outsider.remove()
            self._outsider = None
        for watch in reversed([*([self._phases] if self._phases is not None else []), *self._watches]):
            try:
                watch.remove()
            except Exception as error:  # what one could not put back must not keep the others from it
                self.log.failures[f"{type(watch).__name__}: {sentence(error)}"] += 1
        self._watches, self._phases = [], None

    def model(self) -> nn.Module | None:
        """The model that was trained, None if no module ran."""
        log = self.log
        self._bounds.remember_optimizers()
        if not log.calls and not log.failures:  # what failed may be what sees the calls
            return None
        found = self._found()
        return found.model() if found.given else choose_root(log.roots, list(log.optimizers.values()))

    def note_unused(self, model: nn.Module) -> None:
        """Name gradients that no backward made, and the state of optimizers that did not step. Never raises."""
        try:
            note_gradients(self.log, model)
            for optimizer in optimizers_of(model):
                self.log.optimizers[id(optimizer)] = optimizer
                note_state(self.log, optimizer)
        except Exception as error:
            self.log.failures[f"{type(error).__name__}: {sentence(error)}"] += 1

    def allocations(self) -> Allocations:
        """What was allocated and freed in the steps that are kept. After `end`, or out of a ring that goes on."""
        assert self.source is not None
        if self._rings is None:
            return self.source.collect(self.log, self.strings, self.stacks)
        self._source_runs = self._source_runs and self.log.active
        return self._rings.allocations(self.log, self.strings, self.stacks, self.kept[0].start.mark)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """The log as it was when the last of the steps that are kept ended, or as it is while that one runs."""
        first, last = self.kept[0], self.kept[-1]
        if last.end is None:
            self._describe(last, self._bounds.here())
        self.log.start_time = first.start.time
        if last.end is not None:
            self.log.end_time = last.end.time
        elif self.log.active:
            self.log.end_time = time.time_ns()
        with as_it_was(self.log, self.log.end_time):
            yield

    def release(self) -> None:
        """Let go of the program's objects."""
        self._stop_source()
        self.log.release()
        self.source, self._rings, self.kept, self._bounds = None, None, [], Ring(self.log)
        self.strings = StringTable()
        self.stacks = StackTable(self.strings)
