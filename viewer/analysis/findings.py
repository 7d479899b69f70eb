"""What in a step is worth looking at: each finding has the bytes at stake, the allocations behind it, and advice.

The checks live in `findings_saved` (what autograd holds) and `findings_step` (everything else); each answers with a
finding or nothing. Less than `SHARE` of the peak is not worth a line.
"""

from __future__ import annotations

from collections.abc import Callable

from ..model.run import Run
from . import findings_saved, findings_step
from .finding import Finding

SHARE = 0.01

CHECKS: tuple[Callable[[Run], Finding | None], ...] = (
    findings_step.outside_layers_dominate,
    findings_step.autocast_cache,
    findings_step.gradients_alive_in_forward,
    findings_step.optimizer_state_made_at_the_peak,
    findings_step.optimizer_temporaries,
    findings_step.fragmentation,
    findings_step.out_of_memory,
    findings_saved.kept_beside_boundaries,
    findings_saved.segment_never_freed,
    findings_saved.two_segments_alive,
    findings_saved.view_keeps_large_storage,
    findings_saved.saved_never_used,
    findings_saved.recompute_above_forward,
    findings_saved.alive_after_step,
)


def findings(run: Run) -> tuple[Finding, ...]:
    """The findings of a run, most bytes first. None for a file without a timeline, but of its end state."""
    found = [finding for check in CHECKS if (finding := check(run)) is not None]
    worth = [finding for finding in found if finding.bytes >= SHARE * max(run.peak_bytes, 1)]
    return tuple(sorted(worth, key=lambda finding: -finding.bytes))
