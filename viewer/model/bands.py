"""What a stack of bands is made of: a grouping cut down to as many groups as can be told apart. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import I64

from .curves import GroupSums, group_sums
from .grouping import ColourRule, Grouping
from .query import AllocationQuery
from .run import Run

MOST_DISTINCT = 10
"""Groups without an order need colours of their own, and there are no more than this."""


@dataclass(frozen=True, eq=False)
class Bands:
    """`grouping` is what is painted; `labels[i]` the label of its group i in the full grouping, -1 for "other"."""

    run: Run
    grouping: Grouping
    labels: tuple[int, ...]
    highest: I64
    """The most bytes each group has at any position; 0 for groups that never show."""
    sums: GroupSums

    def __len__(self) -> int:
        return len(self.grouping)

    def bytes_at(self, positions: I64) -> I64:
        """Exact bytes of each group; shape [groups, positions]."""
        return self.sums.at(positions)

    def query(self, group: int) -> AllocationQuery | None:
        """The allocations of a group; None for "other"."""
        label = self.labels[group]
        return AllocationQuery(group=(self.grouping.key, label)) if label >= 0 else None

    def group_of(self, query: AllocationQuery | None) -> int | None:
        """The group that this query asks for by name, None if it asks for something else."""
        if query is None or query.group is None or query.group[0] != self.grouping.key:
            return None
        return self.labels.index(query.group[1]) if query.group[1] in self.labels else None


def bands_of(run: Run, key: str) -> Bands:
    """The bands of one grouping of a run."""
    return run.once(_bands, key)


def _bands(run: Run, key: str) -> Bands:
    full = run.grouping(key)
    sums = _sums(run, full)
    highest = sums.highest
    if full.colour is not ColourRule.DISTINCT or len(full) <= MOST_DISTINCT:
        return Bands(run, full, tuple(range(len(full))), highest, sums)
    kept = np.sort(np.argsort(-highest, kind="stable")[:MOST_DISTINCT])
    reduced = full.largest(highest, MOST_DISTINCT)
    sums = _sums(run, reduced)
    return Bands(run, reduced, (*kept.tolist(), -1), sums.highest, sums)


def _sums(run: Run, grouping: Grouping) -> GroupSums:
    return group_sums(run.allocations, grouping.labels, len(grouping))
