"""What another checkpoint plan would make of a measured step: the planner's answer, and what then sets the peak."""

from __future__ import annotations

from dataclasses import dataclass

from memstrata.capture.format.plan import ModelShape, Plan
from memstrata.capture.format.schema import I64, Phase

from ..model.curves import live_bytes
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .place import set_outside_layers
from .planner import Planner
from .step_facts import why_not


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


def estimate(run: Run, shape: ModelShape, plan: Plan) -> Estimate | None:
    """What `plan`, whose segments are whole layers, would make of this run, which ran without checkpoints. None where
    `why_no_estimate` says why. The shape is not needed: bytes are measured ones."""
    if why_not(run):
        return None
    outcome = Planner(run).outcome(plan)
    position = outcome.peak_position
    inside = outcome.activation_bytes - _outside_activations(run)
    return Estimate(
        plan,
        peak_bytes=outcome.peak_bytes,
        peak_position=position,
        activation_peak_bytes=outcome.activation_peak_bytes,
        set_outside_layers=set_outside_layers(run, position, int(inside[position])),
        extra_seconds=outcome.extra_seconds,
    )


def why_no_estimate(run: Run, shape: ModelShape) -> str:
    """One sentence where this run cannot tell what checkpoints would do; empty where it can, and where it ran with
    checkpoints itself."""
    if not (run.spans.phase == Phase.backward).any():
        return "No backward was recorded, so what checkpointing would do cannot be estimated."
    return "" if (run.spans.phase == Phase.recompute).any() or run.recording.meta.plan else why_not(run)


def _outside_activations(run: Run) -> I64:
    outside = AllocationQuery(categories=ACTIVATIONS).mask(run) & (run.attribution.layer < 0)
    return live_bytes(run.allocations, run.n_events, outside)
