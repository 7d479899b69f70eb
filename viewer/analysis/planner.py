"""The planner: from one recording without checkpoints, what any plan would make of the step.

Every segment's effect is computed once and kept; a plan's curve is the measured one plus the effects of its segments,
so that a slider can move over plans. Bytes are measured ones, times those of the recorded forward. `keeping` gives the
same for selective checkpoints, which keep the outputs of some operators.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from memstrata.capture.format.plan import Plan, Ranges, every
from memstrata.capture.format.schema import I64, NONE

from ..model.cut_off import cut_off_position
from ..model.run import Run
from .operators import Choice, Kept, Operators, choices, kept, operators
from .segment_effect import SegmentEffect, segment_effect
from .step_facts import StepFacts, step_facts

CHECKPOINT_SECONDS = 3e-3
"""What one checkpoint costs the host beside running its segment again: random state saved and put back, and a hook in
Python for every saved tensor. Measured on two busy cores: 0.7 ms where a segment computes next to nothing, else 1.4 to
3.2 ms."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a plan would do. Bytes at each position 0 .. n_events of the measured step, before recomputations peak."""

    plan: Plan
    ranges: Ranges
    bytes: I64
    activation_bytes: I64
    recomputed: tuple[tuple[int, int], ...]
    """(position, bytes of the highest moment) of each recomputation; it stands before the state at the position."""
    extra_seconds: float | None
    """Of forward run again, per step; None where nothing was timed (a dry run)."""
    checkpoints: int
    """How often segments run again in one step."""
    layers_again: int
    """Forwards of layers that are run again in one step."""
    until: int
    """The last position that counts for the peaks."""
    cached_bytes: int = 0
    """Outputs of operators that selective checkpoints keep, at their own highest moment."""

    @property
    def at_most_seconds(self) -> float | None:
        """With what the checkpoints cost besides."""
        return None if self.extra_seconds is None else self.extra_seconds + CHECKPOINT_SECONDS * self.checkpoints

    @property
    def peak_bytes(self) -> int:
        """Of the whole step."""
        return max(self._highest_bytes, max((high for _, high in self._counted), default=0))

    @property
    def _highest_bytes(self) -> int:
        return int(self.bytes[: self.until + 1].max())

    @property
    def _counted(self) -> list[tuple[int, int]]:
        return [(position, high) for position, high in self.recomputed if position <= self.until]

    @property
    def peak_position(self) -> int:
        """The first position with the peak, or of the recomputation that reaches it."""
        highest, at = self.peak_bytes, int(self.bytes[: self.until + 1].argmax())
        again = [position for position, high in self._counted if high == highest]
        return min([*again, at] if int(self.bytes[at]) == highest else again)

    @property
    def peak_in_recompute(self) -> bool:
        """Whether the peak is inside a recomputation."""
        return self.peak_bytes > self._highest_bytes

    @property
    def activation_peak_bytes(self) -> int:
        """Kept plus rematerialised, at its own highest moment."""
        return int(self.activation_bytes[: self.until + 1].max())

    def line(self) -> tuple[I64, I64]:
        """(positions, bytes) of a line of steps; a position with a recomputation occurs twice, the first time with
        the recomputation's highest moment."""
        positions = np.arange(len(self.bytes), dtype=np.int64)
        if not self.recomputed:
            return positions, self.bytes
        at, high = (np.array(column, np.int64) for column in zip(*sorted(self.recomputed), strict=True))
        return np.insert(positions, at, at), np.insert(self.bytes, at, high)


class Planner:
    """Plans over one run. ValueError with one sentence where the recording does not allow it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.facts: StepFacts = step_facts(run)
        self.keep: tuple[str, ...] = ()
        """Operators whose outputs the checkpoints keep."""
        self._kept: Kept | None = None
        self._effects: dict[tuple[int, int], SegmentEffect] = {}

    @cached_property
    def operators(self) -> Operators:
        """What can be kept. ValueError with one sentence where the recording does not say."""
        return operators(self.facts)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """What keeping each operator would cost and spare. ValueError as for `operators`."""
        return choices(self.facts, self.operators)

    def keeping(self, keep: tuple[str, ...]) -> Planner:
        """The planner of checkpoints that keep the outputs of these operators (names out of `operators`)."""
        other = copy(self)
        other.keep, other._effects = keep, {} if keep != self.keep else self._effects
        other._kept = kept(self.operators, keep) if keep else None
        return other

    @cached_property
    def until(self) -> int:
        """The last position by which plans are judged: a step that an error cut off did not go through its backward,
        so what a plan would make of it is not known. Where it has the peak itself, it is all there is to go by."""
        cut = cut_off_position(self.run.recording, self.run.events)
        return self.run.n_events if cut is None or self.run.peak_position > cut else cut

    @cached_property
    def lists(self) -> Ranges:
        """The layer lists as ranges of layers; no segment crosses from one to the next."""
        number = self.run.recording.layers.list
        edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
        return tuple(pairwise(edges))

    def prepare(self, said: Callable[[float], None] = lambda _: None) -> None:
        """Look at every segment of every equal cut, so that a slider over segment lengths has them at hand.
        `said(fraction done)` may raise to stop it."""
        longest = max(stop - start for start, stop in self.lists)
        for length in range(1, longest + 1):
            said((length - 1) / longest)
            for each in self.every(length):
                self.effect(*each)

    def effect(self, first: int, last: int) -> SegmentEffect:
        """The effect of one segment of layers first .. last - 1."""
        key = (first, last)
        if key not in self._effects:
            self._effects[key] = segment_effect(self.facts, first, last, self._kept)
        return self._effects[key]

    def every(self, length: int) -> Ranges:
        """Segments of `length` layers in each layer list. ValueError unless 1 <= length <= the longest list."""
        longest = max(stop - start for start, stop in self.lists)
        if not 1 <= length <= longest:
            raise ValueError(f"a segment has 1 to {longest} layers in this model, not {length}")
        return tuple((a + start, b + start) for start, stop in self.lists for a, b in every(stop - start, length))

    def plan_of(self, ranges: Ranges) -> Plan:
        """The plan with these ranges of layers as segments."""
        return Plan.of(self.run.layers.names, ranges)

    def ranges_of(self, plan: Plan) -> Ranges:
        """The segments of a plan as ranges of layers. ValueError where one is not a run of whole layers."""
        row = {name: number for number, name in enumerate(self.run.layers.names)}
        found = []
        for paths in plan.segments:
            layers = [row.get(path, -1) for path in paths]
            whole = bool(layers) and -1 not in layers and layers == list(range(layers[0], layers[-1] + 1))
            if not whole or not any(a <= layers[0] and layers[-1] < b for a, b in self.lists):
                raise ValueError(f"the segment {', '.join(paths) or '(empty)'} is not a run of layers of one list")
            found.append((layers[0], layers[-1] + 1))
        found.sort()
        if any(a[1] > b[0] for a, b in pairwise(found)):
            raise ValueError("two segments of the plan share a layer")
        return tuple(found)

    def outcome(self, plan: Plan | Ranges) -> Outcome:
        """What this plan, or these ranges of layers as segments, would make of the step."""
        ranges = self.ranges_of(plan) if isinstance(plan, Plan) else plan
        effects = [self.effect(*each) for each in ranges]
        bytes_, activations, cached = self._added(effects)
        recomputed = [
            (position, int(bytes_[position]) - made + growth)
            for effect in effects
            for position, growth, made in effect.recomputed
        ]
        return Outcome(
            plan if isinstance(plan, Plan) else self.plan_of(plan),
            ranges, bytes_, activations, tuple(recomputed), self.seconds(effects),
            sum(effect.checkpoints for effect in effects), sum(effect.layers_again for effect in effects),
            self.until, int(cached.max(initial=0)),
        )  # fmt: skip

    def _added(self, effects: list[SegmentEffect]) -> tuple[I64, I64, I64]:
        """(all bytes, activations, what caches hold) at each position."""
        run, nothing = self.run, np.zeros(1, np.int64)
        if not effects:
            return run.curve, run.activation_curve, nothing
        cached = self._summed(effects, [effect.cached_deltas for effect in effects]) if self.keep else nothing
        activations = run.activation_curve + self.activations_added(effects)
        return run.curve + self._summed(effects, [effect.deltas for effect in effects]), activations, cached

    def activations_added(self, effects: list[SegmentEffect]) -> I64:
        """What these segments add to the activations at each position."""
        return self._summed(effects, [effect.activation_deltas for effect in effects])

    def _summed(self, effects: list[SegmentEffect], deltas: list[I64]) -> I64:
        """These deltas, added up from position to position."""
        added = np.zeros(self.run.n_events + 2, np.int64)
        if effects:
            where = np.concatenate([effect.positions for effect in effects])
            np.add.at(added, np.minimum(where, self.run.n_events + 1), np.concatenate(deltas))
        return added.cumsum()[: self.run.n_events + 1]

    @cached_property
    def time_scale(self) -> float:
        """Unrecorded step time / that of the recorded step with the peak; 1 where no unrecorded step was timed."""
        meta, recorded = self.run.recording.meta, _seconds_of_peak_step(self.run)
        return meta.step_seconds_unrecorded / recorded if recorded and meta.step_seconds_unrecorded else 1.0

    def seconds(self, effects: list[SegmentEffect]) -> float | None:
        """What running these segments again takes, scaled to an unrecorded step where one was timed."""
        if not self.run.recording.meta.has_durations:
            return None
        return sum(effect.seconds for effect in effects) * self.time_scale


def _seconds_of_peak_step(run: Run) -> float | None:
    """How long the step with the peak took; of a recording of one step, and where it was cut off, as the file says."""
    table = run.recording.steps
    rows = np.flatnonzero(table.recorded)
    if len(rows) > 1:
        row = rows[np.argsort(table.start_time[rows], kind="stable")][run.passes.step[run.passes.peak]]
        if table.end_time[row] != NONE:
            return float(table.end_time[row] - table.start_time[row]) / 1e9
    return run.recording.meta.step_seconds_recorded
