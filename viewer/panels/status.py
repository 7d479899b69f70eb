"""The line at the bottom: how much is explained, what was recorded where, what it cost, what was lost."""

from __future__ import annotations

from memstrata.capture.format.schema import Severity

from ..look.units import bytes_text, count_text, exact_lines, percent_text, seconds_text
from ..model.outside import outside_allocator
from ..model.run import Run
from ..state.view_state import ViewState


def status_text(state: ViewState) -> str:
    """The line for what is in front; a comparison says less of each of its two runs."""
    if state.run is not None:
        return " | ".join(status_parts(state.run, state.views[state.page].cursor))
    said = []
    for run in state.compared or ():
        parts = status_parts(run, run.peak_position)
        said.append(f"{run.name}: {parts[0]}, {', '.join(parts[2:])}")
    return " | ".join(said) or "Nothing is open"


def status_parts(run: Run, cursor: int) -> list[str]:
    """What is said of one run."""
    meta = run.recording.meta
    version = f", torch {meta.torch_version}" if meta.torch_version else ", torch version unknown"
    device = "" if run.device.name == meta.source else f", {run.device.name}"
    guessed = f", {percent_text(run.inferred_coverage_at(cursor))} inferred" if run.inferred is not None else ""
    parts = [f"coverage {percent_text(run.coverage_at(cursor))}{guessed}", f"{meta.source}{version}{device}"]
    if meta.kind == "recording" and meta.has_durations:
        parts.append(step_text(meta.step_seconds_unrecorded, meta.step_seconds_recorded))
    outside = run.once(outside_allocator)
    if outside is not None:
        parts.append(f"outside the allocator up to {bytes_text(int(outside.bytes.max()))}")
    parts.append(count_text(run.n_events, "event"))
    parts.append(problems_text(run))
    return parts


def status_lines(run: Run) -> list[str]:
    """What the line has no room for: the problems, and the exact bytes of what it rounds."""
    outside = run.once(outside_allocator)
    exact = [] if outside is None else exact_lines([int(outside.bytes.max())])
    return [*(f"outside the allocator up to {line}" for line in exact), *(problem.text for problem in run.problems)]


def step_text(unrecorded: float | None, recorded: float | None) -> str:
    """`step 1.02 s, recorded 1.31 s`; unknown is said as unknown."""
    first, second = (seconds_text(s) if s else "unknown" for s in (unrecorded, recorded))
    return f"step {first}, recorded {second}"


def problems_text(run: Run) -> str:
    """`nothing lost`, or how many problems of what kind there are."""
    grave = [p for p in run.problems if p.severity >= Severity.warning]
    if grave:
        return count_text(len(grave), "problem")
    return count_text(len(run.problems), "note") if run.problems else "nothing lost"
