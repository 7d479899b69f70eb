"""The raw facts of one step, as hooks report them from any thread; `assemble.py` turns them into tables."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, ParamSpec, TypeVar

import torch

from .device_notes import DeviceNotes
from .format.problems import Problem
from .format.schema import NONE, Fate, Phase, Severity
from .own_frames import is_own
from .storages import Owners, Storages

P = ParamSpec("P")
R = TypeVar("R")

Frame = tuple[CodeType, int]


@dataclass(slots=True)
class Saved:
    """One pack by autograd. Times in Unix ns."""

    time: int
    module: torch.nn.Module | None
    phase: Phase
    fate: Fate
    checkpoint: int
    storage: int
    device: torch.device
    address: int
    storage_bytes: int
    tensor_bytes: int
    shape: str
    dtype: str
    op: str
    frames: tuple[Frame, ...]
    thread: int
    unpack_time: int = NONE


@dataclass(slots=True)
class ModuleCall:
    """A module ran from `start` to `end` (Unix ns)."""

    module: torch.nn.Module
    phase: Phase
    start: int
    end: int
    thread: int


@dataclass(slots=True)
class Interval:
    """A phase of the whole step (Unix ns); `end` is -1 while it runs."""

    phase: Phase
    start: int
    end: int = NONE


@dataclass(slots=True)
class Unpack:
    """Autograd asked for a saved tensor in backward: `start` before, `end` after it was there (Unix ns)."""

    module: torch.nn.Module | None
    start: int
    end: int


@dataclass(slots=True)
class Input:
    """A tensor given to an outermost module; `sizes` None where it has no plain ones."""

    module: torch.nn.Module
    name: str
    sizes: tuple[int, ...] | None
    is_index: bool


@dataclass
class StepLog:
    """Everything hooks saw. Appends are atomic under the interpreter lock; nothing here is thread-local."""

    storages: Storages = field(default_factory=Storages)
    active: bool = False
    start_time: int = NONE
    end_time: int = NONE
    saved: list[Saved] = field(default_factory=list)
    calls: list[ModuleCall] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    unpacks: list[Unpack] = field(default_factory=list)
    recomputations: list[Interval] = field(default_factory=list)
    """Those that a checkpoint announced; a reentrant one does not."""
    roots: list[torch.nn.Module] = field(default_factory=list)
    _parts: tuple[list[int], set[int]] = field(default_factory=lambda: ([], set()))
    """ids of `roots`, and of every module in them."""
    optimizers: dict[int, torch.optim.Optimizer] = field(default_factory=dict)
    """By id: one per parameter is usual where the optimizer steps inside backward."""
    owners: Owners = field(default_factory=Owners)
    checkpoint_modules: dict[int, list[torch.nn.Module]] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    dtype: str | None = None
    losses: list[torch.Tensor | float] = field(default_factory=list)
    loss_scales: list[torch.Tensor | float | None] = field(default_factory=list)
    """For each loss the factor of a gradient scaler, or on a GPU the loss before it; None where no scaler made it."""
    recomputing: Counter[int] = field(default_factory=Counter)
    optimizing: Counter[int] = field(default_factory=Counter)
    optimizer_steps: dict[int, list[Interval]] = field(default_factory=lambda: defaultdict(list))
    """By thread the optimizer steps that run."""
    watch_thread: Callable[[bool], Any] = lambda begins: None
    """Told on another thread when its outermost module begins and ends."""
    checkpointing: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By thread the checkpoints that run: number, and how many modules were open when it began."""
    thread: int = NONE
    """The thread that records."""
    other_threads: set[int] = field(default_factory=set)
    """Other threads that ran forward or started a backward."""
    open_modules: dict[int, list[tuple[torch.nn.Module, Phase, int]]] = field(default_factory=dict)
    create_graph: bool = False
    """Whether the running backward builds a graph itself (double backward)."""
    autocast: bool = False
    """Whether the module entered last ran under autocast with its weight cache; inside an op torch cannot say."""
    failures: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    device: DeviceNotes | None = None
    """What is noted on the device itself at the bounds of modules and phases; None where there is no such device."""

    def phase(self, thread: int) -> Phase:
        """What this thread is doing now. The engine's graph task tells backward from forward on any thread.

        A reentrant checkpoint announces nothing, but it recomputes with gradients on, which backward itself does not
        have unless it builds a graph. So does the closure that an optimizer calls: it is forward, not optimizer.
        """
        if self.recomputing[thread]:
            return Phase.recompute
        if torch._C._current_graph_task_id() != NONE:
            builds_graph = self.create_graph or not torch.is_grad_enabled()
            return Phase.backward if builds_graph else Phase.recompute
        return Phase.optimizer if self.optimizing[thread] and not torch.is_grad_enabled() else Phase.forward

    def phase_inside(self, thread: int) -> Phase:
        """The phase of the innermost module running on this thread: inside a pack hook gradients are always off."""
        stack = self.open_modules.get(thread)
        return stack[-1][1] if stack else self.phase(thread)

    def module(self, thread: int) -> torch.nn.Module | None:
        """The innermost module running on this thread that is part of a model: an activation function that the
        program made on the side and calls inside a layer belongs to the layer."""
        stack = self.open_modules.get(thread)
        if not stack:
            return None
        parts = self._parts_of_models()
        return next((module for module, *_ in reversed(stack) if id(module) in parts), stack[-1][0])

    def _parts_of_models(self) -> set[int]:
        roots = [id(root) for root in self.roots]
        if roots != self._parts[0]:
            self._parts = (roots, {id(module) for root in self.roots for module in root.modules()})
        return self._parts[1]

    def problem(self, code: str, severity: Severity, text: str, count: int = 1) -> None:
        """Remember something that could not be seen."""
        self.problems.append(Problem(code, severity, text, count))

    def release(self) -> None:
        """Let go of the program's objects: a graph that outlives the step keeps its hooks, and they keep this."""
        self.active = False
        self.storages.release()
        for row in self.saved:
            row.module = None
        for held in (self.saved, self.calls, self.unpacks, self.roots, self.optimizers, self.inputs, self.losses,
                     self.loss_scales):  # fmt: skip
            held.clear()
        self.open_modules.clear()
        self.checkpoint_modules.clear()
        self.owners = Owners()

    def interval(self, phase: Phase) -> Interval:
        """Open an interval of a phase."""
        opened = Interval(phase, time.time_ns())
        self.intervals.append(opened)
        if self.device is not None:
            self.device.phase(phase, opened.start)
        return opened

    def end(self, interval: Interval) -> None:
        """Close an interval of a phase."""
        interval.end = time.time_ns()
        if self.device is not None:
            self.device.phase(Phase.other, interval.end)


def guarded(method: Callable[P, R]) -> Callable[P, R | None]:
    """Bookkeeping must not disturb training: a failure is counted, this piece is disarmed, and the step goes on.

    The method's object has `log` and `disarmed`, and may have `let_go`, which ends what it left open.
    """

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        owner: Any = args[0]
        if owner.disarmed or not owner.log.active:
            return None
        try:
            with torch._C.DisableTorchFunction():  # a user's torch-function mode or tensor class sees none of it
                return method(*args, **kwargs)
        except Exception as error:
            owner.disarmed = True
            getattr(owner, "let_go", int)()
            owner.log.failures[f"{type(owner).__name__}: {type(error).__name__}: {error}"] += 1
            return None

    return call


thread_id = threading.get_native_id
"""The native id of the calling thread; an alias, since torch.profiler pays for every Python call inside the step."""


def python_frames(limit: int = 128) -> tuple[Frame, ...]:
    """(code, line) of the calling Python frames, innermost first, without the recorder's own.

    Runs at every pack, so it calls nothing it can do without: the CPU's profiler records each call as an event.
    """
    found: dict[int, Frame] = {}
    frame: Any = sys._getframe(1)
    count = 0
    while frame is not None and count < limit:
        code = frame.f_code
        file = code.co_filename
        if file not in _OWN:
            _OWN[file] = is_own(file)
        if not _OWN[file]:
            found[count] = (code, frame.f_lineno or 0)
            count += 1
        frame = frame.f_back
    return tuple(found.values())


_OWN: dict[str, bool] = {}
"""`is_own` of the files seen."""
