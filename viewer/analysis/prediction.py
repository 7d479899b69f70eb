"""Analytic bytes from shapes alone: what a step keeps for backward, without and with a checkpoint plan.

The schedule walks the layers once forward and once backward. Forward keeps every term outside the plan's segments,
and one boundary (its input) for each segment. Backward makes a segment's terms again, all of them, before it gives
them back, then drops its boundary. The running segment's own input is in both its boundary and its terms.
What is kept outside the layers is kept too: ahead of them first, and behind them from the end of forward to the start
of backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

from memstrata.capture.format.plan import ModelShape, Plan, Term
from memstrata.capture.format.schema import NONE, Phase


class Part(Enum):
    """What a step of the schedule adds or gives back."""

    kept = "kept"
    boundary = "boundary"
    rematerialized = "rematerialized"


@dataclass(frozen=True)
class Step:
    """`bytes` more (or less) of `part` once `layer` has done its part of `phase`."""

    phase: Phase
    part: Part
    layer: int
    """-1 outside the layers."""
    segment: int
    term: Term
    bytes: int


@dataclass(frozen=True)
class Prediction:
    """Bytes by the arithmetic of shapes. Every figure counts activations only."""

    residual_only_bytes: int
    """One residual stream for each layer: the estimate that forgets what is inside a layer."""
    per_layer_bytes: int
    """What the largest layer keeps."""
    total_bytes: int
    """What all layers keep without a plan."""
    outside_bytes: int
    """What is kept outside the layers at the end of forward, whatever the plan: embedding, head, loss."""
    boundary_bytes: int
    """The inputs of all segments."""
    rematerialized_bytes: int
    """What the largest segment makes again."""
    checkpointed_peak_bytes: int
    """Of the layers alone: all boundaries, what stays kept, and the segment running in backward, at the worst moment.
    Boundaries of segments already done are counted too, which only matters where the last segment is the shorter
    one."""
    kept_bytes: int
    """What no segment covers of the layers."""
    timeline_peak_bytes: int
    """The maximum of the predicted curve: with what lies outside the layers, and with each boundary given back when
    its segment is done."""
    layers_peak_bytes: int
    """The same of the layers alone."""
    counted_twice_bytes: int
    """The running segment's own input at the peak: part of its boundary and of its terms."""

    @property
    def ratio(self) -> float:
        """How many times less the layers keep under the plan; 1.0 where there is nothing to keep."""
        return self.total_bytes / self.checkpointed_peak_bytes if self.checkpointed_peak_bytes else 1.0

    @property
    def saving_bytes(self) -> int:
        """Peak without the plan minus peak with it."""
        return self.total_bytes + self.outside_bytes - self.timeline_peak_bytes

    @property
    def gains(self) -> bool:
        """Whether the layers' own peak is lower under the plan. Where it is not, all that a plan can gain is that the
        loss is done before anything is made again."""
        return self.layers_peak_bytes < self.total_bytes

    def as_json(self) -> dict[str, int | float]:
        """The object that `memstrata predict --json` prints."""
        return {
            "residual_only_bytes": self.residual_only_bytes,
            "per_layer_bytes": self.per_layer_bytes,
            "total_bytes": self.total_bytes,
            "outside_layers_bytes": self.outside_bytes,
            "boundary_bytes": self.boundary_bytes,
            "rematerialized_bytes": self.rematerialized_bytes,
            "checkpointed_peak_bytes": self.checkpointed_peak_bytes,
            "ratio": self.ratio,
            "peak_bytes": self.timeline_peak_bytes,
        }


def schedule(shape: ModelShape, plan: Plan = Plan.NONE) -> tuple[Step, ...]:
    """What is added and given back, in order, over one forward and one backward."""
    places = _places(shape, plan)
    return (*_forward(shape, places), *_backward(shape, places))


@dataclass(frozen=True)
class _Place:
    layer: int
    segment: int
    term: Term
    first: bool
    """The first term of its segment: what the segment starts from, so its boundary."""


def _places(shape: ModelShape, plan: Plan) -> list[_Place]:
    places: list[_Place] = []
    segments: dict[str, int] = {}
    begun: set[int] = set()
    for number, term in _in_order(shape):
        if term.module not in segments:  # the loss is no module, and in no segment
            segments[term.module] = plan.segment_of(term.module) if term.module else -1
        segment = segments[term.module]
        places.append(_Place(number, segment, term, segment >= 0 and segment not in begun))
        begun.add(segment)
    return places


def _in_order(shape: ModelShape) -> Iterator[tuple[int, Term]]:
    """(layer, term) as forward makes them; -1 outside the layers."""
    yield from ((NONE, term) for term in shape.ahead)
    yield from ((number, term) for number, layer in enumerate(shape.layers) for term in layer.terms)
    yield from ((NONE, term) for term in shape.behind)


def _forward(shape: ModelShape, places: list[_Place]) -> list[Step]:
    steps = []
    for p in places:
        if p.segment < 0 or p.first:
            part = Part.boundary if p.first else Part.kept
            size = boundary_bytes(shape, p.term) if p.first else p.term.bytes(shape.tokens)
            steps.append(Step(Phase.forward, part, p.layer, p.segment, p.term, size))
    return steps


def boundary_bytes(shape: ModelShape, term: Term) -> int:
    """What a segment that starts from this term keeps: a hidden state goes from layer to layer in the model's own
    precision, even where the first module then keeps a wider copy of it; indices stay as wide as they are."""
    itemsize = term.itemsize if term.dtype.startswith("int") else min(term.itemsize, shape.itemsize)
    return term.width * itemsize * shape.tokens


def _backward(shape: ModelShape, places: list[_Place]) -> list[Step]:
    steps: list[Step] = []
    waiting: dict[int, list[_Place]] = {}
    for p in places:
        waiting.setdefault(p.segment, []).append(p)
    for p in reversed(places):
        size = p.term.bytes(shape.tokens)
        if p.segment < 0:
            steps.append(Step(Phase.backward, Part.kept, p.layer, -1, p.term, -size))
            continue
        steps += _recompute(shape, waiting.pop(p.segment, []))  # once, before the segment's last term goes
        steps.append(Step(Phase.backward, Part.rematerialized, p.layer, p.segment, p.term, -size))
        if p.first:
            steps.append(
                Step(Phase.backward, Part.boundary, p.layer, p.segment, p.term, -boundary_bytes(shape, p.term))
            )
    return steps


def _recompute(shape: ModelShape, places: list[_Place]) -> list[Step]:
    return [
        Step(Phase.recompute, Part.rematerialized, p.layer, p.segment, p.term, p.term.bytes(shape.tokens))
        for p in places
    ]


def predict(shape: ModelShape, plan: Plan = Plan.NONE) -> Prediction:
    """The figures of this model under this plan; without one the peak is the total."""
    whole = schedule(shape, plan)
    steps = [step for step in whole if step.layer != NONE]
    layers = [layer.bytes(shape.tokens) for layer in shape.layers]
    made_again: dict[int, int] = {}
    for step in steps:
        if step.phase == Phase.recompute:
            made_again[step.segment] = made_again.get(step.segment, 0) + step.bytes
    forward = [step for step in steps if step.phase == Phase.forward]
    released = accumulate((step.bytes for step in whole), initial=0)
    own = accumulate((step.bytes for step in steps), initial=0)
    held = accumulate((0 if _gives_back_boundary(step) else step.bytes for step in steps), initial=0)
    return Prediction(
        residual_only_bytes=shape.tokens * shape.hidden * shape.itemsize * len(layers),
        per_layer_bytes=max(layers, default=0),
        total_bytes=sum(layers),
        outside_bytes=sum(step.bytes for step in whole if step.layer == NONE and step.phase == Phase.forward),
        boundary_bytes=sum(step.bytes for step in forward if step.part is Part.boundary),
        rematerialized_bytes=max(made_again.values(), default=0),
        checkpointed_peak_bytes=max(held),
        kept_bytes=sum(step.bytes for step in forward if step.part is Part.kept),
        timeline_peak_bytes=max(released),
        layers_peak_bytes=max(own),
        counted_twice_bytes=_counted_twice(whole),
    )


def peak_step(steps: tuple[Step, ...]) -> int:
    """How many steps have been done when the predicted bytes first reach their maximum."""
    totals = list(accumulate((step.bytes for step in steps), initial=0))
    return totals.index(max(totals))


def _gives_back_boundary(step: Step) -> bool:
    return step.part is Part.boundary and step.phase == Phase.backward


def _counted_twice(steps: tuple[Step, ...]) -> int:
    """The boundary of the segment that runs at the peak; 0 where the peak is in forward."""
    done = peak_step(steps)
    if not done or steps[done - 1].phase != Phase.recompute:
        return 0
    running = steps[done - 1].segment
    return next(s.bytes for s in steps if s.part is Part.boundary and s.segment == running)
