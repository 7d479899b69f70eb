"""The prediction laid over a measured step: predicted bytes at positions of the spans that were recorded.

Forward rises where each layer's forward ends, by what stays kept and by the boundary of a segment that begins there.
Backward falls where each layer's backward ends. Under a plan each segment rises again where its layers have been
recomputed, or, where that was not measured, where the backward of its last layer begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from memstrata.capture.format.plan import ModelShape, Plan, covers
from memstrata.capture.format.schema import B1, I64, NONE, Phase

from ..model.run import Run
from .prediction import Step, schedule
from .shape import plan_in_force, shape_of


class Base(Enum):
    """What the predicted activations stand on."""

    nothing = "activations only"
    measured = "on top of what is no activation"


@dataclass(frozen=True, eq=False)
class PredictedCurve:
    """A line of steps: `bytes[i]` holds from `positions[i]` up to `positions[i + 1]`, the last one to the end.

    A position may occur twice, first with the highest value reached there, then with the value that stays.
    """

    positions: I64
    bytes: I64
    base: Base

    @property
    def peak_bytes(self) -> int:
        """The maximum."""
        return int(self.bytes.max(initial=0))

    @property
    def peak_position(self) -> int:
        """Where the maximum is first reached."""
        return int(self.positions[int(self.bytes.argmax())])

    def at(self, position: int) -> int:
        """What stays at a position; 0 before the first step."""
        row = int(self.positions.searchsorted(position, "right")) - 1
        return int(self.bytes[row]) if row >= 0 else 0


def predicted_curve(
    run: Run, shape: ModelShape | None = None, plan: Plan | None = None, base: Base = Base.nothing
) -> PredictedCurve | None:
    """The predicted bytes over this run; shape and plan are the run's own unless given. None without a shape or
    spans. With `Base.nothing` its maximum is `predict(shape, plan).timeline_peak_bytes` for a step that runs every
    layer once."""
    steps = predicted_steps(run, shape, plan)
    if steps is None:
        return None
    curve = steps.curve()
    positions, totals = curve.positions, curve.bytes
    if base is Base.nothing:
        return curve
    dense = at_every_position(positions, totals, run.n_events)
    other = run.curve - run.activation_curve
    return PredictedCurve(np.arange(run.n_events + 1, dtype=np.int64), dense + other, base)


def at_every_position(positions: I64, totals: I64, n_events: int) -> I64:
    """A line of steps as one value per position 0 .. n_events; the highest where a position occurs twice."""
    last = np.searchsorted(positions, np.arange(n_events + 1), side="right") - 1
    dense: I64 = np.where(last >= 0, totals[np.maximum(last, 0)], 0)
    np.maximum.at(dense, positions, totals)
    return dense


@dataclass(frozen=True, eq=False)
class PredictedSteps:
    """Every rise and fall of a prediction, in the order of the positions at which they lie in a run."""

    positions: I64
    deltas: I64
    layer: I64
    """To which layer the bytes belong, -1 outside the layers."""

    def curve(self, layers: Sequence[int] | None = None) -> PredictedCurve:
        """The line of these layers' share, None for all and what lies outside."""
        mine = np.isin(self.layer, layers) if layers is not None else np.ones(len(self.layer), np.bool_)
        positions = np.append(0, self.positions[mine])
        totals = np.append(0, self.deltas[mine]).cumsum()
        return PredictedCurve(*_thinned(positions, totals), Base.nothing)


def predicted_steps(run: Run, shape: ModelShape | None = None, plan: Plan | None = None) -> PredictedSteps | None:
    """The rises and falls of all passes through the model, as for `predicted_curve`."""
    shape = shape or shape_of(run)
    plan = plan_in_force(run) if plan is None else plan
    if shape is None or not len(run.spans) or len(run.layers) != len(shape.layers):
        return None
    steps = schedule(shape, plan)
    places = _Places(run, plan)
    passes = [
        np.maximum.accumulate([0, *(places.of(step, call) for step in steps)])[1:] for call in range(places.passes)
    ]
    positions = np.concatenate([np.empty(0, np.int64), *passes]).astype(np.int64)
    deltas = np.array([step.bytes for step in steps] * len(passes), np.int64)
    layer = np.array([step.layer for step in steps] * len(passes), np.int64)
    order = np.argsort(positions, kind="stable")
    return PredictedSteps(positions[order], deltas[order], layer[order])


def _thinned(positions: I64, totals: I64) -> tuple[I64, I64]:
    """Of the totals at one position the highest, if it stands out on both sides, and the last."""
    starts = np.flatnonzero(np.diff(positions, prepend=-1))
    ends = np.append(starts[1:], len(positions)) - 1
    highest, final = np.maximum.reduceat(totals, starts), totals[ends]
    before = np.concatenate(([0], final[:-1]))
    spike = highest > np.maximum(before, final)
    pairs = np.stack([highest, final], axis=1).ravel()
    keep = np.stack([spike, np.ones(len(spike), bool)], axis=1).ravel()
    return np.repeat(positions[starts], 2)[keep].astype(np.int64), pairs[keep].astype(np.int64)


class _Places:
    """Where in the recording each step of the schedule happens."""

    def __init__(self, run: Run, plan: Plan) -> None:
        self.spans = run.spans
        self.n_events = run.n_events
        self.is_layer: B1 = run.spans.module == _module_of(run)
        self.paths = [run.recording.strings[int(i)] for i in run.recording.modules.path]
        self.segments = [self._recomputed_by(paths) for paths in plan.segments]
        self.last_layer = _last_layers(run, plan)
        forward = self.is_layer & (run.spans.phase == Phase.forward)
        self.passes = int(run.spans.call[forward].max(initial=0)) + 1
        self._known: dict[tuple[int, int, str, int, int], int] = {}

    def of(self, step: Step, call: int) -> int:
        """The position at which this step is done in this pass."""
        outside = step.term.module if step.layer == NONE else ""
        key = (step.phase, step.layer, outside, step.segment if step.phase == Phase.recompute else -1, call)
        if key not in self._known:
            self._known[key] = self._find(step, call)
        return self._known[key]

    def _find(self, step: Step, call: int) -> int:
        if step.phase == Phase.recompute:
            rows = self.segments[step.segment] & (self.spans.layer == step.layer)
            found = self._last_end(rows, call)
            return self._backward_start(self.last_layer[step.segment], call) if found is None else found
        if step.layer == NONE:
            return self._outside(step, call)
        ran = self.is_layer & (self.spans.phase == step.phase)
        found = self._last_end(ran & (self.spans.layer == step.layer), call)
        if found is None:  # a layer that was not seen is done with the one before it
            return -1 if ran.any() else self.n_events
        return found

    def _outside(self, step: Step, call: int) -> int:
        """Where the module outside the layers has run; the loss's backward is before that of any module. What was not
        seen is done with the step before it, ahead of the layers when they begin."""
        spans = self.spans
        if not step.term.module and step.phase == Phase.backward:
            began = (spans.module >= 0) & (spans.phase == step.phase) & (spans.call == call)
            return int(spans.start_position[began].min(initial=self.n_events))
        inside = [covers(step.term.module, path) for path in self.paths] if step.term.module else []
        rows = np.isin(spans.module, np.flatnonzero(inside)) & (spans.phase == step.phase)
        found = self._last_end(rows, call)
        if found is None and step.phase == Phase.forward:
            layers = self.is_layer & (spans.phase == step.phase) & (spans.call == call)
            found = int(spans.start_position[layers].min(initial=self.n_events))
        return -1 if found is None else found

    def _recomputed_by(self, paths: tuple[str, ...]) -> B1:
        rows: B1 = (self.spans.phase == Phase.recompute) & (self.spans.module >= 0)
        if not rows.any():  # a step without checkpoints, over which other plans are laid
            return rows
        inside = np.array([any(covers(path, module) for path in paths) for module in self.paths] or [False])
        covered: B1 = rows & inside[np.maximum(self.spans.module, 0)]
        return covered

    def _last_end(self, rows: B1, call: int) -> int | None:
        chosen = np.flatnonzero(rows & (self.spans.call == call))
        return int(self.spans.end_position[chosen].max()) if len(chosen) else None

    def _backward_start(self, layer: int, call: int) -> int:
        rows = self.is_layer & (self.spans.phase == Phase.backward) & (self.spans.layer == layer)
        chosen = np.flatnonzero(rows & (self.spans.call == call))
        return int(self.spans.start_position[chosen].min()) if len(chosen) else self.n_events


def _module_of(run: Run) -> I64:
    """For each span the module row of the layer it lies in, -2 outside layers."""
    layer = run.spans.layer
    rows = np.append(run.layers.modules, -2)
    return rows[np.where(layer >= 0, layer, -1)].astype(np.int64)


def _last_layers(run: Run, plan: Plan) -> list[int]:
    """The last layer that each segment touches."""
    out = []
    for paths in plan.segments:
        touched = [
            number
            for number, name in enumerate(run.layers.names)
            if any(covers(path, name) or covers(name, path) for path in paths)
        ]
        out.append(touched[-1] if touched else 0)
    return out
