"""What the page says of plans, predictions and steps: computed once, ahead of the page."""

from __future__ import annotations

from ..analysis.predicted_curve import Base, PredictedCurve, predicted_curve
from ..analysis.residual import Residual, residual
from ..analysis.shape import is_compiled, plan_in_force, shape_of
from ..analysis.steps import steps_of
from ..model.outside import outside_allocator
from ..model.run import Run
from .finding_tables import layer_columns
from .lanes import predicted_of
from .plan_jobs import proposed_plan


def residual_of(run: Run) -> Residual | None:
    """The residual of a run of which shapes say something; None for any other. Ask through `run.once`."""
    shape = shape_of(run)
    return None if shape is None or is_compiled(run) else residual(run, shape, plan_in_force(run))


def predicted_step(run: Run) -> PredictedCurve | None:
    """The prediction as the timeline draws it. Ask through `run.once`."""
    return predicted_curve(run, base=Base.measured)


def work_out(run: Run) -> None:
    """All of it; `run.once` has it then."""
    for make in (proposed_plan, predicted_step, residual_of, steps_of, outside_allocator):
        run.once(make)
    if len(run.layers):
        run.once(layer_columns)
    for block in run.layers.super_blocks:
        run.once(predicted_of, tuple(range(block.start, block.stop)))
