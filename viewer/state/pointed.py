"""What the pointer rests on in one view, so that the others can show the same thing. It is no part of what is looked
at: it is never undone, and nothing is worked out for it."""

from __future__ import annotations

from dataclasses import dataclass

from memstrata.capture.format.schema import NONE

from ..model.bands import Bands
from ..model.query import AllocationQuery

_BY_PLACE = {"layer": "layer", "super_block": "super_block"}
"""Groupings whose groups are places of the model, with the field of a query that asks for one."""

_BY_FRAME = frozenset(("frame", "root"))
"""Groupings whose groups are lines of the user's code."""


@dataclass(frozen=True)
class Pointed:
    """One of these; all None for nothing."""

    group: int | None = None
    """A band of the grouping in force."""
    query: AllocationQuery | None = None
    """What a lane stands for."""
    allocation: int | None = None
    """A row of the allocations."""
    frame: str | None = None
    """A line of the user's code, as groups by frame are named."""

    def band(self, bands: Bands) -> int | None:
        """The band that it is, or that holds it; None where no single one does."""
        if self.group is not None:
            return self.group if self.group < len(bands) else None
        if self.allocation is not None:
            label = int(bands.grouping.labels[self.allocation])
            return label if label >= 0 else None
        if self.frame is not None:
            names = bands.grouping.names if bands.grouping.key in _BY_FRAME else ()
            return names.index(self.frame) if self.frame in names else None
        field = _BY_PLACE.get(bands.grouping.key)
        place = getattr(self.query, field) if self.query is not None and field else None
        return None if place is None else _band_of_place(bands, place)


NOTHING = Pointed()


def _band_of_place(bands: Bands, place: int) -> int | None:
    """The last label is what lies outside of all."""
    outside = len(bands.run.grouping(bands.grouping.key)) - 1
    label = outside if place == NONE else place
    return bands.labels.index(label) if label in bands.labels else None
