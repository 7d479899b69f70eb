"""How far a recording can be believed: what of the step was lost, and whether recording could have changed results."""

from __future__ import annotations

from dataclasses import dataclass

from memstrata.capture.format.problems import Problem

from ..model.run import Run

LOSSES = frozenset(
    {"history_overflowed", "history_full", "history_ended", "trace_overflowed", "frees_missed", "profiler_ended",
     "other_threads", "hooks_hidden", "hooks_disabled", "collectives_unseen", "step_too_long", "cuda_graphs",
     "step_raised", "optimizer_unseen", "no_cuda_memory", "recorder_failure"}
)  # fmt: skip
"""Codes of the problems that say that something of the step is not in the file."""

UNCHANGED = (
    "recording computes nothing and returns nothing to the step, so its numbers are those of an unrecorded step; only"
    " `ctx.saved_tensors` hands out other tensor objects"
)
DOUBTFUL = (
    "a part of the recorder failed and stepped aside; training went on without it, and nothing shows that its numbers"
    " changed, but that was not checked"
)


@dataclass(frozen=True)
class Trust:
    """`lost` are the problems by which something is missing; `results_affected` is False, or None where unknown."""

    lost: tuple[Problem, ...]
    results_affected: bool | None
    results: str


def trust_of(run: Run) -> Trust | None:
    """For a recording; None for a snapshot, of which nobody knows how it was made."""
    if run.recording.meta.kind != "recording":
        return None
    lost = tuple(problem for problem in run.problems if problem.code in LOSSES)
    failed = any(problem.code == "recorder_failure" for problem in lost)
    return Trust(lost, None if failed else False, DOUBTFUL if failed else UNCHANGED)
