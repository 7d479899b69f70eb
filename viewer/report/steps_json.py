"""The list `steps` of a report in JSON."""

from __future__ import annotations

from typing import Any

from ..analysis.steps import StepFigures, steps_of
from ..model.run import Run


def steps_json(run: Run) -> list[dict[str, Any]]:
    """An object for each step in order of time; null where something is not known or was not measured."""
    return [_step(step) for step in steps_of(run)]


def _step(step: StepFigures) -> dict[str, Any]:
    return {
        "index": step.index,
        "recorded": step.recorded,
        "seconds": step.seconds,
        "tokens": step.tokens,
        "tokens_per_second": step.tokens_per_second,
        "loss": step.loss,
        "peak_bytes": step.peak_bytes,
        "end_bytes": step.end_bytes,
        "growth_bytes": step.growth_bytes,
        "growth": [{"category": r.category.label, "frame": r.frame, "bytes": r.bytes} for r in step.remainders],
    }
