"""The words for how much of a moment is explained: by what was recorded, and apart from that by inference."""

from __future__ import annotations

from ..look.units import percent_text
from ..model.run import Run


def coverage_text(run: Run, position: int) -> str:
    """`99.2% attributed`; of a plain snapshot `0% recorded, 62.0% inferred`. The two are never added up."""
    recorded = percent_text(run.coverage_at(position))
    if run.inferred is None:
        return f"{recorded} attributed"
    return f"{recorded} recorded, {percent_text(run.inferred_coverage_at(position))} inferred"
