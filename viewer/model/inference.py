"""What a plain snapshot tells without a recorder: phases by stacks and annotations, categories by who made an
allocation and in which pass it died. Evidence for `attribution`, which decides; a recording is never inferred.

What was made before a backward pass, in forward or by a plain function, and freed in it is an activation: autograd
held it. What backward made and left behind, or zero_grad freed, is a gradient. What an optimizer step made and left
behind is its state. What a recomputation made and backward freed is rematerialized. What the pass that made it freed
is temporary. What autocast freed on leaving is its cache. What was there before forward and is never freed is a
parameter if no more allocations are of its size than gradients are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I32, I64, NONE, U8, Category, Phase

from .allocations import Allocations
from .events import DeviceEvents
from .inference_frames import StackEvidence, stack_evidence
from .inference_phases import Interval, Phases, annotated, edges, is_step, numbered, phases_of


class Why(IntEnum):
    """Why an allocation stays unattributed."""

    told = 0
    no_training = 1
    before = 2
    outside = 3
    held = 4
    cut = 5
    replaced = 6

    @property
    def sentence(self) -> str:
        """For people."""
        return _SENTENCES[self]


_SENTENCES = {
    Why.told: "",
    Why.no_training: "the trace shows no backward pass and no optimizer step",
    Why.before: "alive before the trace: its parameters, optimizer state and the rest look alike",
    Why.outside: "made outside forward, backward and optimizer",
    Why.held: "held beyond the pass that would tell",
    Why.cut: "the trace ends before it is freed",
    Why.replaced: "the optimizer step makes parameters anew, and its state looks like them",
}


@dataclass(frozen=True, eq=False)
class Inferred:
    """Phases of events, categories of allocations, and the steps, as far as there is evidence."""

    phases: Phases
    category: U8
    """For each allocation; `unattributed` without evidence."""
    why: U8
    """For each allocation, the `Why` of those without evidence."""
    steps: tuple[tuple[int, int], ...]
    """(first, last position) of each training step that the trace shows to its end."""

    def runs(self) -> list[tuple[Phase, int, int]]:
        """(phase, first position, last position) in order, without gaps; [] where no phase is known."""
        phase = self.phases.phase
        if not (phase != Phase.other).any():
            return []
        cuts = edges(phase).tolist()
        return [(Phase(int(phase[a])), a, b) for a, b in pairwise(cuts)]


def infer(recording: Recording, events: DeviceEvents, allocations: Allocations) -> Inferred:
    """What the trace of one device of a plain snapshot tells."""
    said = stack_evidence(recording)
    intervals = annotated(recording, events)
    phases = phases_of(recording, events, said, intervals)
    lives = _lives(phases, allocations, len(events))
    category = _categories(said, phases, allocations, lives)
    why = _why(phases, allocations, lives)
    if (category == Category.gradient).any():
        sizes = _gradients_by_size(allocations, lives, category)
        category[_parameters(sizes, phases, allocations, lives, category)] = Category.parameter
        alike = _replaced(sizes, lives, category)
        category[alike] = Category.unattributed
        why[alike] = Why.replaced
    why[category != Category.unattributed] = Why.told
    return Inferred(phases, category, why, _steps(phases, intervals))


@dataclass(frozen=True, eq=False)
class _Lives:
    """Birth and death of each allocation; phase `other` and pass -1 where there was none in the trace."""

    born: U8
    died: U8
    born_in: I32
    died_in: I32
    same_run: B1
    """Born and freed in one uninterrupted stretch of one phase."""
    outlives: B1
    """Alive after the pass that made it, which the trace shows to its end."""
    never_freed: B1


def _lives(phases: Phases, allocations: Allocations, n: int) -> _Lives:
    made = np.where(allocations.before, NONE, allocations.start - 1)
    freed = np.where(allocations.end > n, NONE, allocations.end - 1)
    phase = np.append(phases.phase, np.uint8(Phase.other))
    passes = np.append(phases.passes, np.int32(NONE))
    run = np.append(numbered(phases.phase), np.int32(NONE))
    born_in, died_in = passes[made], passes[freed]
    whole = np.append(phases.whole, False)[born_in]
    return _Lives(
        born=phase[made], died=phase[freed], born_in=born_in, died_in=died_in,
        same_run=(run[made] == run[freed]) & (made != NONE) & (freed != NONE),
        outlives=whole & (born_in != died_in), never_freed=freed == NONE,
    )  # fmt: skip


def _categories(said: StackEvidence, phases: Phases, allocations: Allocations, lives: _Lives) -> U8:
    """The weakest evidence first: what comes later overrules it."""
    out = np.full(len(allocations), Category.unattributed, np.uint8)
    if not phases.training or not len(allocations):
        return out
    born, died = lives.born, lives.died
    in_backward = (died == Phase.backward) | (died == Phase.recompute)
    one_pass = (lives.born_in == lives.died_in) & (lives.born_in != NONE) & (born != Phase.other)
    made_again = (born == Phase.recompute) & in_backward & ~lives.same_run
    out[one_pass] = Category.temporary
    made_before = (born == Phase.forward) | ((born == Phase.other) & ~allocations.before)
    out[(made_before & in_backward) | _cut_activations(phases, allocations, lives)] = Category.activation
    out[made_again & one_pass] = Category.rematerialized
    out[(born == Phase.backward) & lives.outlives] = Category.gradient
    out[_states(said, phases, allocations, lives)] = Category.optimizer_state
    out[said.zeroes_gradients[allocations.free_stack] & (born != Phase.forward)] = Category.gradient
    out[said.uncasts[allocations.free_stack]] = Category.autocast_cache
    return out


def _cut_activations(phases: Phases, allocations: Allocations, lives: _Lives) -> B1:
    """Older than a trace that begins within a step, and freed in the first backward pass that it shows."""
    known = np.flatnonzero(phases.phase != Phase.other)
    if not len(known) or phases.phase[known[0]] == Phase.optimizer or known[0] != 0:
        return np.zeros(len(allocations), np.bool_)
    backward = np.flatnonzero((phases.phase == Phase.backward) | (phases.phase == Phase.recompute))
    first = phases.passes[backward[0]] if len(backward) else NONE
    found: B1 = allocations.before & ~lives.never_freed & (lives.died_in == first)
    return found


def _states(said: StackEvidence, phases: Phases, allocations: Allocations, lives: _Lives) -> B1:
    """Made by an optimizer step and alive after it. Of one older than the trace the stack of its block tells."""
    late = lives.never_freed | (lives.died == Phase.optimizer) | (lives.died == Phase.other)
    made = (lives.born == Phase.optimizer) & lives.outlives
    begins_outside = len(phases.phase) > 0 and phases.phase[0] != Phase.optimizer
    older = allocations.before & (said.phase[allocations.stack] == Phase.optimizer) & begins_outside
    found: B1 = (made | older) & late
    return found


@dataclass(frozen=True, eq=False)
class _Sizes:
    """The allocations by size."""

    number: I64
    """For each allocation the number of its size."""
    gradients: I64
    """For each size, the most gradients of it that one backward pass made."""

    def of_a_pass(self) -> I64:
        """For each allocation, the most gradients of its size that one backward pass made."""
        return self.gradients[self.number]

    def count(self, mask: B1) -> I64:
        """For each allocation, how many of its size are in the mask."""
        return np.bincount(self.number[mask], minlength=len(self.gradients))[self.number]


def _gradients_by_size(allocations: Allocations, lives: _Lives, category: U8) -> _Sizes:
    sizes, number = np.unique(allocations.bytes, return_inverse=True)
    mine = np.flatnonzero(category == Category.gradient)
    passes = int(lives.born_in.max(initial=0)) + 2
    made, count = np.unique(number[mine] * passes + lives.born_in[mine] + 1, return_counts=True)
    most = np.zeros(len(sizes), np.int64)
    np.maximum.at(most, made // passes, count)
    return _Sizes(number, most)


def _parameters(sizes: _Sizes, phases: Phases, allocations: Allocations, lives: _Lives, category: U8) -> B1:
    """There before the first forward pass, never freed, and no more of one size than one backward pass has gradients
    of that size. Where the baseline holds optimizer state too there are more, and nothing tells them apart."""
    forward = np.flatnonzero(phases.phase == Phase.forward)
    first = int(forward[0]) if len(forward) else 0
    early = allocations.before | ((lives.born == Phase.other) & (allocations.start <= first))
    there = early & lives.never_freed & (category == Category.unattributed)
    most = sizes.of_a_pass()
    matched: B1 = there & (sizes.count(there) <= most) & (most > 0)
    return matched


def _replaced(sizes: _Sizes, lives: _Lives, category: U8) -> B1:
    """Optimizer state of sizes of which there are too few other allocations to be the parameters: an optimizer that
    makes parameters anew holds them among what it leaves behind."""
    states = category == Category.optimizer_state
    others = ~states & (lives.born != Phase.optimizer) & lives.never_freed & (category != Category.gradient)
    alike: B1 = states & (sizes.count(others) < sizes.of_a_pass())
    return alike


def _why(phases: Phases, allocations: Allocations, lives: _Lives) -> U8:
    out = np.full(len(allocations), Why.held, np.uint8)
    out[lives.never_freed] = Why.cut
    out[lives.born == Phase.other] = Why.outside
    out[allocations.before] = Why.before
    if not phases.training:
        out[:] = Why.no_training
    return out


def _steps(phases: Phases, intervals: tuple[Interval, ...]) -> tuple[tuple[int, int], ...]:
    """As the profiler's own annotations say, else each from the end of an optimizer step to that of the next."""
    marked = tuple((each.first, each.last) for each in intervals if is_step(each) and each.closed)
    if marked:
        return marked
    cuts = edges(phases.passes).tolist()
    ends: list[int] = []
    trained = False
    for number, (first, last) in enumerate(pairwise(cuts)):
        phase = phases.phase[first] if last > first else Phase.other
        if phase == Phase.optimizer and phases.whole[number]:
            if trained or not ends:
                ends.append(last)
            else:
                ends[-1] = last  # a second optimizer of the same step
        trained = phase in (Phase.forward, Phase.backward, Phase.recompute) or (trained and phase == Phase.other)
    begins = [0, *ends[:-1]]
    return tuple(zip(begins, ends))
