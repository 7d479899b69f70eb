"""The comparison of two files in 80 columns: warnings and the answer first, then the tables."""

from __future__ import annotations

from ..analysis.comparison import comparison_headline
from ..analysis.diff import Diff, DiffRow, SlotRow
from ..look.units import bytes_text, difference_text
from ..look.words import severity_text
from .layout import WIDTH, joined, section, shortened, table, wrapped
from .text import title

ITEMS = 4


def diff_text(diff: Diff) -> str:
    """The whole comparison."""
    lines = [shortened(f"{side}  {title(run)}", WIDTH) for side, run in (("a", diff.a), ("b", diff.b))]
    for warning in diff.warnings:
        lines += wrapped(f"{severity_text(warning.severity)}: {warning.text}")
    lines += ["", *(text for line in comparison_headline(diff) for text in wrapped(line.text))]
    lines += _rows("By category, each at its own peak", "category", diff.by_category)
    lines += _rows("By super-block, each at its own peak", "super-block", diff.by_super_block)
    lines += _savings(diff) + _slots(diff.by_super_block_slot)
    return joined(lines)


def _rows(name: str, head: str, rows: tuple[DiffRow, ...]) -> list[str]:
    if not rows:
        return []
    cells = [(r.label, bytes_text(r.a_bytes), bytes_text(r.b_bytes), difference_text(r.difference_bytes)) for r in rows]
    a, b = sum(row.a_bytes for row in rows), sum(row.b_bytes for row in rows)
    cells.append(("all active", bytes_text(a), bytes_text(b), difference_text(b - a)))
    return section(name, table((head, "a", "b", "b - a"), cells))


def _savings(diff: Diff) -> list[str]:
    achieved, predicted = diff.achieved_saving_bytes, diff.predicted_saving_bytes
    if achieved is None:
        return []
    rows = [("achieved: activation peak of a minus that of b", bytes_text(achieved))]
    if predicted is not None:
        rows.insert(0, ("predicted by shapes under the plans in force", bytes_text(predicted)))
        rows.append(("achieved minus predicted", difference_text(achieved - predicted)))
        rows += [(f"  {label}", difference_text(size)) for label, size in _largest(diff.saving_beyond_prediction)]
    rows.append(("whole-step peak of a minus that of b", bytes_text(diff.achieved_peak_drop_bytes)))
    if diff.counted_twice_bytes:
        rows.append(("b's running segment input, which shapes count twice", bytes_text(diff.counted_twice_bytes)))
    return section("Saving", table(("", "bytes"), rows))


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
    return section("By phase and super-block: most bytes alive meanwhile", table(("", "a", "b", "b - a"), cells))
