"""What a file says of its devices and steps, as sections of a page."""

from __future__ import annotations

from collections.abc import Sequence

from memstrata.capture.format.problems import merge
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I64, Severity

from ..analysis.steps import steady_state, steps_of
from ..look.units import count_text
from ..model.outside import outside_allocator
from ..model.run import Run
from .html_page import difference_html, problems_html, said_html, section_html, size_html, table_html, told_html
from .json import runs_of, unique_problems
from .layout import markup
from .steps_text import STEP_HEAD, growth_text, steady_text, timed_cells
from .text import memory_title, problem_text, step_facts_text, step_title


def devices_of(recording: Recording, name: str) -> list[Run]:
    """A run for each device of a file, the one with the highest peak first; it alone where the file lists none."""
    run = Run(recording, name=name)
    return [run, *(other for other in runs_of(recording, name) if other.device_row != run.device_row)]


def devices_html(runs: Sequence[Run]) -> list[str]:
    """The figures of each device, where there are several; the first is the one shown."""
    if len(runs) < 2:
        return []
    rows = [
        (markup(f"{run.device.ordinal} {run.device.name}{' (shown here)' if run is runs[0] else ''}"),
         size_html(run.baseline_bytes), size_html(run.peak_bytes), size_html(run.end_bytes), count_text(run.n_events))
        for run in sorted(runs, key=lambda run: run.device.ordinal)
    ]  # fmt: skip
    return section_html("Devices", table_html(("device", "at start", "peak", "at end", "events"), rows))


def memory_html(run: Run) -> list[str]:
    """What is active, reserved and outside the allocator: at the start, at most, at the end."""
    curves: list[tuple[str, I64 | None]] = [("active", run.curve), ("reserved", run.reserved)]
    if "timeline" not in run.capabilities:
        rows = [(name, size_html(None if curve is None else int(curve[-1]))) for name, curve in curves]
        return section_html("Active and reserved memory", table_html(("", "at end"), rows))
    outside = outside_allocator(run)
    curves.append(("outside the allocator", None if outside is None else outside.bytes))
    three = [
        (name, *(size_html(int(n)) for n in (curve[0], curve.max(), curve[-1])))
        for name, curve in curves
        if curve is not None
    ]
    return section_html(memory_title(run), table_html(("", "at start", "highest", "at end"), three))


def step_html(run: Run) -> list[str]:
    """Events, times, what was lost and what the figures are estimates of; then every step where there are several."""
    facts = "".join(f"<li>{markup(text)}</li>" for text in step_facts_text(run))
    return section_html(step_title(run), f"<ul>{facts}</ul>") + _steps(run) + _not_measured(run)


def _steps(run: Run) -> list[str]:
    steps = steps_of(run)
    if len(steps) < 2:
        return []
    rows = [
        (*map(markup, timed_cells(step)), size_html(step.peak_bytes), size_html(step.end_bytes),
         difference_html(step.growth_bytes))
        for step in steps
    ]  # fmt: skip
    said = [(growth_text(step), [r.bytes for r in step.remainders]) for step in steps]
    steady = steady_state(steps)
    said.append((steady_text(steps), [steady.peak_bytes] if steady else []))
    lines = "".join(f'<p class="dim">{told_html(text, sizes)}</p>' for text, sizes in said if text)
    return section_html("Steps", table_html(STEP_HEAD, rows), lines)


def _not_measured(run: Run) -> list[str]:
    return section_html("Not measured", said_html(run.recording.meta.estimates, ""))


def errors_html(runs: Sequence[Run]) -> str:
    """What makes everything below doubtful, or only a part of the step."""
    found = merge(unique_problems([*runs]))
    return problems_html((problem_text(p), p.sizes) for p in found if p.severity == Severity.error)


def notes_html(runs: Sequence[Run]) -> list[str]:
    """Everything else that the file says of itself, the gravest first."""
    found = [p for p in merge(unique_problems([*runs])) if p.severity != Severity.error]
    worst = max((p.severity for p in found), default=Severity.info)
    listed = problems_html((problem_text(p), p.sizes) for p in sorted(found, key=lambda p: -p.severity))
    return section_html("Notes" if worst == Severity.info else "Problems", listed)
