"""The colour of each allocation: that of its band, pale where a filter does not match it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QBrush, QColor

from memstrata.capture.format.schema import B1

from ..look import palette
from ..model.paints import Paint
from .band_painter import DIMMED
from .colours import hatch_brush
from .theme import Theme

U32 = NDArray[np.uint32]
_TONE = 0.27
"""How strong a hatch is over its colour, as everywhere."""


@dataclass(frozen=True, eq=False)
class AllocationColours:
    """Kinds of colours: those of the groups, then the same made pale. `kind` has one for each allocation."""

    kind: NDArray[np.int16]
    fills: tuple[QColor, ...]
    hatches: tuple[QBrush | None, ...]
    """Over the fill of each kind; None for a plain one."""
    diagonal: B1
    dots: B1
    """Which kinds have this hatch."""

    @property
    def rgb(self) -> U32:
        """The fill of each kind as pixels."""
        return np.array([fill.rgb() for fill in self.fills], np.uint32)

    @property
    def tones(self) -> U32:
        """The hatch of each kind as pixels; its fill where it is plain."""
        strong = len(self.fills) // 2  # the pale ones come after
        tones = (_TONE if n < strong else _TONE * DIMMED for n in range(len(self.fills)))
        return np.array([_over(_ink(fill), fill, tone).rgb() for fill, tone in zip(self.fills, tones)], np.uint32)


def allocation_colours(
    labels: NDArray[np.integer], paints: Sequence[Paint], matches: B1 | None, theme: Theme
) -> AllocationColours:
    """The colours of allocations by their band; where `matches` says no they are pale."""
    fills = [QColor(paint.fill) for paint in paints]
    pale = [_over(fill, QColor(theme.panel), DIMMED) for fill in fills]
    kind = labels.astype(np.int16)
    if matches is not None:
        kind = np.where(matches, kind, kind + np.int16(len(fills))).astype(np.int16)
    hatches = [hatch_brush(paint) for paint in paints] + [hatch_brush(paint, DIMMED) for paint in paints]
    diagonal, dots = (np.array([p.hatch == name for p in paints] * 2, np.bool_) for name in ("diagonal", "dots"))
    return AllocationColours(kind, (*fills, *pale), tuple(hatches), diagonal, dots)


def _ink(fill: QColor) -> QColor:
    return QColor(palette.text_on(fill.name()))


def _over(top: QColor, below: QColor, opacity: float) -> QColor:
    parts = zip((top.red(), top.green(), top.blue()), (below.red(), below.green(), below.blue()))
    return QColor(*(round(a * opacity + b * (1 - opacity)) for a, b in parts))
