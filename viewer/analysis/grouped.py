"""The difference of two runs at their peaks, cut by any grouping that both of them have."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import I64

from ..model.grouping import GROUPINGS, available
from ..model.query import AllocationQuery
from ..model.run import Run
from .at_peaks import groups_at_peak
from .diff import Diff, DiffRow

_NOT_AT_A_PEAK = frozenset({"stream"})
"""Streams are numbered by addresses, which no two runs share."""


CHANGE = "change"
"""Key of the cut into things that are matched between the runs."""


def shared_groupings(diff: Diff) -> dict[str, str]:
    """Key and title of the groupings that both runs have, and of the cut by what things are."""
    both = [key for key in available(diff.a) if key in available(diff.b) and key not in _NOT_AT_A_PEAK]
    return {key: GROUPINGS[key].title for key in both} | {CHANGE: "what it is"}


def first_grouping(diff: Diff) -> str:
    """Categories, unless hardly anything at a peak has one: then what things are, as far as their stacks tell."""
    least = min(known_share(run) for run in (diff.a, diff.b))
    return CHANGE if least < 0.5 and "stacks" in diff.a.capabilities | diff.b.capabilities else "category"


def known_share(run: Run) -> float:
    """Share of the bytes at the peak that have a category, recorded or inferred."""
    return run.coverage_at(run.peak_position) + run.inferred_coverage_at(run.peak_position)


def rows_by(diff: Diff, key: str) -> tuple[DiffRow, ...]:
    """The rows by this grouping, in its order; groups alive at neither peak are left out. Without a
    filter they sum to both peaks."""
    if key == "category":
        return diff.by_category
    if key == "super_block":
        return diff.by_super_block
    if key == CHANGE:
        return tuple(DiffRow(c.text, c.a_bytes, c.b_bytes, *c.queries) for c in diff.changes)
    a, b = _groups(diff.a, key, diff.filter), _groups(diff.b, key, diff.filter)
    nothing = (0, AllocationQuery(rows=()))
    names = [*a, *(name for name in b if name not in a)]
    rows = ((name, a.get(name, nothing), b.get(name, nothing)) for name in names)
    return tuple(DiffRow(name, one[0], two[0], one[1], two[1]) for name, one, two in rows)


def _groups(run: Run, key: str, filter: str) -> dict[str, tuple[int, AllocationQuery]]:
    """Bytes and allocations at the peak by name of group; lines of two files may share a name."""
    sizes: I64 = groups_at_peak(run, key, filter)
    out: dict[str, tuple[int, AllocationQuery]] = {}
    names = run.grouping(key).names
    for label in np.flatnonzero(sizes).tolist():
        mine = AllocationQuery(run.peak_position, group=(key, label))
        size, name = int(sizes[label]), names[label]
        if name in out:
            before, query = out[name]
            both = {*query.select(run).tolist(), *mine.select(run).tolist()}
            size, mine = size + before, AllocationQuery(run.peak_position, rows=tuple(sorted(both)))
        out[name] = (size, mine)
    return out
