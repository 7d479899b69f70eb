"""What a stack of bands is made of: a grouping cut down to as many groups as can be told apart. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import I64

from .curves import GroupSums, group_sums, highest, highest_of
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

    def bytes_of(self, query: AllocationQuery) -> I64:
        """Bytes of the allocations that a query selects, for each group."""
        rows = np.flatnonzero(query.mask(self.run))
        out = np.zeros(len(self), np.int64)
        np.add.at(out, self.grouping.labels[rows], self.run.allocations.bytes[rows])
        return out

    def matching_at(self, position: int, filter: str) -> I64:
        """Bytes of each group at a position, of what matches the words of a filter; of all without any."""
        if filter:
            return self.bytes_of(AllocationQuery(position=position, filter=filter))
        return self.bytes_at(np.array([position], np.int64))[:, 0]

    def query(self, group: int) -> AllocationQuery:
        """The allocations of a group; of "other" those of every group that has no band of its own."""
        label, key = self.labels[group], self.grouping.key
        if label >= 0:
            return AllocationQuery(group=(key, label))
        return AllocationQuery(groups=(key, frozenset(range(len(self.run.grouping(key)))).difference(self.labels)))

    def group_of(self, query: AllocationQuery | None) -> int | None:
        """The group that this query asks for by name, None if it asks for something else."""
        if query is None:
            return None
        if query.group is not None and query.group[0] == self.grouping.key and query.group[1] in self.labels:
            return self.labels.index(query.group[1])
        if query.groups is None or -1 not in self.labels:
            return None
        other = self.labels.index(-1)
        return other if query.groups == self.query(other).groups else None


def bands_of(run: Run, key: str) -> Bands:
    """The bands of one grouping of a run."""
    return run.once(_bands, key)


def _bands(run: Run, key: str) -> Bands:
    full = run.grouping(key)
    most = highest(run.changes, full.labels, len(full))
    if full.colour is not ColourRule.DISTINCT or len(full) <= MOST_DISTINCT:
        return Bands(run, full, tuple(range(len(full))), most, _sums(run, full))
    kept = np.sort(np.argsort(-most, kind="stable")[:MOST_DISTINCT])
    reduced = full.largest(most, MOST_DISTINCT)
    rest = highest_of(run.changes, reduced.labels == len(kept))
    return Bands(run, reduced, (*kept.tolist(), -1), np.append(most[kept], rest), _sums(run, reduced))


def _sums(run: Run, grouping: Grouping) -> GroupSums:
    return group_sums(run.allocations, grouping.labels, len(grouping), run.changes)
