"""The words for how much of a moment is explained: by what was recorded, and apart from that by inference."""

from __future__ import annotations

from ..look.units import count_text, percent_text
from ..model.inferred_coverage import inferred_coverage
from ..model.run import Run


def coverage_text(run: Run, position: int) -> str:
    """`99.2% attributed`; of a plain snapshot `0% recorded, 62.0% inferred`. The two are never added up."""
    recorded = percent_text(run.coverage_at(position))
    if run.inferred is None:
        return f"{recorded} attributed"
    return f"{recorded} recorded, {percent_text(run.inferred_coverage_at(position))} inferred"


def inferred_sentence(run: Run, position: int) -> str:
    """What is inferred beside the category, each with its coverage; empty for a recording, and where there is nothing
    to infer it from."""
    found = inferred_coverage(run, position)
    if found is None:
        return ""
    shares = {"phase of birth": found.phase, "operator": found.operator, "module": found.module}
    text = f"Inferred for the bytes: category of {percent_text(found.category)}"
    text += "".join(f", {what} of {percent_text(share)}" for what, share in shares.items()) + "."
    if found.events_in_phases:
        text += f" For the events: phase of {percent_text(found.events_in_phases)}"
        text += f" ({percent_text(found.evident)} by their own stack or annotation)"
        text += f", {count_text(found.steps, 'whole step')} with {percent_text(found.events_in_steps)} of them."
    return text
