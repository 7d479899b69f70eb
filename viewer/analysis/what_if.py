"""What another checkpoint plan would make of a measured step: an estimate, from what its layers were seen to keep.

Each layer is taken to keep what it kept in this run, and a segment's boundary to be the hidden state. The estimate
replaces the layers' activations in the measured curve; whatever else was alive stays where it was. The time is that
of running the segments' layers forward once more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from memstrata.capture.format.plan import LayerShape, ModelShape, Plan, Term
from memstrata.capture.format.schema import I64, Fate, Phase

from ..model.curves import live_bytes
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .place import set_outside_layers
from .predicted_curve import at_every_position, predicted_curve
from .prediction import predict


@dataclass(frozen=True)
class Estimate:
    """A plan, and what it is estimated to do. Bytes are of the whole step."""

    plan: Plan
    peak_bytes: int
    peak_position: int
    activation_peak_bytes: int
    set_outside_layers: bool
    """Whether what is outside layers then sets the peak, so that another plan would not lower it."""
    extra_seconds: float | None
    """Per step; None where no layer's forward was timed."""


def measured_shape(run: Run, shape: ModelShape) -> ModelShape:
    """The shape with each layer's terms scaled to what the layer was measured to save, made or dropped."""
    saved = run.saved_bytes_by_layer(Fate.kept, Fate.rematerialized)
    layers = []
    for number, (layer, name) in enumerate(zip(shape.layers, shape.names, strict=True)):
        boundary = layer.terms[0].bytes(shape.tokens) if layer.terms else 0
        rest = max(saved.get(number, 0) - boundary, 0)
        first = Term("input", boundary, 1, "hidden", name)
        layers.append(LayerShape(layer.kind, (first, Term("measured", rest, 1, "measured", name))))
    hidden = shape.hidden * shape.itemsize * shape.tokens
    return replace(shape, layers=tuple(layers), itemsize=1, tokens=1, hidden=hidden)


def estimate(run: Run, shape: ModelShape, plan: Plan) -> Estimate | None:
    """What `plan`, whose segments are whole layers, would make of this run, which ran without checkpoints. None where
    the run has no spans to lay it over, recomputed already, or `why_no_estimate` says why."""
    if (run.spans.phase == Phase.recompute).any() or why_no_estimate(run, shape):
        return None
    measured = measured_shape(run, shape)
    curve = predicted_curve(run, measured, plan)
    if curve is None:
        return None
    layers = at_every_position(curve.positions, curve.bytes, run.n_events)
    whole = run.curve - _layer_activations(run) + layers
    position = int(whole.argmax())
    return Estimate(
        plan,
        peak_bytes=int(whole[position]),
        peak_position=position,
        activation_peak_bytes=predict(measured, plan).timeline_peak_bytes,
        set_outside_layers=set_outside_layers(run, position, int(layers[position])),
        extra_seconds=forward_seconds(run, plan),
    )


def why_no_estimate(run: Run, shape: ModelShape) -> str:
    """One sentence where this run cannot tell what checkpoints would do; empty where it can."""
    if not (run.spans.phase == Phase.backward).any():
        return "No backward was recorded, so what checkpointing would do cannot be estimated."
    saved = run.saved_bytes_by_layer(Fate.kept)
    for number, layer in enumerate(shape.layers):
        if saved.get(number) and not layer.terms:  # a checkpoint keeps its input, whose width is not known
            return f"What {run.layers.labels[number]} starts from is not known, so checkpointing cannot be estimated."
    return ""


def _layer_activations(run: Run) -> I64:
    inside = AllocationQuery(categories=ACTIVATIONS).mask(run) & (run.attribution.layer >= 0)
    return live_bytes(run.allocations, run.n_events, inside)


def forward_seconds(run: Run, plan: Plan) -> float | None:
    """Seconds that the forward of all layers in segments took; scaled to an unrecorded step where one was timed."""
    spans, modules = run.spans, run.layers.modules
    covered = [row for row, name in zip(modules.tolist(), run.layers.names, strict=True) if plan.segment_of(name) >= 0]
    chosen = np.isin(spans.module, covered) & (spans.phase == Phase.forward)
    if not chosen.any():
        return None
    seconds = float((spans.end_time[chosen] - spans.start_time[chosen]).sum()) / 1e9
    meta = run.recording.meta
    if meta.step_seconds_recorded and meta.step_seconds_unrecorded:
        seconds *= meta.step_seconds_unrecorded / meta.step_seconds_recorded
    return seconds
