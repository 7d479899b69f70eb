"""Which colour and which hatch a group of a grouping is painted with."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor

from memstrata.capture.format.schema import Category, Phase

from ..look import palette
from ..model.grouping import ColourRule, Grouping

_PATTERNS = {"diagonal": Qt.BrushStyle.BDiagPattern, "dots": Qt.BrushStyle.Dense6Pattern}


@dataclass(frozen=True)
class Paint:
    """A fill and, over it, a hatch (empty for none)."""

    fill: str
    hatch: str = ""

    def brush(self, opacity: float = 1.0) -> QBrush:
        """The fill, 1.0 opaque."""
        made = QColor(self.fill)
        made.setAlphaF(opacity)
        return QBrush(made)

    def hatch_brush(self, opacity: float = 1.0) -> QBrush | None:
        """The hatch in a tone that shows on the fill; None for a plain fill."""
        if not self.hatch:
            return None
        tone = QColor(palette.text_on(self.fill))
        tone.setAlphaF(0.27 * opacity)
        return QBrush(tone, _PATTERNS[self.hatch])


def category_paint(category: Category | int, dark: bool) -> Paint:
    """The one paint of a category."""
    return Paint(palette.category_colour(category, dark), palette.hatch(category))


def phase_paint(phase: Phase | int, dark: bool) -> Paint:
    """The paint of a phase; recompute is hatched."""
    hatch = palette.RECOMPUTE_HATCH if phase == Phase.recompute else ""
    return Paint(palette.phase_colour(phase, dark), hatch)


def group_paints(grouping: Grouping, dark: bool) -> list[Paint]:
    """One paint for each group."""
    if grouping.colour is ColourRule.CATEGORY:
        return [category_paint(label, dark) for label in range(len(grouping))]
    neutral = Paint(palette.neutral(dark))
    if grouping.colour is ColourRule.PHASE:
        return [neutral if n in grouping.neutral else phase_paint(n, dark) for n in range(len(grouping))]
    count = len(grouping) - len(grouping.neutral)
    colours = iter((palette.ramp if grouping.colour is ColourRule.RAMP else palette.cycle)(count, dark))
    return [neutral if n in grouping.neutral else Paint(next(colours)) for n in range(len(grouping))]
