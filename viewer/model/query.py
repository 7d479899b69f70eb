"""`AllocationQuery`: which allocations a shown number is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memstrata.capture.format.schema import B1, I64, Category, Phase

from .ordering import descending

if TYPE_CHECKING:
    from .run import Run

ACTIVATIONS = frozenset((Category.activation, Category.rematerialized))
"""What checkpointing moves: activations, rematerialized ones included."""


@dataclass(frozen=True)
class AllocationQuery:
    """Conditions that all must hold; None does not restrict. `layer` and `super_block` -1 mean outside layers."""

    position: int | None = None
    """Alive at this position; without it, alive at any time."""
    category: Category | None = None
    categories: frozenset[Category] | None = None
    """Any of these."""
    layer: int | None = None
    super_block: int | None = None
    phase: Phase | None = None
    """Born in this phase."""
    before: bool | None = None
    """Older than the recording."""
    group: tuple[str, int] | None = None
    """(grouping key, label)."""
    groups: tuple[str, frozenset[int]] | None = None
    """(grouping key, labels): any of these."""
    born: tuple[int, int] | None = None
    """Made by an event e with born[0] <= e < born[1]."""
    rows: tuple[int, ...] | None = None
    """These rows of the allocations."""
    modules: frozenset[int] | None = None
    """Of any of these rows of modules; -1 is none."""
    alive_in: tuple[int, int] | None = None
    """Alive at any position p with alive_in[0] <= p <= alive_in[1]."""
    filter: str = ""
    """Words as the filter box takes them, see `filters`."""

    def mask(self, run: Run) -> B1:
        """Whether each allocation of the run meets all conditions."""
        allocations, attribution = run.allocations, run.attribution
        ok = np.ones(len(allocations), np.bool_)
        if self.position is not None:
            ok &= (allocations.start <= self.position) & (self.position < allocations.end)
        if self.before is not None:
            ok &= allocations.before == self.before
        if self.born is not None:
            made = allocations.start - 1
            ok &= ~allocations.before & (made >= self.born[0]) & (made < self.born[1])
        if self.alive_in is not None:
            ok &= (allocations.start <= self.alive_in[1]) & (self.alive_in[0] < allocations.end)
        if self.filter:
            ok &= run.filtered(self.filter)
        if self.rows is not None:
            named = np.zeros(len(allocations), np.bool_)
            named[list(self.rows)] = True
            ok &= named
        if self.modules is not None:
            ok &= np.isin(attribution.module, sorted(self.modules))
        if self.categories is not None:
            ok &= np.isin(attribution.category, sorted(self.categories))
        for wanted, column in (
            (self.category, attribution.category),
            (self.layer, attribution.layer),
            (self.super_block, attribution.super_block),
            (self.phase, attribution.phase),
        ):
            if wanted is not None:
                ok &= column == wanted
        if self.group is not None:
            ok &= run.grouping(self.group[0]).labels == self.group[1]
        if self.groups is not None:
            ok &= np.isin(run.grouping(self.groups[0]).labels, sorted(self.groups[1]))
        return ok

    def select(self, run: Run) -> I64:
        """Rows of the run's allocations, largest first; equal ones in the order they were made."""
        rows = np.flatnonzero(self.mask(run))
        return rows[descending(run.allocations.bytes[rows])]

    def bytes(self, run: Run) -> int:
        """Sum of the bytes selected: live bytes if a position is set, else everything ever allocated."""
        return int(run.allocations.bytes[self.mask(run)].sum())
