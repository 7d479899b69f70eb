"""`record_step` and `Recorder`: how recording is asked for.

Recording never changes what training computes, never swallows its exceptions, and puts back everything it replaced.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn

from .allocation_sources import Source
from .armed import KEEP, TRIGGERS, Armed
from .discovery import Found
from .errors import CaptureError
from .making import Maker
from .messages import say
from .schedule import Schedule
from .step_boundaries import StepBoundaries
from .step_sequence import StepSequence
from .unreached import calls_text, loop_text

P = ParamSpec("P")
R = TypeVar("R")

WARMUP = 3
"""Steps before the recorded one: optimizer state exists then, and the unrecorded steps give an honest step time."""


class Recorder:
    """Records what happens inside `with Recorder(path): ...` as one training step, and writes it to `path`.

    With `steps`, `warmup` or `on` the block holds a training loop instead, and a step is what lies between two
    optimizer steps: it ends behind the last one before the next forward (see `step_boundaries`).

    Args:
        path: the `.mstrata` file to write; its folder must exist and be writable. Where there are several ranks, each
            writes its own file: `step.mstrata` becomes `step.mstrata.d/rank-00.mstrata` and so on, and a path that
            ends in `/` is that folder.
        steps: how many consecutive steps of a loop to record; the file is written as soon as they have ended.
        warmup: steps of a loop before the recorded ones; they and up to three later ones are timed.
        on: `oom`, `peak` or `signal`: keep the last steps of a loop, and write them when an out-of-memory error leaves
            the block, when a step needs 2% more memory than any before it, or when a signal arrives; each time anew.
        keep: complete steps written before the one in which `on` happened, two by default. Zero with `signal` costs
            nothing until then.
        signal: number of the signal that `on="signal"` waits for; SIGUSR1 by default. The program's own handler is
            called too, and put back.
        model: the model; by default the outermost module called whose parameters the optimizer holds.
        optimizer: the optimizer; by default every one whose `step` runs.
        super_block: layers per super-block; by default found from the module tree.
        source: `cpu` or `cuda`, or a source of one's own; by default CUDA where this process uses it.

    Raises:
        CaptureError: before the step, if the path cannot be written or the arguments make no sense. Failures after
            the step began are one sentence on stderr, and training goes on.
    """

    def __init__(
        self, path: str | os.PathLike[str] = "step.mstrata", *, steps: int | None = None, warmup: int | None = None,
        on: str | None = None, keep: int | None = None, signal: int | None = None, model: nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None, super_block: int | None = None,
        source: str | Source | None = None,
    ) -> None:  # fmt: skip
        _check(steps, warmup, super_block, source)
        _check_waiting(steps, on, keep, signal)
        self._maker = Maker(path, Found.of(model, optimizer), super_block, source)
        self.step_index: int | None = None
        """Number of the step that the block is, where it is known."""
        self.steps_seen = 0
        """Steps that have ended in the block."""
        self.option = "warmup="
        """What names the step to record, for where a loop ended before it."""
        self._loop = any(asked is not None for asked in (steps, warmup, on))
        self._choice = (steps or 1, warmup, on, KEEP if keep is None else keep, signal)
        self._sequence: StepSequence | None = None
        self._boundaries: StepBoundaries | None = None

    @property
    def path(self) -> Path:
        """The path that was asked for."""
        return self._maker.target.path

    @property
    def file(self) -> Path:
        """The file written last: `path`, or this rank's in the folder of its run."""
        return self._maker.target.file

    @property
    def written(self) -> bool:
        """Whether the file was written."""
        return self._maker.written

    def __enter__(self) -> Recorder:
        self._maker.begin()
        if self._loop:
            self._sequence = self.sequence(loop=True)
            self._boundaries = StepBoundaries(self._sequence)
            self._boundaries.install()
        else:
            self._sequence = Schedule(self._maker, after=0, index=self.step_index)
            self._sequence.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        sequence, boundaries, self._sequence, self._boundaries = self._sequence, self._boundaries, None, None
        if boundaries is not None:
            boundaries.remove(error)
        elif sequence is not None:
            sequence.end(error)
        self.steps_seen = sequence.number if sequence is not None else 0
        if sequence is not None and boundaries is not None and sequence.unreached:
            say(loop_text(self.steps_seen, sequence.warmup, boundaries.optimizer_steps, error, sequence.cut_off,
                          self.option))  # fmt: skip

    def use(self, found: Found) -> None:
        """What a look at an earlier step found; anything given by the user stays."""
        self._maker.use(found)

    def sequence(self, loop: bool) -> StepSequence:
        """What is to happen in which step; in a `loop` nobody says where steps begin and end."""
        steps, warmup, on, keep, number = self._choice
        if on is not None:
            return Armed(self._maker, on, keep, _warmup(warmup, on, 0 if loop else WARMUP), number)
        return Schedule(self._maker, _warmup(warmup, on, 0 if loop else WARMUP), steps, loop=loop)

    @property
    def _source(self) -> Any:
        return self._maker.last.source if self._maker.last is not None else None


def _warmup(warmup: int | None, on: str | None, usual: int) -> int:
    """The first steps run out of memory most often; a peak is one only after them."""
    if warmup is not None:
        return warmup
    return {None: usual, "oom": 0}.get(on, WARMUP)


def _check(steps: int | None, warmup: int | None, super_block: int | None, source: Any) -> None:
    if isinstance(source, str) and source not in ("cpu", "cuda"):
        raise CaptureError(f"The source must be 'cpu' or 'cuda', not {source!r}.")
    if super_block is not None and super_block < 1:
        raise CaptureError(f"A super-block has at least one layer, not {super_block}.")
    if steps is not None and steps < 1:
        raise CaptureError(f"At least one step is recorded, not {steps}.")
    if warmup is not None and warmup < 0:
        raise CaptureError(f"warmup counts the steps before the recorded one and cannot be {warmup}.")


def _check_waiting(steps: int | None, on: str | None, keep: int | None, signal: int | None) -> None:
    if on is not None and on not in TRIGGERS:
        raise CaptureError(f"on must be one of {', '.join(map(repr, TRIGGERS))}, not {on!r}.")
    if on is not None and steps is not None:
        raise CaptureError("Recording waits for something, or records so many steps: on and steps exclude each other.")
    if keep is not None and on is None:
        raise CaptureError("keep counts the steps before the one that on waits for, and needs on.")
    if keep is not None and keep < 0:
        raise CaptureError(f"keep counts the steps before the one that is waited for and cannot be {keep}.")
    if signal is not None and on != "signal":
        raise CaptureError("signal is what on='signal' waits for, and needs it.")


def record_step(
    path: str | os.PathLike[str] = "step.mstrata", *, warmup: int | None = None, steps: int | None = None,
    on: str | None = None, keep: int | None = None, signal: int | None = None, model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None, super_block: int | None = None, source: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:  # fmt: skip
    """Decorate a function that performs one training step: the call after `warmup` calls is recorded to `path`.

    The file is written at once. The calls before and up to three after are timed, and the file then says how long a
    step takes unrecorded; after that a call costs nothing. With `steps` so many consecutive calls are recorded.
    With `on` every call is, and the last ones are written when that happens, as often as it does; without a `warmup`
    of one's own that begins with the first call for `oom`, else with the fourth. For the other arguments see
    `Recorder`.

    Raises:
        CaptureError: at decoration, if the path cannot be written or the arguments make no sense.
    """
    if callable(path):
        raise CaptureError("record_step needs parentheses: @record_step('before.mstrata').")
    recorder = Recorder(path, steps=steps, warmup=warmup, on=on, keep=keep, signal=signal, model=model,
                        optimizer=optimizer, super_block=super_block, source=source)  # fmt: skip

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _check_function(function)
        calls = _Calls(recorder, getattr(function, "__name__", type(function).__name__))

        @functools.wraps(function)
        def step(*args: P.args, **kwargs: P.kwargs) -> R:
            if calls.done:
                return function(*args, **kwargs)
            return calls.call(function, *args, **kwargs)

        weakref.finalize(step, calls.close)  # at the latest when the interpreter ends
        return step

    return decorate


def _check_function(function: Callable[..., Any]) -> None:
    """The body of a generator or coroutine runs after its call has returned: there would be nothing to record."""
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if not callable(function) or any(is_kind(function) for is_kind in kinds):
        name = getattr(function, "__qualname__", type(function).__name__)
        raise CaptureError(f"record_step needs a plain function; in {name} put `with Recorder(path):` around the step.")


class _Calls:
    """The calls of a decorated function as steps: those that it makes of itself, and those of other threads, are
    none."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.done = False
        self._recorder = recorder
        self._name = name
        self._error = ""
        """The kind of error that left the last call."""
        self._steps: StepSequence | None = None
        self._thread = 0
        self._running = False

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        steps = self._begun()
        if self._running or self._thread != threading.get_ident():
            return function(*args, **kwargs)
        self._running = True
        steps.begin()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            self._error = type(error).__name__
            steps.end(error)
            raise
        else:
            self._error = ""
            steps.end()
            return result
        finally:
            self._running = False
            self.done = steps.done

    def close(self) -> None:
        """Nobody can call the function any more."""
        steps = self._steps
        if steps is None:
            return
        steps.close()
        if steps.unreached:
            say(calls_text(self._name, steps.number, steps.warmup, self._error))

    def _begun(self) -> StepSequence:
        if self._steps is None:
            self._thread = threading.get_ident()
            self._recorder._maker.begin()
            self._steps = self._recorder.sequence(loop=False)
            self._steps.open()
        return self._steps
