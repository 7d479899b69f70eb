"""Which colour and which hatch a group of a grouping is painted with, in the window and on paper."""

from __future__ import annotations

from dataclasses import dataclass

from memstrata.capture.format.schema import Category, Phase

from ..look import palette
from .grouping import ColourRule, Grouping


@dataclass(frozen=True)
class Paint:
    """A fill as `#rrggbb` and, over it, a hatch (`diagonal`, `dots`, or empty for none)."""

    fill: str
    hatch: str = ""


def category_paint(category: Category | int, dark: bool) -> Paint:
    """The one paint of a category."""
    return Paint(palette.category_colour(category, dark), palette.hatch(category))


def phase_paint(phase: Phase | int, dark: bool) -> Paint:
    """The paint of a phase; recompute is hatched."""
    hatch = palette.RECOMPUTE_HATCH if phase == Phase.recompute else ""
    return Paint(palette.phase_colour(phase, dark), hatch)


def group_paints(grouping: Grouping, dark: bool) -> list[Paint]:
    """One paint for each group; of several that are grey, all but the first are hatched."""
    if grouping.colour is ColourRule.CATEGORY:
        return [category_paint(label, dark) for label in range(len(grouping))]
    greys = {
        n: Paint(palette.neutral(dark), "dots" if place else "") for place, n in enumerate(sorted(grouping.neutral))
    }
    if grouping.colour is ColourRule.PHASE:
        return [greys.get(n) or phase_paint(n, dark) for n in range(len(grouping))]
    count = len(grouping) - len(grouping.neutral)
    colours = iter((palette.ramp if grouping.colour is ColourRule.RAMP else palette.cycle)(count, dark))
    return [greys.get(n) or Paint(next(colours)) for n in range(len(grouping))]
