"""The operators whose outputs a selective checkpoint can keep, as they ran in a recorded forward.

`create_selective_checkpoint_contexts` keeps the outputs of some operators and computes the rest of a segment again.
It sees operators as torch dispatches them, below autograd: `mm`, not `linear`. A recording on the CPU, a dry run, and
one with C++ stacks name them in the stack of every allocation, so which bytes are an operator's output is a fact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import B1, F64, I64, NONE

from ..model.stacks import OPERATOR, nearest
from .step_facts import StepFacts

KINDS: dict[str, tuple[str, ...]] = {
    "matmul": ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm"),
    "attention": (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_fused_attention_overrideable",
        "_flash_attention_forward",
        "_efficient_attention_forward",
    ),
    "convolution": ("convolution",),
}
"""What can be kept: operators of torch's `aten` by kind."""

NO_OPERATORS = (
    "The recording does not say which operator made an allocation, so operators cannot be kept one by one: record on a"
    " CPU, make a dry run, or record with C++ stacks."
)


@dataclass(frozen=True, eq=False)
class Operators:
    """Allocations that operators of `KINDS` made; rows are those of the run's allocations."""

    names: tuple[str, ...]
    """Operators that ran, as `mm`."""
    made_by: I64
    """Number of the operator that made each allocation, -1 for any other."""
    is_output: B1
    """Whether it outlives the call that made it; what does not is the kernel's own working memory."""
    seconds: F64
    """From when it was made or freed to whatever was seen next: together the time that the operator took."""

    def rows(self, keep: Iterable[str]) -> B1:
        """Allocations made inside calls of these operators."""
        numbers = [number for number, name in enumerate(self.names) if name in set(keep)]
        chosen: B1 = np.isin(self.made_by, numbers)
        return chosen


def operators(facts: StepFacts) -> Operators:
    """The operators of a run. ValueError with one sentence where its stacks do not name them."""
    run = facts.run
    known = {name for names in KINDS.values() for name in names}
    frames = run.recording.frames
    called = [_operator(run.recording.strings[int(name)]) for name in frames.name]
    if not any(called):
        raise ValueError(NO_OPERATORS)
    names = tuple(sorted({name for name in called if name in known}))
    number = np.array([names.index(name) if name in known else NONE for name in called], np.int64)
    stacks = run.recording.stacks
    inside = np.append(nearest(stacks.parent, number[stacks.frame] != NONE), NONE)
    call, freed = inside[run.allocations.stack], inside[run.allocations.free_stack]
    made_by = np.where(call >= 0, number[stacks.frame[call]], NONE).astype(np.int64)
    made_by = np.where(facts.birth_run >= 0, made_by, NONE)
    is_output = (made_by >= 0) & (freed != call)
    return Operators(names, made_by, is_output, _seconds(facts, made_by, is_output))


def _operator(name: str) -> str:
    """`mm` of `aten::mm` or of torch's C++ frame of it; empty for any other frame."""
    if name.startswith("aten::"):
        return name.removeprefix("aten::")
    found = OPERATOR.match(name)
    return found[1] if found else ""


def _seconds(facts: StepFacts, made_by: I64, is_output: B1) -> F64:
    """A kernel begins when its output has been allocated, and is over when the next thing happens at all."""
    run, time = facts.run, facts.run.events.time
    seconds = np.zeros(len(made_by), np.float64)
    if time is None:
        return seconds
    seen = np.sort(np.concatenate([time, facts.packs.time, facts.runs.stop_time]))
    rows = np.flatnonzero(made_by >= 0)
    seconds[rows] = _until_next(seen, time[run.allocations.start[rows] - 1])
    inside = rows[~is_output[rows] & (run.allocations.end[rows] <= run.n_events)]
    seconds[inside] += _until_next(seen, time[run.allocations.end[inside] - 1])
    return seconds


def _until_next(seen: I64, time: I64) -> F64:
    then = np.searchsorted(seen, time, side="right")
    return (seen[np.minimum(then, len(seen) - 1)] - time).clip(min=0) / 1e9


@dataclass(frozen=True, eq=False)
class Kept:
    """The operators whose outputs are kept, laid out for `segment_effect`."""

    inside: B1
    """Allocations that are not made again: outputs, and working memory of calls that do not happen again."""
    outputs: B1
    seconds: F64


def kept(found: Operators, keep: Iterable[str]) -> Kept:
    """The outputs of these operators."""
    inside = found.rows(keep)
    return Kept(inside, inside & found.is_output, np.where(inside, found.seconds, 0.0))


@dataclass(frozen=True)
class Choice:
    """What keeping the outputs of one operator in every layer would cost, and spare in a step."""

    operator: str
    outputs: int
    """In the pass with the peak."""
    bytes: int
    """Of these together, which stay from forward until they are used again."""
    seconds: float | None
    """Of computing them again in all passes of the step; None where nothing was timed."""


def choices(facts: StepFacts, found: Operators) -> tuple[Choice, ...]:
    """Each operator by itself, most seconds for its bytes first."""
    timed = facts.run.recording.meta.has_durations
    in_pass, in_step = (np.append(runs, False)[facts.birth_run] for runs in (facts.in_pass, facts.in_step))
    out = []
    for number, name in enumerate(found.names):
        rows = np.flatnonzero((found.made_by == number) & found.is_output & in_pass)
        if len(rows):
            seconds = float(found.seconds[(found.made_by == number) & in_step].sum())
            size = int(facts.run.allocations.bytes[rows].sum())
            out.append(Choice(name, len(rows), size, seconds if timed else None))
    return tuple(sorted(out, key=lambda each: -(each.seconds or 0) / each.bytes))


def kinds_that_ran(found: Operators) -> tuple[str, ...]:
    """What can be kept, as `parse_keep` reads it: nothing, each kind of operator that ran, and all of them."""
    ran = [kind for kind, names in KINDS.items() if set(names) & set(found.names)]
    return ("", *ran, *([",".join(ran)] if len(ran) > 1 else []))


def parse_keep(text: str, found: Operators) -> tuple[str, ...]:
    """Of `matmul,attention` or operators by name: the operators that ran. ValueError with one sentence for a word
    that is neither, and for one that names nothing that ran."""
    out: list[str] = []
    for word in filter(None, text.replace(" ", "").split(",")):
        names = KINDS.get(word, (word.removeprefix("aten."),))
        ran = [name for name in names if name in found.names]
        if not ran:
            known = word in KINDS or any(names[0] in each for each in KINDS.values())
            ending = "ran in a layer of this step" if known else f"can be kept; there is {', '.join(KINDS)}"
            raise ValueError(f"no operator called {word!r} {ending}")
        out += [name for name in ran if name not in out]
    return tuple(out)
