"""How much of a run is explained, what was lost, what recording cost: in lines, and a table of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memstrata.capture.format.schema import Severity

from ..analysis.inferred import coverage_text, inferred_sentence
from ..analysis.steps import Remainder, StepFigures, steps_timed
from ..look.units import (
    bytes_text,
    count_text,
    difference_text,
    exact_bytes_text,
    exact_lines,
    percent_text,
    seconds_text,
)
from ..look.words import phase_text
from ..model.outside import outside_allocator
from ..model.run import Run
from .array_table import Column
from .finding_tables import phase_device_times


def coverage_lines(run: Run, cursor: int) -> list[str]:
    """One line each: coverage, what was lost, what is inferred at the cursor, step time, device time, memory outside
    the allocator."""
    here = f"{coverage_text(run, cursor)} at the cursor, " if "timeline" in run.capabilities else ""
    when = "at the peak" if "timeline" in run.capabilities else "at the end"
    lines = [f"Coverage: {here}{coverage_text(run, run.peak_position)} {when}. {_lost(run)}"]
    more = (inferred_sentence(run, cursor), _times(run), device_text(run), outside_sentence(run))
    return [*lines, *(line for line in more if line)]


def _lost(run: Run) -> str:
    grave = sum(problem.severity >= Severity.warning for problem in run.problems)
    return f"{count_text(grave, 'problem')}, listed below." if grave else "Nothing was lost."


def _times(run: Run) -> str:
    meta = run.recording.meta
    recorded, plain = meta.step_seconds_recorded, meta.step_seconds_unrecorded
    if not recorded or not meta.has_durations:
        return ""
    if not plain:
        return f"Step: {seconds_text(recorded)} recorded; unrecorded steps were not timed."
    timed = steps_timed(run.recording)
    median = f" (median of {timed})" if timed > 1 else ""
    more = recorded / plain - 1
    cost = f"{percent_text(more)} more" if more > 0 else f"{percent_text(-more)} less" if more else "the same"
    return f"Step: {seconds_text(plain)} unrecorded{median}, {seconds_text(recorded)} recorded, {cost}."


def device_text(run: Run) -> str:
    """`Time on the device: forward 12.3 ms, backward 25.1 ms.`; empty where it was not measured."""
    times = [f"{phase_text(phase)} {seconds_text(ns / 1e9)}" for phase, ns in phase_device_times(run).items()]
    return f"Time on the device: {', '.join(times)}." if times else ""


def outside_sentence(run: Run) -> str:
    """What of the device's memory torch's allocator does not hold; empty where nobody asked the device."""
    outside = run.once(outside_allocator)
    if outside is None:
        return ""
    most, last = int(outside.bytes.max()), int(outside.bytes[-1])
    what = "Outside the allocator (context, libraries, other processes)"
    return f"{what}: up to {bytes_text(most)}, {bytes_text(last)} last."


def outside_exactly(run: Run) -> str:
    """The exact bytes of that sentence, a line each."""
    outside = run.once(outside_allocator)
    if outside is None:
        return ""
    return "\n".join(exact_lines(dict.fromkeys((int(outside.bytes.max()), int(outside.bytes[-1])))))


def step_columns(steps: Sequence[StepFigures]) -> list[Column]:
    """A row for each step of the recording; `-` where a figure is not known."""
    return [
        Column("step", np.array([-1 if s.index is None else s.index for s in steps]), lambda i: _name(steps[i])),
        replace(_column("time", [s.seconds for s in steps], seconds_text), seconds=lambda i: steps[i].seconds),
        _column("tokens", [s.tokens for s in steps], lambda value: count_text(int(value))),
        _column("peak", [s.peak_bytes for s in steps], bytes_text, exact_bytes_text),
        _column("alive at its end", [s.end_bytes for s in steps], bytes_text, exact_bytes_text),
        _column("growth", [s.growth_bytes for s in steps], difference_text, exact_bytes_text),
        Column("left behind", np.arange(len(steps)), lambda i: _left(steps[i]), lambda i: _left_exactly(steps[i])),
    ]


def _name(step: StepFigures) -> str:
    how = "recorded" if step.recorded else "unrecorded"
    if step.recorded and step.seconds is None:
        how = "cut off"
    return f"{'?' if step.index is None else count_text(step.index)} {how}"


def _left(step: StepFigures) -> str:
    return ", ".join(f"{r.category.label} {difference_text(r.bytes)} at {r.frame}" for r in _remaining(step))


def _left_exactly(step: StepFigures) -> str:
    return "\n".join(f"{r.category.label} {exact_bytes_text(r.bytes)} at {r.frame}" for r in _remaining(step))


def _remaining(step: StepFigures) -> list[Remainder]:
    """What a step that grew the memory left behind."""
    if not step.growth_bytes or step.growth_bytes < 0 or step.seconds is None:
        return []
    return [remainder for remainder in step.remainders if remainder.bytes > 0]


def _column(title: str, values: Sequence[float | None], text: object, hint: object = None) -> Column:
    keys = np.array([-np.inf if value is None else value for value in values], np.float64)

    def said(how: object, row: int) -> str:
        value = values[row]
        return "-" if value is None else how(value)  # type: ignore[operator]

    return Column(title, keys, lambda i: said(text, i), (lambda i: said(hint, i)) if hint else None, right=True)
