"""`apply_plan`: checkpoints exactly the segments of a plan on a model as it is, and takes them away again.

A segment of several layers is recomputed together, though the model's own loop calls its layers one by one. Each layer
runs in its turn with the arguments that the model gives it and returns its real output; what autograd saves inside is
dropped into one checkpoint frame, and backward runs the calls again one after the other. So masks that differ from
layer to layer, tuples, collected hidden states and work between the layers stay right. Whatever a layer gets that the
segment did not compute itself is kept, as a checkpoint keeps its input.

Calls are caught by giving each layer a subclass of its own class, as FSDP2 does: paths, parameters, `state_dict` and
`isinstance` stay as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .errors import CaptureError
from .format.plan import Plan, covers
from .segment_frame import SegmentRun, frames_supported

Call = Any
_OURS = "_memstrata_call"


class AppliedPlan:
    """A plan in force; `remove()`, or leaving the `with` block, takes it away. `runs` counts for each segment how
    often it was run under a checkpoint."""

    def __init__(self, model: nn.Module, plan: Plan) -> None:
        self.model, self.plan = model, plan
        self.runs = [0] * len(plan.segments)
        self._segments = _segments(model, plan)
        self._place = {id(m): (n, i) for n, modules in enumerate(self._segments) for i, m in enumerate(modules)}
        self._open: dict[int, _Open] = {}
        self._swapped: list[tuple[nn.Module, type, type]] = []
        for module in [m for modules in self._segments for m in modules]:
            self._swap(module, self._layer_call)
        for module in self._callers():
            self._swap(module, self._caller_call)

    def __enter__(self) -> AppliedPlan:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        self.remove()

    def remove(self) -> None:
        """Take the plan away. Graphs that are still alive keep their checkpoints.

        Raises:
            CaptureError: if something else has changed a layer's class since; the other layers are put back.
        """
        foreign = [type(m).__name__ for m, _, ours in self._swapped if type(m) is not ours]
        for module, before, ours in reversed(self._swapped):
            if type(module) is ours:
                module.__class__ = before
        self._swapped = []
        self._open.clear()
        if foreign:
            raise CaptureError(f"The plan cannot be taken off a {foreign[0]}: its class was changed after apply_plan.")

    def _swap(self, module: nn.Module, handler: Call) -> None:
        before = type(module)

        def call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return handler(self, before.__call__, args, kwargs)

        ours = type(before.__name__, (before,), {"__call__": call, "__module__": before.__module__, _OURS: True})
        module.__class__ = ours
        self._swapped.append((module, before, ours))

    def _callers(self) -> list[nn.Module]:
        """Every module around a segment of several layers: when its call is over, so are the segments begun in it."""
        inside = [path for paths in self.plan.segments if len(paths) > 1 for path in paths]
        return [m for name, m in self.model.named_modules() if id(m) not in self._place
                and any(covers(name, path) for path in inside)]  # fmt: skip

    def _layer_call(self, module: nn.Module, call: Call, args: Any, kwargs: Any) -> Any:
        number, index = self._place[id(module)]
        if not torch.is_grad_enabled():
            return call(module, *args, **kwargs)
        if len(self._segments[number]) == 1:
            self.runs[number] += 1
            return checkpoint(call, module, *args, use_reentrant=False, **kwargs)
        thread = threading.get_ident()
        running = self._open.get(thread)
        if running is None or running.expects != (number, index):
            self.runs[number] += 1
            running = self._open[thread] = _Open(SegmentRun())
        last = index + 1 == len(self._segments[number])
        running.expects = (number, index + 1)
        if last:
            del self._open[thread]
        return running.segment.call(lambda *a, **k: call(module, *a, **k), args, kwargs)

    def _caller_call(self, module: nn.Module, call: Call, args: Any, kwargs: Any) -> Any:
        thread = threading.get_ident()
        outer = self._open.pop(thread, None)
        try:
            return call(module, *args, **kwargs)
        finally:
            self._open.pop(thread, None)  # cut short by an exception or an early exit
            if outer is not None:
                self._open[thread] = outer


class _Open:
    """A segment of several layers that is being called, and which of its layers comes next."""

    def __init__(self, segment: SegmentRun) -> None:
        self.segment = segment
        self.expects = (-1, -1)


def apply_plan(model: nn.Module, plan: Plan | Iterable[Sequence[str]]) -> AppliedPlan:
    """Checkpoint the segments of `plan` on this model: a `Plan`, or for each segment the module paths of its layers.

    The layers of one segment follow one another in one layer list (or are a single module anywhere). Checkpoints are
    non-reentrant and draw the same random numbers again.

    Raises:
        CaptureError: in one sentence, where a path is not in the model, segments overlap, layers of a segment do not
            follow one another, the model is compiled, or another plan is in force.
    """
    wanted = plan if isinstance(plan, Plan) else Plan(tuple(tuple(segment) for segment in plan))
    return AppliedPlan(model, wanted)


def _segments(model: nn.Module, plan: Plan) -> list[list[nn.Module]]:
    """The modules of each segment, after every check that can be made without running the model."""
    modules = dict(model.named_modules(remove_duplicate=False))
    paths = [path for segment in plan.segments for path in segment]
    if compiled := [name for name, m in modules.items() if _is_compiled(m)]:
        raise CaptureError(f"{compiled[0] or 'The model'} is compiled: apply the plan first, then compile.")
    if missing := [path for path in paths if path not in modules]:
        raise CaptureError(f"The model has no module {missing[0]!r}, which the plan names.")
    if any(hasattr(type(m), _OURS) for m in modules.values()):
        raise CaptureError("A plan is in force on this model already: remove it first.")
    if scripted := [name for name in paths if isinstance(modules[name], torch.jit.ScriptModule)]:
        raise CaptureError(f"{scripted[0]} is a script module, which cannot be checkpointed from outside.")
    _check_overlap(paths, modules)
    for segment in plan.segments:
        _check_chain(segment)
    if any(len(segment) > 1 for segment in plan.segments) and not frames_supported():
        raise CaptureError(f"torch {torch.__version__} has no checkpoint frames for segments of several layers.")
    return [[modules[path] for path in segment] for segment in plan.segments]


def _is_compiled(module: nn.Module) -> bool:
    return type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None


def _check_overlap(paths: list[str], modules: dict[str, nn.Module]) -> None:
    seen: dict[int, str] = {}
    for path in paths:
        if (twin := seen.get(id(modules[path]))) is not None:
            again = "twice" if twin == path else f"twice, also as {twin}"
            raise CaptureError(f"The plan names the module {path or 'that is the model'} {again}.")
        seen[id(modules[path])] = path
    for path in paths:
        if around := next((other for other in paths if other != path and covers(other, path)), None):
            raise CaptureError(f"{path} lies inside {around or 'the model'}, which is in the plan too.")


def _check_chain(segment: tuple[str, ...]) -> None:
    if not segment:
        raise CaptureError("A segment of the plan is empty.")
    if len(segment) == 1:
        return
    places = [path.rpartition(".") for path in segment]
    lists = {place[0] for place in places}
    numbers = [int(name) if name.isdecimal() else None for _, _, name in places]
    if len(lists) > 1 or numbers != list(range(numbers[0] or 0, (numbers[0] or 0) + len(numbers))):
        raise CaptureError(f"The layers {', '.join(segment)} do not follow one another in one layer list.")
