"""`check_plan`: does a step compute the same with a plan as without it?

Recomputation has to repeat what forward did. Three things can keep it from that: random numbers drawn from a
generator that the checkpoint does not put back, state that forward changed (batch statistics, counters), and what a
module remembers beyond its buffers (a cache). The first module that shows it is named, in the order in which they ran,
and watched through one more step to say which of them it was.

Where nothing differs, steps without and with the plan are timed in turn, so that what else the machine does meets both.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module
from torch.utils import _pytree as pytree

from .checkpointing import apply_plan
from .format.plan import Plan
from .plan_causes import TEXTS, Cause


@dataclass(frozen=True)
class PlanCheck:
    """`equal` where loss, gradients and buffers came out bit-equal; else `module` is where it began."""

    equal: bool
    text: str
    """One sentence."""
    module: str = ""
    cause: str = ""
    """`random numbers`, `batch statistics`, `cache` (what a module remembers beyond its buffers), `unknown`,
    `not repeatable` (already without a plan), `gradients`, or empty."""
    seconds_before: float | None = None
    """Median of unrecorded steps without the plan, on the clock; None where they were not timed."""
    seconds_after: float | None = None
    """The same with the plan."""

    def throughput(self, tokens: int) -> tuple[float, float] | None:
        """(before, after): tokens per second, or samples, if a step has so many; None where steps were not timed."""
        if not self.seconds_before or not self.seconds_after:
            return None
        return tokens / self.seconds_before, tokens / self.seconds_after


def check_plan(
    model: nn.Module, step: Callable[[], Tensor], plan: Plan | Iterable[Sequence[str]], timed_steps: int = 3
) -> PlanCheck:
    """Run `step`, which returns the loss of one forward, and its backward: once as the model is, once under the plan.
    Where both compute the same, `timed_steps` more of each are timed, none for 0.

    All begin with the same random numbers and buffers. Gradients, buffers and the random state are afterwards what
    they were before; what modules keep outside their buffers cannot be put back.

    Raises:
        CaptureError: if the plan cannot be applied.
    """
    wanted = plan if isinstance(plan, Plan) else Plan(tuple(tuple(segment) for segment in plan))
    before = _State(model)
    try:
        plain = _outcome(model, step)
        before.restore()
        with apply_plan(model, wanted) as applied, _Watch(model) as watch:
            planned = _outcome(model, step)
        before.restore()
        if watch.first is not None:
            return _explained(model, step, wanted, watch.first[1])
        found = _judged(plain, planned, applied.runs)
        return _timed(found, model, step, wanted, before, timed_steps) if found.equal and timed_steps > 0 else found
    finally:
        before.restore()


def _timed(
    found: PlanCheck, model: nn.Module, step: Callable[[], Tensor], plan: Plan, state: _State, steps: int
) -> PlanCheck:
    """Steps in turn: one without, one with the plan."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(steps):
        state.restore()
        times[0].append(_seconds(model, step))
        state.restore()
        with apply_plan(model, plan):
            times[1].append(_seconds(model, step))
    return replace(found, seconds_before=median(times[0]), seconds_after=median(times[1]))


def _seconds(model: nn.Module, step: Callable[[], Tensor]) -> float:
    for parameter in model.parameters():
        parameter.grad = None
    _finish()
    start = perf_counter()
    step().backward()
    _finish()
    return perf_counter() - start


def _finish() -> None:
    """The device works on behind the host."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class _State:
    """Gradients, buffers and random numbers, to start from again."""

    def __init__(self, model: nn.Module) -> None:
        self.gradients = [(p, p.grad) for p in model.parameters()]
        self.buffers = [(b, b.detach().clone()) for b in model.buffers()]
        self.random = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []
        for parameter, _ in self.gradients:
            parameter.grad = None

    def restore(self) -> None:
        with torch.no_grad():
            for buffer, value in self.buffers:
                buffer.copy_(value)
        for parameter, gradient in self.gradients:
            parameter.grad = gradient
        torch.set_rng_state(self.random)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)


@dataclass(frozen=True)
class _Outcome:
    loss: str
    gradients: dict[str, str]
    buffers: dict[str, str]


def _outcome(model: nn.Module, step: Callable[[], Tensor]) -> _Outcome:
    for parameter in model.parameters():
        parameter.grad = None
    loss = step()
    loss.backward()
    gradients = {name: digest(p.grad) for name, p in model.named_parameters() if p.grad is not None}
    return _Outcome(digest(loss), gradients, {name: digest(b) for name, b in model.named_buffers()})


class _Watch:
    """The outputs of every module, by digest: call by call in forward, and again in the recomputation."""

    def __init__(self, model: nn.Module) -> None:
        self._paths = {id(module): name for name, module in model.named_modules()}
        self._forward: dict[int, list[str]] = defaultdict(list)
        self._again: dict[int, int] = defaultdict(int)
        self.first: tuple[int, str] | None = None
        """(how many outputs had come in forward, path) of the first output that the recomputation did not repeat."""
        self._order: dict[tuple[int, int], int] = {}
        self._handle: Any = None

    def __enter__(self) -> _Watch:
        self._handle = nn_module.register_module_forward_hook(self._ran)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _ran(self, module: nn.Module, args: Any, output: Any) -> None:
        path = self._paths.get(id(module))
        if path is None:
            return
        said = "".join(digest(leaf) for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor))
        if torch._C._current_graph_task_id() == -1:
            self._order[id(module), len(self._forward[id(module)])] = len(self._order)
            self._forward[id(module)].append(said)
            return
        call = self._again[id(module)]
        self._again[id(module)] += 1
        calls = self._forward[id(module)]
        if call < len(calls) and said not in calls:
            place = self._order[id(module), call]
            if self.first is None or place < self.first[0]:
                self.first = (place, path)


def _explained(model: nn.Module, step: Callable[[], Tensor], plan: Plan, path: str) -> PlanCheck:
    """The step under the plan once more, with the module that did not repeat its output looked at."""
    cause = Cause(digest)
    with apply_plan(model, plan), cause.watching(model.get_submodule(path)):
        _outcome(model, step)
    text = f"{path or 'The model'} gives another output when it is recomputed: {TEXTS[cause.text]}"
    return PlanCheck(False, text, path, cause.text)


def _judged(plain: _Outcome, planned: _Outcome, runs: list[int]) -> PlanCheck:
    if plain.loss != planned.loss:
        text = "The loss of two steps without recomputation differs already: the step itself is not repeatable."
        return PlanCheck(False, text, "", "not repeatable")
    if buffer := _first_difference(plain.buffers, planned.buffers):
        path = buffer.rpartition(".")[0]
        text = f"{path or 'The model'} updates {buffer.rpartition('.')[2]} twice, in forward and when it is recomputed."
        return PlanCheck(False, text, path, "batch statistics")
    if name := _first_difference(plain.gradients, planned.gradients):
        text = f"The gradient of {name} differs, though every module repeated its output."
        return PlanCheck(False, text, name.rpartition(".")[0], "gradients")
    if not any(runs):
        return PlanCheck(True, "Nothing differs, but no segment of the plan ran with gradients: it has no effect here.")
    return PlanCheck(True, "Loss, gradients and buffers are bit-equal with and without the plan.")


def _first_difference(one: dict[str, str], two: dict[str, str]) -> str:
    return next((name for name in one if one[name] != two.get(name)), "")


def digest(tensor: Tensor | None) -> str:
    """A fingerprint of a tensor's values, shape and dtype."""
    if tensor is None:
        return ""
    with torch.no_grad():
        flat = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
        raw = flat.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.blake2b(raw.tobytes(), digest_size=16).hexdigest() + f"{tuple(tensor.shape)}{tensor.dtype}"
