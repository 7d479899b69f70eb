"""The answer of a comparison in three lines."""

from __future__ import annotations

from ..look.units import bytes_text, count_text, difference_text, percent_text, seconds_text
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .diff import Diff
from .headline import ITEMS, Line, Part, joined, line

ENOUGH_STEPS = 5
"""Steps timed without recording from which a difference in time is worth a percentage."""
NOISE = 0.02
"""Relative difference of step times that says nothing."""


def comparison_headline(diff: Diff) -> tuple[Line, Line, Line]:
    """Both peaks; what was achieved against what shapes predicted; the largest differences and the time."""
    return _peaks(diff), _savings(diff), _differences(diff)


def _peaks(diff: Diff) -> Line:
    a, b = diff.a, diff.b
    return line(
        Part(f"Peak {bytes_text(a.peak_bytes)}", AllocationQuery(position=a.peak_position)),
        Part(f" to {bytes_text(b.peak_bytes)}", AllocationQuery(position=b.peak_position)),
        f": {less_text(diff.achieved_peak_drop_bytes, a.peak_bytes)}{_time(a, b)}",
    )


def less_text(drop: int, whole: int) -> str:
    """`393 MiB less (52.3%)`, `2.00 MiB more (0.3%)`, `the same`."""
    if not drop:
        return "the same"
    share = f" ({percent_text(abs(drop) / whole)})" if whole else ""
    return f"{bytes_text(abs(drop))} {'less' if drop > 0 else 'more'}{share}"


def _time(a: Run, b: Run) -> str:
    one, two = a.recording.meta.step_seconds_unrecorded, b.recording.meta.step_seconds_unrecorded
    if not one or not two:
        return ""
    timed = min(_steps_timed(a), _steps_timed(b))
    if timed < ENOUGH_STEPS:
        change = f" (median of {count_text(timed, 'step')} each, too few for a percentage)" if timed else ""
    elif abs(two / one - 1) < NOISE:
        change = ", about the same"
    else:
        change = f", {percent_text(abs(two / one - 1))} {'longer' if two > one else 'shorter'}"
    return f"; step {seconds_text(one)} to {seconds_text(two)}{change}"


def _steps_timed(run: Run) -> int:
    """How many calls the unrecorded step time is the median of: the calls before the recorded one, of more than two
    without the first. 0 where it is not known."""
    before = run.recording.meta.step_index or 0
    return before - 1 if before > 2 else before


def _savings(diff: Diff) -> Line:
    achieved, predicted = diff.achieved_saving_bytes, diff.predicted_saving_bytes
    if achieved is None:
        return line("Activations are not known in both files, so no saving can be compared.")
    a, b = (int(run.activation_curve.argmax()) for run in (diff.a, diff.b))
    parts: list[Part | str] = [
        Part(f"Activations {bytes_text(int(diff.a.activation_curve[a]))}", AllocationQuery(a, categories=ACTIVATIONS)),
        Part(f" to {bytes_text(int(diff.b.activation_curve[b]))}", AllocationQuery(b, categories=ACTIVATIONS)),
        f": {less_text(achieved, int(diff.a.activation_curve[a]))}",
    ]
    if predicted is not None:
        parts.append(f"; by shapes {less_text(predicted, 0)}")
    return line(*parts)


def _differences(diff: Diff) -> Line:
    rows = [row for row in diff.by_category if row.difference_bytes]
    rows.sort(key=lambda row: -abs(row.difference_bytes))
    if not rows:
        return line("At their peaks the runs hold the same of every category.")
    named = rows[:ITEMS]
    items = [Part(f"{row.label} {difference_text(row.difference_bytes)}", row.a_query) for row in named]
    rest = sum(row.difference_bytes for row in rows[ITEMS:])
    if rows[ITEMS:]:
        items.append(Part(f"other {difference_text(rest)}"))
    return line("At the peaks: ", *joined(items), " (closes exactly)")
