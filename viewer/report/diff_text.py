"""The comparison of files in 80 columns: warnings and the answer first, then the tables."""

from __future__ import annotations

from collections.abc import Sequence

from memstrata.capture.format.schema import Category

from ..analysis.all_runs import figures_of
from ..analysis.changes import Change, Fared
from ..analysis.comparison import comparison_headline, is_saving, when_text
from ..analysis.diff import Diff, DiffRow, SlotRow
from ..analysis.grouped import first_grouping, rows_by
from ..analysis.steps import throughput
from ..analysis.waterfall import waterfall
from ..look.units import bytes_text, count_text, difference_text, seconds_text
from ..look.words import severity_text
from ..model.run import Run
from .layout import joined, section, table, wrapped
from .steps_text import rate_text
from .text import title

ITEMS = 4
CHANGES = 12
"""Changes that get a line of their own; the others are summed up."""


def diffs_text(diffs: Sequence[Diff]) -> str:
    """One run against one or several others: the figures of all of them, then each comparison."""
    if len(diffs) == 1:
        return diff_text(diffs[0])
    parts = [joined(_all_runs([diffs[0].a, *(diff.b for diff in diffs)])).lstrip("\n")]
    return "\n".join([*parts, *(diff_text(diff) for diff in diffs)])


def _all_runs(runs: Sequence[Run]) -> list[str]:
    head = ("run", "peak", "activations", "step", "throughput")
    rows = []
    for figures in map(figures_of, runs):
        activations, seconds, rate = figures.activation_bytes, figures.step_seconds, figures.tokens_per_second
        rows.append((
            figures.name, bytes_text(figures.peak_bytes), "unknown" if activations is None else bytes_text(activations),
            "unknown" if seconds is None else seconds_text(seconds), "unknown" if rate is None else rate_text(rate),
        ))  # fmt: skip
    return section("All runs", table(head, rows))


def diff_text(diff: Diff) -> str:
    """The whole comparison."""
    lines = [line for side, run in (("A", diff.a), ("B", diff.b)) for line in wrapped(f"{side}  {title(run)}")]
    for warning in diff.warnings:
        lines += wrapped(f"{severity_text(warning.severity)}: {warning.text}")
    lines += ["", *(text for line in comparison_headline(diff) for text in wrapped(line.text))]
    when = "each at its own peak" if when_text(diff) == "at the peaks" else when_text(diff)
    lines += _steps(diff)
    lines += _rows(f"By category, {when}", "category", diff.by_category)
    lines += _rows(f"By super-block, {when}", "super-block", diff.by_super_block)
    lines += _changes(diff.changes, when_text(diff))
    lines += _savings(diff) + _speed(diff) + _slots(diff.by_super_block_slot)
    return joined(lines)


def _steps(diff: Diff) -> list[str]:
    """The waterfall: what leads from the peak of a to that of b, and where each step ends."""
    bars = waterfall(rows_by(diff, first_grouping(diff)))
    if not bars.steps:
        return []
    rows = [("A", "", bytes_text(bars.a_bytes))]
    rows += [(step.label, difference_text(step.difference_bytes), bytes_text(step.end_bytes)) for step in bars.steps]
    rows.append(("B", "", bytes_text(bars.b_bytes)))
    return section(f"From A to B, {when_text(diff)}", table(("", "B - A", "then"), rows))


def _changes(changes: tuple[Change, ...], when: str) -> list[str]:
    """The largest changes and the rest as one, closing exactly."""
    found = [change for change in changes if change.fared is not Fared.SAME]
    named = [change for change in found if change.difference_bytes][:CHANGES]
    rows = [
        (_what(c), c.fared.value, f"{len(c.a_rows):,} -> {len(c.b_rows):,}",
         difference_text(c.difference_bytes))
        for c in named
    ]  # fmt: skip
    if len(found) > len(named):
        rest = sum(c.difference_bytes for c in found) - sum(c.difference_bytes for c in named)
        rows.append((f"other ({count_text(len(found) - len(named))})", "", "", difference_text(rest)))
    lines = table(("", "", "count", "B - A"), rows) if rows else []
    return section(f"What appeared, disappeared, grew or shrank {when}", lines)


def _what(change: Change) -> str:
    category = change.thing.category
    return change.text if category == Category.unattributed else f"{change.text} ({category.label})"


def _rows(name: str, head: str, rows: tuple[DiffRow, ...]) -> list[str]:
    if not rows:
        return []
    cells = [(r.label, bytes_text(r.a_bytes), bytes_text(r.b_bytes), difference_text(r.difference_bytes)) for r in rows]
    a, b = sum(row.a_bytes for row in rows), sum(row.b_bytes for row in rows)
    cells.append(("all active", bytes_text(a), bytes_text(b), difference_text(b - a)))
    return section(name, table((head, "A", "B", "B - A"), cells))


def _savings(diff: Diff) -> list[str]:
    achieved, predicted = diff.achieved_saving_bytes, diff.predicted_saving_bytes
    if achieved is None:
        return []
    rows = [("achieved: activation peak of A minus that of B", bytes_text(achieved))]
    if predicted is not None:
        rows.insert(0, ("predicted by shapes under the plans in force", bytes_text(predicted)))
        rows.append(("achieved minus predicted", difference_text(achieved - predicted)))
        rows += [(f"  {label}", difference_text(size)) for label, size in _largest(diff.saving_beyond_prediction)]
    rows.append(("whole-step peak of A minus that of B", bytes_text(diff.achieved_peak_drop_bytes)))
    if diff.counted_twice_bytes:
        rows.append(("B's running segment input, which shapes count twice", bytes_text(diff.counted_twice_bytes)))
    lines = table(("", "bytes"), rows)
    if diff.planned is not None:
        lines += wrapped(f"{diff.planned.text}.", indent="  ")
    return section("Saving" if is_saving(diff) else "Saving, A minus B", lines)


def _speed(diff: Diff) -> list[str]:
    """How fast each run trained while nothing was recorded; nothing where neither was timed."""
    runs = (diff.a, diff.b)
    seconds = [run.recording.meta.step_seconds_unrecorded for run in runs]
    rates = [throughput(run.recording) for run in runs]
    if not any(seconds):
        return []
    rows = [
        ("seconds per step, median", *("unknown" if not s else seconds_text(s) for s in seconds)),
        ("throughput realised", *("unknown" if r is None else rate_text(r) for r in rates)),
    ]
    return section("Unrecorded steps", table(("", "A", "B"), rows))


def _largest(items: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    """The largest items and the rest as one, closing exactly."""
    rest = sum(size for _, size in items[ITEMS:])
    return [*items[:ITEMS], *([("other", rest)] if items[ITEMS:] else [])]


def _slots(rows: tuple[SlotRow, ...]) -> list[str]:
    cells = []
    for row in rows:
        a, b = (bytes_text(x.bytes) if x else "-" for x in (row.a, row.b))
        cells.append(
            (row.slot.label, a, b, "-" if row.difference_bytes is None else difference_text(row.difference_bytes))
        )
    if not cells:
        return []
    return section("By phase and super-block: most bytes alive meanwhile", table(("", "A", "B", "B - A"), cells))
