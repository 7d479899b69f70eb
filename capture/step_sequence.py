"""Steps one after another, of which some are recorded: what every schedule shares.

A step is what lies between `begin` and `end`, a call of a decorated function, or between two marks that `passed` is
called with, each behind an optimizer's step.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, Protocol, TypeVar

import torch

from .allocation_sources.cuda_history import synchronize, used_devices
from .discovery import Found
from .live_recording import LiveRecording
from .messages import say, sentence
from .ring import Bound
from .step_rows import StepRow
from .timed_steps import TimedSteps

P = ParamSpec("P")
R = TypeVar("R")


def careful(method: Callable[P, R]) -> Callable[P, R | None]:
    """A failure of the recorder's own is said and ends the recording; training goes on."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return method(*args, **kwargs)
        except Exception as failure:
            owner: Any = args[0]
            owner.gave_up(failure)
            return None

    return call


class Writer(Protocol):
    """Makes files out of a live recording."""

    def live(self, several: bool, endless: bool = False) -> LiveRecording:
        """One that is not switched on yet."""

    def write(self, live: LiveRecording, others: list[StepRow], error: BaseException | None = None,
              trigger: str | None = None, why: str = "") -> bool:  # fmt: skip
        """Write the steps kept in it, with the rows of others. Says what went wrong and returns whether it wrote."""

    def amend(self, others: list[StepRow]) -> None:
        """Put the rows of steps that were timed since into the file. Never raises."""

    def use(self, found: Found) -> None:
        """What a look at a step found."""

    def model(self) -> torch.nn.Module | None:
        """The model, as far as it is known."""


@dataclass(frozen=True)
class Mark:
    """A moment at which a step may have ended (Unix ns), and its place in the recording where one is switched on."""

    time: int
    bound: Bound | None = None


class StepSequence:
    """Steps one after another, of which some are recorded: the part that every schedule shares."""

    several = True
    """Whether a step may have to be cut out of a recording that is longer."""
    endless = False
    """Whether steps are recorded until the program ends."""

    def __init__(self, writer: Writer, warmup: int) -> None:
        self.done = False
        """Whether nothing is left to do: steps need no longer be announced."""
        self.number = 0
        """Steps that have ended."""
        self.cut_off = False
        """Whether an error ended a step that had begun."""
        self.unreached = False
        """Whether everything ended before the first step to be recorded."""
        self._writer = writer
        self.warmup = warmup
        """Steps before the first to be recorded."""
        self._timed = TimedSteps(writer)
        self._live: LiveRecording | None = None
        self._on = False
        self._process = os.getpid()

    @careful
    def open(self) -> None:
        """Before the first step. Installs what cannot be installed while an optimizer steps."""
        if self.warmup:
            self._timed.look()

    @careful
    def prepare(self) -> None:
        """Install the hooks on optimizers already, since recording may begin while one steps."""
        self._prepared().prepare()

    @careful
    def begin(self) -> None:
        """A step begins."""
        if self._is_due():
            self._switch_on()
        self._begin(self.mark())

    @careful
    def end(self, error: BaseException | None = None) -> None:
        """It ends, or `error` leaves it."""
        self._end(self.mark(wait=error is None), error)
        if self._on and self._live is not None:
            self._live.outside = True

    def mark(self, wait: bool = True) -> Mark:
        """This moment, for which the GPU is waited for, so that times are those of the work and not of its launch."""
        if wait and not self.endless:
            _wait_for_gpu()
        if self._on and self._live is not None:
            bound = self._live.bound()
            return Mark(bound.time, bound)
        return Mark(time.time_ns())

    @careful
    def possible_end(self) -> Mark:
        """An optimizer has stepped: the step ends here unless another one steps before the next forward."""
        mark = self.mark()
        if self._is_due(ahead=1) and self._switch_on():
            assert self._live is not None
            mark = Mark(mark.time, self._live.bound())
        return mark

    @careful
    def passed(self, mark: Mark) -> None:
        """A step ended at this mark, and the next began there."""
        start = time.time_ns()
        self._end(mark, None)
        if not self.done:
            self._begin(mark if self._on else replace(mark, time=mark.time + time.time_ns() - start), inside=True)

    @careful
    def close(self, error: BaseException | None = None, mark: Mark | None = None) -> None:
        """No more steps come; `error` ended them. `mark` is the last possible end since the last step began."""
        if self.done or os.getpid() != self._process:
            return
        self.cut_off = error is not None and mark is None and bool(self.number or self._timed.saw_model())
        if mark is not None:
            self.passed(mark)
        if not self.done:
            self._close(error)
            self._finish()

    def _is_due(self, ahead: int = 0) -> bool:
        """Whether the step that begins next, or `ahead` later, is recorded and nothing is switched on for it yet."""
        raise NotImplementedError

    def _recorded(self, error: BaseException | None) -> None:
        """A recorded step ended."""
        raise NotImplementedError

    def _timed_one(self) -> None:
        """A step was timed."""

    def _close(self, error: BaseException | None) -> None:
        """The last step, if it was one, did not end."""
        raise NotImplementedError

    def _frees_missed(self) -> None:
        """A model ran between two steps, and the source of allocations had to stop meanwhile."""
        raise NotImplementedError

    def _prepared(self) -> LiveRecording:
        if self._live is None:
            self._live = self._writer.live(self.several, self.endless)
        return self._live

    def _switch_on(self) -> bool:
        self._timed.found()
        self._on = self._prepared().begin()
        if not self._on:
            self._finish()
        return self._on

    def _begin(self, mark: Mark, inside: bool = False) -> None:
        if self.done:
            return
        if self._on and self._live is not None:
            assert mark.bound is not None
            self._live.outside = False
            if self._live.resume():
                self._frees_missed()
            self._live.begin_step(StepRow(self._index(), mark.bound.time, recorded=True), mark.bound)
        else:
            self._timed.begin(self.number, mark.time, inside)

    def _index(self) -> int:
        return self.number

    def _end(self, mark: Mark, error: BaseException | None) -> None:
        if self.done:
            return
        recorded = self._live is not None and self._on and self._live.runs
        if recorded and mark.bound is not None:
            assert self._live is not None
            if error is None:
                self._live.end_step(mark.bound)
            self.number += 1
            self._recorded(error)
        else:
            self._timed.end(mark.time, error is None)
            self.number += 1
            self._timed_one()

    def _switch_off(self) -> None:
        """End the live recording, and let go of what it holds."""
        if self._live is not None:
            self._live.end()
            self._live.release()
        self._live, self._on = None, False

    def gave_up(self, failure: Exception) -> None:
        """Say why, and switch everything off."""
        say(f"recording ended early: {sentence(failure)}")
        try:
            self._finish()
        except Exception as error:
            say(f"the recorder could not be switched off: {sentence(error)}")

    def _finish(self) -> None:
        self.done = True
        self._timed.stop()
        self._switch_off()


def _wait_for_gpu() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        with contextlib.suppress(RuntimeError):  # a kernel failed: training meets it by itself at its next call
            synchronize(used_devices())  # the current device may be one that this process never used
