"""The ribbon of phases over a timeline: forward, backward with recompute hatched, optimizer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QPainter

from memstrata.capture.format.schema import B1, F64, I64, Phase

from ..look.palette import channels
from ..model.axes import XAxis
from ..model.paints import phase_paint
from .colours import fill_brush
from .frame import Frame, PixelItem
from .rectangles import Rectangles
from .theme import Theme, colour

HEIGHT, LOW_HEIGHT = 22, 18
FOOT = 3
_OPACITY = 0.28
_NAMED = 24
"""Pixels below which no name fits."""
_NARROW = 4.0
"""Pixels below which no hatch shows."""


class RibbonItem(PixelItem):
    """Paints (phase, first position, last position) side by side, each with its name where it fits."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: Sequence[tuple[Phase, int, int]] = ()
        self.axis: XAxis | None = None
        self._ends: F64 = np.empty((0, 2))
        """Where each phase begins and ends, as x."""
        self._kinds: I64 = np.empty(0, np.int64)
        self._steps: F64 = np.empty(0)
        """Where steps begin and end, as x."""
        self.said = ""
        self._rectangles = Rectangles()

    def show_phases(
        self, phases: Sequence[tuple[Phase, int, int]], axis: XAxis, said: str = "",
        steps: Sequence[tuple[int, int]] = (),
    ) -> None:  # fmt: skip
        """What to paint from now on; `said` stands behind each name. `steps` are (first, last position)."""
        self.phases, self.axis, self.said = [p for p in phases if p[0] != Phase.other], axis, said
        self._kinds = np.array([p[0] for p in self.phases], np.int64)
        self._ends = axis.x_of(np.array([p[1:] for p in self.phases], np.int64).reshape(-1, 2))
        self._steps = axis.x_of(np.unique(np.array(steps, np.int64)))
        self.update()

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        if self.axis is None:
            return
        ends, whole = self._ends * frame.sx + frame.dx, frame.rect
        seen = _seen(ends, whole)
        narrow = ends[seen, 1] - ends[seen, 0] < _NARROW
        painter.setPen(Qt.PenStyle.NoPen)
        for kind in np.unique(self._kinds[seen]).tolist():
            mine = self._kinds[seen] == kind
            self._paint_alike(painter, whole, Phase(kind), ends[seen[mine]], narrow[mine])
        for place in seen[ends[seen, 1] - ends[seen, 0] >= _NAMED].tolist():
            phase, (left, right) = self.phases[place][0], ends[place].tolist()
            rect = QRectF(left, whole.top(), right - left, whole.height())
            write_name(painter, rect.intersected(whole), phase, self.theme, phase.name, self.said)
        self._paint_steps(painter, whole, np.unique(np.rint(self._steps * frame.sx + frame.dx)))

    def _paint_alike(self, painter: QPainter, whole: QRectF, phase: Phase, ends: F64, narrow: B1) -> None:
        """All of one phase at once: a run of thousands of steps has thousands of them. Narrow ones have no hatch."""
        paint = phase_paint(phase, self.theme.dark)
        layers = [(whole.top(), fill_brush(paint, _OPACITY), ends), (whole.bottom() - FOOT, fill_brush(paint), ends)]
        if phase == Phase.recompute:
            layers.append((whole.top(), _hatch(paint.fill), ends[~narrow]))
        for top, brush, (left, right) in ((top, brush, some.T) for top, brush, some in layers):
            painter.setBrush(brush)
            edges = np.full(len(left), top), np.maximum(right, left + 1), np.full(len(left), whole.bottom())
            self._rectangles.put(left, *edges).paint(painter)

    def _paint_steps(self, painter: QPainter, whole: QRectF, x: F64) -> None:
        """A line where a step begins or ends; of several within one pixel one stands for all."""
        x = x[(x >= whole.left()) & (x <= whole.right())]
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self.theme.text))
        self._rectangles.put(x - 1, np.full(len(x), whole.top()), x + 1, np.full(len(x), whole.bottom()))
        self._rectangles.paint(painter)


def _seen(ends: F64, rect: QRectF) -> I64:
    """Which of these intervals (pixels) are in sight; of several within one pixel the first stands for all."""
    narrow = ends[:, 1] - ends[:, 0] < 1
    pixel = np.floor(ends[:, 0])
    hidden = np.append(False, narrow[1:] & narrow[:-1] & (pixel[1:] == pixel[:-1]))[: len(ends)]
    return np.flatnonzero((ends[:, 1] >= rect.left()) & (ends[:, 0] <= rect.right()) & ~hidden)


def paint_phase(painter: QPainter, rect: QRectF, phase: Phase, theme: Theme, name: str = "") -> None:
    """One phase as a rectangle, with its name if that fits."""
    if rect.isEmpty():
        return
    paint = phase_paint(phase, theme.dark)
    foot = QRectF(rect.left(), rect.bottom() - FOOT, rect.width(), FOOT)
    painter.fillRect(rect, fill_brush(paint, _OPACITY if rect.height() > 2 * FOOT else 1.0))
    painter.fillRect(foot, fill_brush(paint))
    if phase == Phase.recompute:
        painter.fillRect(rect, _hatch(paint.fill))
    if name:
        write_name(painter, rect, phase, theme, name)


def write_name(painter: QPainter, rect: QRectF, phase: Phase, theme: Theme, name: str, said: str = "") -> None:
    """The name of a phase into its rectangle, if it fits. What is `said` behind it is told by italics where only the
    name does."""
    if rect.width() < _NAMED:
        return
    plain, measure = painter.font(), QFontMetricsF(painter.font()).horizontalAdvance
    if said and rect.width() >= measure(name + said) + 3:
        name, said = name + said, ""
    width = measure(name)
    if rect.width() < width + 3:
        return
    if phase == Phase.recompute:  # text on a hatch is hard to read
        around = QRectF(rect.center().x() - width / 2 - 3, rect.top(), width + 6, rect.height() - FOOT)
        painter.fillRect(around, _plain(phase_paint(phase, theme.dark).fill, theme))
    painter.setPen(QColor(theme.text))
    leaning = QFont(plain)
    leaning.setItalic(bool(said))
    painter.setFont(leaning)
    painter.drawText(rect.adjusted(0, -FOOT / 2, 0, -FOOT / 2), Qt.AlignmentFlag.AlignCenter, name)
    painter.setFont(plain)


def _hatch(fill: str) -> QBrush:
    return QBrush(colour(fill, 150), Qt.BrushStyle.BDiagPattern)


def _plain(fill: str, theme: Theme) -> QColor:
    """The fill as it looks at the ribbon's opacity on the panel."""
    mixed = (round(x * _OPACITY + y * (1 - _OPACITY)) for x, y in zip(channels(fill), channels(theme.panel)))
    return QColor(*mixed)
