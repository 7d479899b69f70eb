"""The answer of a comparison in three lines."""

from __future__ import annotations

from dataclasses import dataclass

from ..look.units import bytes_text, count_text, difference_text, percent_text, ratio_text, seconds_text
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .all_runs import figures_of
from .diff import Diff, DiffRow
from .grouped import first_grouping, rows_by
from .headline import ITEMS, Line, Part, joined, line
from .steps import steps_timed
from .warnings import ranks_of_one_run

ENOUGH_STEPS = 5
"""Steps timed without recording from which a difference in time is worth a percentage."""
NOISE = 0.02
"""Relative difference of step times that says nothing."""


def comparison_headline(diff: Diff) -> tuple[Line, Line, Line]:
    """Both peaks; what was achieved against what shapes predicted; the largest differences and the time."""
    return _peaks(diff), _savings(diff), _differences(diff)


def _peaks(diff: Diff) -> Line:
    a, b = diff.a, diff.b
    one, two = (AllocationQuery(position=run.peak_position) for run in (a, b))
    drop = diff.achieved_peak_drop_bytes
    change = Part(f": {less_text(drop, a.peak_bytes)}", None, abs(drop)), _time(a, b)
    if ranks_of_one_run(a, b):
        first, second = (f"{bytes_text(run.peak_bytes)} on rank {run.recording.meta.rank}" for run in (a, b))
        return line(Part(f"Peak {first}", one, a.peak_bytes), ", ", Part(second, two, b.peak_bytes), *change)
    if has_history(a) != has_history(b):
        words = [f"{'peak' if has_history(r) else 'active at the end'} {bytes_text(r.peak_bytes)}" for r in (a, b)]
        first = words[0][:1].upper() + words[0][1:]
        return line(Part(first, one, a.peak_bytes), " to ", Part(words[1], two, b.peak_bytes), *change)
    word = "Peak" if has_history(a) else "Active at the end"
    first, second = f"{word} {bytes_text(a.peak_bytes)}", f" to {bytes_text(b.peak_bytes)}"
    return line(Part(first, one, a.peak_bytes), Part(second, two, b.peak_bytes), *change)


def has_history(run: Run) -> bool:
    """Whether there is a peak, and not only the state at the end."""
    return "timeline" in run.capabilities


def when_text(diff: Diff) -> str:
    """`at the peaks`, or what stands in for them in files without a history, in the order of the runs."""
    a, b = has_history(diff.a), has_history(diff.b)
    if a == b:
        return "at the peaks" if a else "at the end"
    return "at the peak and at the end" if a else "at the end and at the peak"


def less_text(drop: int, whole: int) -> str:
    """`393 MiB less (52.3%)`, `2.00 MiB more (0.3%)`, `3.40 GiB more (5.63x as much)`, `the same`."""
    if not drop:
        return "the same"
    share = ""
    if whole:
        is_share = -drop < whole  # from twice as much on a percentage says less than a ratio
        said = percent_text(abs(drop) / whole) if is_share else f"{ratio_text((whole - drop) / whole)} as much"
        share = f" ({said})"
    return f"{bytes_text(abs(drop))} {'less' if drop > 0 else 'more'}{share}"


def _time(a: Run, b: Run) -> str:
    one, two = a.recording.meta.step_seconds_unrecorded, b.recording.meta.step_seconds_unrecorded
    if not one and not two:
        return ""
    if not one or not two:
        return f"; step {' to '.join(seconds_text(s) if s else 'unknown' for s in (one, two))}"
    timed = min(_steps_timed(a), _steps_timed(b))
    if timed < ENOUGH_STEPS:
        change = f" (median of {count_text(timed, 'step')} each)" if timed else ""  # too few for a percentage
    elif abs(two / one - 1) < NOISE:
        change = ", about the same"
    else:
        change = f", {percent_text(abs(two / one - 1))} {'longer' if two > one else 'shorter'}"
    return f"; step {seconds_text(one)} to {seconds_text(two)}{change}"


def _steps_timed(run: Run) -> int:
    """How many steps the unrecorded step time is the median of: in a file that does not list them, those before the
    recorded one, of more than two without the first. 0 where it is not known."""
    if listed := steps_timed(run.recording):
        return listed
    before = run.recording.meta.step_index or 0
    return before - 1 if before > 2 else before


def _savings(diff: Diff) -> Line:
    achieved, predicted = diff.achieved_saving_bytes, diff.predicted_saving_bytes
    if achieved is None:
        return line(*_reserved(diff), _unknown_activations(diff))
    a, b = (int(run.activation_curve.argmax()) for run in (diff.a, diff.b))
    one, two = int(diff.a.activation_curve[a]), int(diff.b.activation_curve[b])
    parts: list[Part | str] = [
        Part(f"Activations {bytes_text(one)}", AllocationQuery(a, categories=ACTIVATIONS), one),
        Part(f" to {bytes_text(two)}", AllocationQuery(b, categories=ACTIVATIONS), two),
        Part(f": {less_text(achieved, one)}", None, abs(achieved)),
    ]
    if predicted is not None:
        parts.append(Part(f"; by shapes {less_text(predicted, 0)}", None, abs(predicted)))
    return line(*parts)


@dataclass(frozen=True)
class Saving:
    """One figure of what b needs less than a. `measured` is False for what shapes say."""

    title: str
    bytes: int
    measured: bool = True


def savings(diff: Diff) -> tuple[Saving, ...]:
    """The figures that are known: peak, activations as measured and by shapes, what the allocator reserved."""
    known = "Peak of the step" if diff.a.recording.meta.kind == diff.b.recording.meta.kind == "recording" else "Peak"
    peak = Saving(known if has_history(diff.a) and has_history(diff.b) else "Active", diff.achieved_peak_drop_bytes)
    out = [peak]
    if diff.achieved_saving_bytes is not None:
        out.append(Saving("Activations", diff.achieved_saving_bytes))
    if diff.predicted_saving_bytes is not None:
        out.append(Saving("Activations by shapes", diff.predicted_saving_bytes, measured=False))
    one, two = diff.a.reserved, diff.b.reserved
    if one is not None and two is not None:
        out.append(Saving("Reserved at most", int(one.max()) - int(two.max())))
    return tuple(out)


def is_saving(diff: Diff) -> bool:
    """Whether b is a less hungry a, so that the figures can be called savings: not between ranks of one run, not
    between a recording and a snapshot, and not where b needs more."""
    alike = diff.a.recording.meta.kind == diff.b.recording.meta.kind and not ranks_of_one_run(diff.a, diff.b)
    return alike and all(saving.bytes >= 0 for saving in savings(diff))


def difference_title(diff: Diff) -> str:
    """What the figures are where they are no savings: `rank 1 minus rank 0`."""
    if ranks_of_one_run(diff.a, diff.b):
        return f"Rank {diff.b.recording.meta.rank} minus rank {diff.a.recording.meta.rank}"
    return "Difference, B minus A"


def _reserved(diff: Diff) -> list[Part | str]:
    """What the allocator held, where both files say."""
    one, two = (figures_of(run) for run in (diff.a, diff.b))
    if one.reserved_bytes is None or two.reserved_bytes is None or one.unused_bytes is None or two.unused_bytes is None:
        return []
    most, unused = ((one.reserved_bytes, two.reserved_bytes), (one.unused_bytes, two.unused_bytes))
    return ["Reserved at most ", *_both(*most), "; reserved and unused at the end ", *_both(*unused), ". "]


def _both(a: int, b: int) -> tuple[Part | str, ...]:
    return Part(bytes_text(a), None, a), " to ", Part(bytes_text(b), None, b)


def _unknown_activations(diff: Diff) -> str:
    without = [run.name or "a run" for run in (diff.a, diff.b) if "saved_tensors" not in run.capabilities]
    where = "both files" if len(without) == 2 else without[0]
    return f"What autograd kept is not known in {where}, so no saving can be compared."


def _differences(diff: Diff) -> Line:
    rows = [row for row in rows_by(diff, first_grouping(diff)) if row.difference_bytes]
    rows.sort(key=lambda row: -abs(row.difference_bytes))
    when = when_text(diff)
    if not rows:
        return line(f"{when.capitalize()} the runs hold the same of everything.")
    named = rows[:ITEMS]
    parts = [_named(row) for row in named]
    rest = sum(row.difference_bytes for row in rows[ITEMS:])
    if rows[ITEMS:]:
        parts.append(Part(f"other {difference_text(rest)}", None, rest))
    return line(f"{when.capitalize()}: ", *joined(parts), " (closes exactly)")


def _named(row: DiffRow) -> Part:
    return Part(f"{row.label} {difference_text(row.difference_bytes)}", _query(row), row.difference_bytes)


def _query(row: DiffRow) -> AllocationQuery | None:
    """The allocations behind a difference, in the run that has any."""
    return row.a_query if row.a_bytes else row.b_query
