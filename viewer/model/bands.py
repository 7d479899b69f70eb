"""What a stack of bands is made of: a grouping cut down to as many groups as can be told apart. Pure numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import I64

from .curves import at_positions
from .grouping import ColourRule, Grouping
from .query import AllocationQuery
from .run import Run

MOST_DISTINCT = 10
"""Groups without an order need colours of their own, and there are no more than this."""
_SAMPLES = 400


@dataclass(frozen=True, eq=False)
class Bands:
    """`grouping` is what is painted; `labels[i]` the label of its group i in the full grouping, -1 for "other"."""

    run: Run
    grouping: Grouping
    labels: tuple[int, ...]
    highest: I64
    """The most bytes each group has at any of the positions sampled; 0 for groups that never show."""

    def __len__(self) -> int:
        return len(self.grouping)

    def bytes_at(self, positions: I64) -> I64:
        """Exact bytes of each group; shape [groups, positions]."""
        return at_positions(self.run.allocations, self.grouping.labels, len(self.grouping), positions)

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
    full = run.grouping(key)
    highest = _highest(run, full)
    if full.colour is not ColourRule.DISTINCT or len(full) <= MOST_DISTINCT:
        return Bands(run, full, tuple(range(len(full))), highest)
    kept = np.sort(np.argsort(-highest, kind="stable")[:MOST_DISTINCT])
    reduced = full.largest(highest, MOST_DISTINCT)
    return Bands(run, reduced, (*kept.tolist(), -1), _highest(run, reduced))


def _highest(run: Run, grouping: Grouping) -> I64:
    """Sampled, with the peak among the samples."""
    positions = np.linspace(0, run.n_events, min(_SAMPLES, run.n_events + 1)).astype(np.int64)
    positions = np.append(positions, run.peak_position)
    sums = at_positions(run.allocations, grouping.labels, len(grouping), positions)
    highest: I64 = sums.max(axis=1, initial=0)
    return highest
