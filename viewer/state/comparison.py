"""The comparison's tables: by any grouping, by phase and layer, by what changed, and all open runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memstrata.capture.format.schema import I64, Phase

from ..analysis.changes import Change, Fared
from ..analysis.comparison import when_text
from ..analysis.diff import Diff, DiffRow
from ..analysis.grouped import CHANGE
from ..look import palette
from ..look.units import bytes_text, count_text, difference_text, exact_bytes_text
from ..look.words import category_of
from ..model.grouping import ColourRule
from ..model.paints import Paint, category_paint, phase_paint
from ..model.run import Run
from .array_table import Column
from .view_state import ViewState
from .within import CURSOR, within_of

TOTAL = "all"


def filter_of(state: ViewState, pair: tuple[Run, Run]) -> tuple[str, str]:
    """(words that filter a comparison, why there are none): those that both runs are filtered by."""
    a, b = (state.views[state.runs.index(run)].filter for run in pair)
    if a == b:
        return a, ""
    if a and b:
        return "", f'A is filtered by "{a}", B by "{b}": neither is applied here'
    side, other = ("A", "B") if a else ("B", "A")
    return "", f'{side} is filtered by "{a or b}", {other} is not: it is not applied here'


def matching_text(diff: Diff) -> tuple[str, str]:
    """What the filter matches in both runs where they are compared, and what is not restricted by it; the same to the
    byte."""
    a, b = diff.matched_bytes
    when = when_text(diff)
    rest = "headline, other savings and list of runs" if when == "at the peaks" else "headline and list of runs"
    said = f"matching: {bytes_text(a)} → {bytes_text(b)} ({difference_text(b - a)}) {when}; {rest}: whole steps"
    counts = [count_text(len(rows), "allocation") for rows in diff.matched]
    exact = [f"{side}: {exact_bytes_text(size)} in {count}" for side, size, count in zip("AB", (a, b), counts)]
    return said, "\n".join([*exact, f"difference: {exact_bytes_text(b - a)}"])


def range_text(state: ViewState, pair: tuple[Run, Run]) -> str:
    """What a comparison says of ranges, which each run has of its own; empty where neither has any."""
    ranged = [side for side, run in zip("AB", pair) if within_of(state.views[state.runs.index(run)]) != CURSOR]
    return f"the range set in {' and in '.join(ranged)} does not apply here" if ranged else ""


def group_columns(title: str, rows: Sequence[DiffRow], names: tuple[str, str]) -> list[Column]:
    """Bytes of each group at each run's own peak, their difference, and the sum of all as the last row."""
    a = np.array([*(row.a_bytes for row in rows), sum(row.a_bytes for row in rows)], np.int64)
    b = np.array([*(row.b_bytes for row in rows), sum(row.b_bytes for row in rows)], np.int64)
    labels = [*(row.label for row in rows), TOTAL]
    return _columns(title, labels, a, b, names, swatch=True)


def by_difference(rows: Sequence[DiffRow]) -> I64:
    """The rows of that table, the largest difference first and the sum last."""
    sizes = np.array([abs(row.difference_bytes) for row in rows], np.int64)
    return np.append(np.argsort(-sizes, kind="stable"), len(rows)).astype(np.int64)


def slot_columns(diff: Diff, names: tuple[str, str]) -> list[Column]:
    """The most bytes alive in each phase of each super-block; a dash where only one run has it."""
    rows = diff.by_super_block_slot
    a = np.array([row.a.bytes if row.a else -1 for row in rows], np.int64)
    b = np.array([row.b.bytes if row.b else -1 for row in rows], np.int64)
    return _columns("while", [row.slot.label for row in rows], a, b, names)


FARED_TEXT = {
    Fared.APPEARED: "new", Fared.DISAPPEARED: "gone", Fared.GREW: "grew", Fared.SHRANK: "shrank", Fared.MOVED: "moved",
    Fared.SAME: "same",
}  # fmt: skip


def change_columns(diff: Diff) -> tuple[list[Column], I64]:
    """What appeared, disappeared, grew, shrank or moved, and the rows to show: without what stayed the same."""
    found = diff.changes
    a, b = (np.array([getattr(c, f"{side}_bytes") for c in found], np.int64) for side in "ab")
    shown = np.array([i for i, c in enumerate(found) if c.fared is not Fared.SAME], np.int64)
    what, one, two, difference = _columns("what", [c.text for c in found], a, b, ("in A", "in B"), swatch=True)
    fates = np.array([list(Fared).index(change.fared) for change in found], np.int64)
    counts = np.array([max(len(c.a_rows), len(c.b_rows)) for c in found], np.int64)
    return [
        replace(what, hint=lambda i: _whole(found[i])),
        Column("change", fates, lambda i: FARED_TEXT[found[i].fared]),
        Column("count", counts, lambda i: f"{len(found[i].a_rows):,} → {len(found[i].b_rows):,}", None, True,
               meaning="how many allocations in A and in B"),
        one, two, difference,
    ], shown  # fmt: skip


def _whole(change: Change) -> str:
    """Everything about one change: its category, its layers, and how much of it is alike."""
    same = f"{count_text(change.same_size, 'allocation')} of the same size in both"
    layers = f"\nin {', '.join(change.layers)}" if change.layers else ""
    return f"{change.thing.category.label}: {change.text}{layers}\n{same}"


def row_paints(diff: Diff, key: str, rows: Sequence[DiffRow], dark: bool) -> list[Paint]:
    """The paint of each row by this grouping."""
    grey = Paint(palette.neutral(dark))
    if key == CHANGE:
        return [category_paint(change.thing.category, dark) for change in diff.changes]
    if key == "category":
        return [category_paint(category_of(row.category or row.label), dark) for row in rows]
    groupings = [run.grouping(key) for run in (diff.a, diff.b)]
    rest = {one.names[label] for one in groupings for label in one.neutral}
    if groupings[0].colour is ColourRule.PHASE:
        phases = {phase.name: phase for phase in Phase}
        return [phase_paint(phases[row.label], dark) if row.label in phases else grey for row in rows]
    plain = [row.label in rest for row in rows]
    colours = iter(
        (palette.ramp if groupings[0].colour is ColourRule.RAMP else palette.cycle)(plain.count(False), dark)
    )
    return [grey if quiet else Paint(next(colours)) for quiet in plain]


def _columns(
    title: str, labels: Sequence[str], a: I64, b: I64, names: tuple[str, str], swatch: bool = False
) -> list[Column]:
    both = (a >= 0) & (b >= 0)
    difference = np.where(both, b - a, 0)
    share = difference / max(int(np.abs(difference).max(initial=0)), 1)

    def sized(sizes: I64, name: str) -> Column:
        return Column(
            name, sizes, lambda i: bytes_text(int(sizes[i])) if sizes[i] >= 0 else "-",
            lambda i: exact_bytes_text(int(sizes[i])) if sizes[i] >= 0 else "this run has no such place", True,
            meaning=name,
        )  # fmt: skip

    changed = Column(
        "difference", difference, lambda i: difference_text(int(difference[i])) if both[i] else "-",
        lambda i: exact_bytes_text(int(difference[i])) if both[i] else "only one run has such a place", True, share,
    )  # fmt: skip
    return [
        Column(title, np.arange(len(labels)), lambda i: labels[i], swatch=swatch),
        sized(a, names[0]), sized(b, names[1]), changed,
    ]  # fmt: skip
