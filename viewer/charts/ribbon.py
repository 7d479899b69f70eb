"""The ribbon of phases over a timeline: forward, backward with recompute hatched, optimizer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter

from memstrata.capture.format.schema import F64, Phase

from ..look.palette import channels
from ..model.axes import XAxis
from ..model.paints import phase_paint
from .colours import fill_brush
from .frame import Frame, PixelItem
from .theme import Theme, colour

HEIGHT = 22
FOOT = 3
_OPACITY = 0.28
_NAMED = 24
"""Pixels below which no name fits."""


class RibbonItem(PixelItem):
    """Paints (phase, first position, last position) side by side, each with its name where it fits."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: Sequence[tuple[Phase, int, int]] = ()
        self.axis: XAxis | None = None
        self._ends: F64 = np.empty((0, 2))
        """Where each phase begins and ends, as x."""
        self.said = ""

    def show_phases(self, phases: Sequence[tuple[Phase, int, int]], axis: XAxis, said: str = "") -> None:
        """What to paint from now on; `said` stands behind each name."""
        self.phases, self.axis, self.said = [p for p in phases if p[0] != Phase.other], axis, said
        self._ends = axis.x_of(np.array([p[1:] for p in self.phases], np.int64).reshape(-1, 2))
        self.update()

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        if self.axis is None:
            return
        ends, whole = self._ends * frame.sx + frame.dx, frame.rect
        for place in _seen(ends, whole):
            phase, (left, right) = self.phases[place][0], ends[place].tolist()
            rect = QRectF(left, whole.top(), max(right - left, 1.0), whole.height())
            paint_phase(painter, rect.intersected(whole), phase, self.theme, phase.name + self.said)


def _seen(ends: F64, rect: QRectF) -> list[int]:
    """Which of these intervals (pixels) are in sight; of several within one pixel the first stands for all."""
    narrow = ends[:, 1] - ends[:, 0] < 1
    pixel = np.floor(ends[:, 0])
    hidden = np.append(False, narrow[1:] & narrow[:-1] & (pixel[1:] == pixel[:-1]))[: len(ends)]
    return np.flatnonzero((ends[:, 1] >= rect.left()) & (ends[:, 0] <= rect.right()) & ~hidden).tolist()


def paint_phase(painter: QPainter, rect: QRectF, phase: Phase, theme: Theme, name: str = "") -> None:
    """One phase as a rectangle, with its name if that fits."""
    if rect.isEmpty():
        return
    paint = phase_paint(phase, theme.dark)
    foot = QRectF(rect.left(), rect.bottom() - FOOT, rect.width(), FOOT)
    painter.fillRect(rect, fill_brush(paint, _OPACITY if rect.height() > 2 * FOOT else 1.0))
    painter.fillRect(foot, fill_brush(paint))
    if phase == Phase.recompute:
        painter.fillRect(rect, QBrush(colour(paint.fill, 150), Qt.BrushStyle.BDiagPattern))
    if not name or rect.width() < _NAMED:
        return
    width = QFontMetricsF(painter.font()).horizontalAdvance(name)
    if rect.width() < width + 3:
        return
    if phase == Phase.recompute:  # text on a hatch is hard to read
        around = QRectF(rect.center().x() - width / 2 - 3, rect.top(), width + 6, rect.height() - FOOT)
        painter.fillRect(around, _plain(paint.fill, theme))
    painter.setPen(QColor(theme.text))
    painter.drawText(rect.adjusted(0, -FOOT / 2, 0, -FOOT / 2), Qt.AlignmentFlag.AlignCenter, name)


def _plain(fill: str, theme: Theme) -> QColor:
    """The fill as it looks at the ribbon's opacity on the panel."""
    mixed = (round(x * _OPACITY + y * (1 - _OPACITY)) for x, y in zip(channels(fill), channels(theme.panel)))
    return QColor(*mixed)
