"""`record_step` and `Recorder`: the life cycle of one recorded training step.

Recording never changes what training computes, never swallows its exceptions, and puts back everything it replaced.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn

from .allocation_sources import Source, choose
from .assemble import assemble
from .discovery import Discovery, Found, choose_root
from .errors import CaptureError
from .format import files
from .format.interning import StackTable, StringTable
from .format.recording import Recording
from .format.schema import Severity
from .layers import ModuleWatch
from .phases import PhaseWatch, note_gradients, note_parameters, note_state
from .saved_tensors import SavedTensorWatch
from .step_log import StepLog, thread_id
from .summary import peak_line

P = ParamSpec("P")
R = TypeVar("R")

WARMUP = 3
"""Calls before the recorded one: optimizer state exists then, and the unrecorded calls give an honest step time."""


class Recorder:
    """Records what happens inside `with Recorder(path): ...` as one training step, and writes it to `path`.

    Args:
        path: the `.mstrata` file to write; its folder must exist and be writable.
        model: the model; by default the outermost module called whose parameters the optimizer holds.
        optimizer: the optimizer; by default every one whose `step` runs.
        super_block: layers per super-block; by default found from the module tree.
        source: `cpu` or `cuda`; by default CUDA where this process uses it.

    Raises:
        CaptureError: before the step, if the path cannot be written or the arguments make no sense. Failures after
            the step began are one sentence on stderr, and training goes on.
    """

    def __init__(
        self, path: str | os.PathLike[str] = "step.mstrata", *, model: nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None, super_block: int | None = None, source: str | None = None,
    ) -> None:  # fmt: skip
        self.path = _writable(path)
        if source not in (None, "cpu", "cuda"):
            raise CaptureError(f"The source must be 'cpu' or 'cuda', not {source!r}.")
        if super_block is not None and super_block < 1:
            raise CaptureError(f"A super-block has at least one layer, not {super_block}.")
        self.written = False
        """Whether the file was written."""
        self.step_index: int | None = None
        self.unrecorded_seconds: float | None = None
        self._found = Found.of(model, optimizer)
        self._super_block = super_block
        self._source_name = source
        self._source: Source | None = None
        self._log = StepLog()
        self._watches: list[Any] = []

    def __enter__(self) -> Recorder:
        self._log, self.written = StepLog(), False
        try:
            source = choose(self._source_name)
            source.start()
        except Exception as error:  # the step has not begun, and runs unrecorded
            _say(f"not recording: {_sentence(error)}")
            return self
        self._source = source
        self._install()
        return self

    def use(self, found: Found) -> None:
        """What a look at an earlier call found; anything given by the user stays."""
        self._found = self._found.or_else(found)

    def _install(self) -> None:
        log = self._log
        log.active, log.thread = True, thread_id()
        self._watches = [PhaseWatch(log), ModuleWatch(log), SavedTensorWatch(log)]
        try:
            self._name_what_is_there()
            for watch in self._watches:
                watch.install()
        except Exception as error:
            self._remove()
            log.failures[f"{type(error).__name__}: {_sentence(error)}"] += 1
        log.start_time = time.time_ns()

    def _name_what_is_there(self) -> None:
        model, optimizers = self._found.model(), self._found.optimizers()
        if model is not None:
            self._log.roots.append(model)
            note_parameters(self._log, model)
            note_gradients(self._log, model)
        for optimizer in optimizers:
            self._log.optimizers[id(optimizer)] = optimizer
            note_state(self._log, optimizer)

    def _remove(self) -> None:
        for watch in reversed(self._watches):
            try:
                watch.remove()
            except Exception as error:  # what one could not put back must not keep the others from it
                self._log.failures[f"{type(watch).__name__}: {_sentence(error)}"] += 1
        self._watches = []

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        if self._source is None:
            return
        log = self._log
        log.end_time = time.time_ns()
        log.active = False
        self._remove()
        try:
            self._source.stop()
            if error is not None:
                _note_exception(log, error)
            self._finish()
        except Exception as failure:  # the step is over; a recorder's failure is said, never raised into training
            _say(f"the step was not recorded: {_sentence(failure)}")
        finally:
            log.release()
            self._log, self._source = StepLog(), None

    def _finish(self) -> None:
        log = self._log
        model = self._found.model() if self._found.given else choose_root(log.roots, list(log.optimizers.values()))
        if not log.calls or model is None:
            _say("the step was not recorded: it ran no torch.nn.Module.")
            return
        note_parameters(log, model)
        recording = self._recording(model)
        files.write(recording, self.path)
        self.written = True
        _say(peak_line(recording, self.path))

    def _recording(self, model: nn.Module) -> Recording:
        assert self._source is not None
        strings = StringTable()
        stacks = StackTable(strings)
        allocations = self._source.collect(self._log, strings, stacks)
        meta = {
            "source": self._source.name,
            "memstrata_version": _version(),
            "super_block_override": self._super_block,
            "step_index": self.step_index,
            "step_seconds_recorded": (self._log.end_time - self._log.start_time) / 1e9,
            "step_seconds_unrecorded": self.unrecorded_seconds,
            **_rank(),
        }
        if not any(True for _ in model.parameters()):
            self._log.problem("no_parameters", Severity.info, "The recorded model has no parameters.")
        return assemble(self._log, model, allocations, strings, stacks, meta)


def record_step(
    path: str | os.PathLike[str] = "step.mstrata", *, warmup: int = WARMUP, model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None, super_block: int | None = None, source: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:  # fmt: skip
    """Decorate a function that performs one training step: the call after `warmup` calls is recorded to `path`.

    The other calls are only timed until then, and left alone afterwards. For the other arguments see `Recorder`.

    Raises:
        CaptureError: at decoration, if the path cannot be written or the arguments make no sense.
    """
    if callable(path):
        raise CaptureError("record_step needs parentheses: @record_step('before.mstrata').")
    if warmup < 0:
        raise CaptureError(f"warmup counts the calls before the recorded one and cannot be {warmup}.")
    recorder = Recorder(path, model=model, optimizer=optimizer, super_block=super_block, source=source)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _check_function(function)
        schedule = _Schedule(recorder, warmup)

        @functools.wraps(function)
        def step(*args: P.args, **kwargs: P.kwargs) -> R:
            if schedule.done:
                return function(*args, **kwargs)
            return schedule.call(function, *args, **kwargs)

        return step

    return decorate


def _check_function(function: Callable[..., Any]) -> None:
    """The body of a generator or coroutine runs after its call has returned: there would be nothing to record."""
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if not callable(function) or any(is_kind(function) for is_kind in kinds):
        name = getattr(function, "__qualname__", type(function).__name__)
        raise CaptureError(f"record_step needs a plain function; in {name} put `with Recorder(path):` around the step.")


class _Schedule:
    """Which call of a decorated function does what."""

    def __init__(self, recorder: Recorder, warmup: int) -> None:
        self.done = False
        self._recorder = recorder
        self._warmup = warmup
        self._calls = 0
        self._seconds: list[float] = []

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        number = self._calls
        self._calls += 1
        if number < self._warmup:
            return self._unrecorded(number, function, *args, **kwargs)
        self.done = True
        self._recorder.step_index = number
        self._recorder.unrecorded_seconds = _step_seconds(self._seconds)
        with self._recorder:
            return function(*args, **kwargs)

    def _unrecorded(self, number: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        discovery = Discovery() if number == 0 else None
        start = _now()
        try:
            if discovery is None:
                return function(*args, **kwargs)
            with discovery:
                return function(*args, **kwargs)
        finally:
            self._seconds.append(_now() - start)
            if discovery is not None:
                self._recorder.use(discovery.found())


def _step_seconds(seconds: list[float]) -> float | None:
    """Median of at least two calls; the first, slowed by lazy initialisation, counts only if it must."""
    usable = seconds[1:] if len(seconds) > 2 else seconds
    return median(usable) if len(usable) >= 2 else None


def _now() -> float:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def _writable(path: str | os.PathLike[str]) -> Path:
    target = Path(path).absolute()
    try:
        target.lstat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CaptureError(f"{os.fspath(path)!r} cannot be written: {reason}.") from error
    if target.is_dir():
        raise CaptureError(f"{target} is a folder; record_step needs the name of a file.")
    if not target.parent.is_dir():
        raise CaptureError(f"The folder {target.parent} does not exist, so {target.name} cannot be written.")
    if not os.access(target.parent, os.W_OK):
        raise CaptureError(f"The folder {target.parent} is not writable, so {target.name} cannot be written.")
    return target


def _note_exception(log: StepLog, error: BaseException) -> None:
    text = f"The step raised {type(error).__name__}: {_sentence(error)}"
    log.problem("step_raised", Severity.error, text[:500])


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _say(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        print(f"memstrata: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # stderr is closed: nobody is there to be told


def _version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("memstrata")
    except PackageNotFoundError:
        return None


def _rank() -> dict[str, int]:
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return {}
    return {"rank": distributed.get_rank(), "world_size": distributed.get_world_size()}
