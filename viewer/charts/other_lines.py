"""The curves of further runs over those of the two that are compared: thin lines, each with its name at its peak."""

from __future__ import annotations

from itertools import product

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QPolygonF, QRegion

from ..look.name_cut import cut_apart
from ..look.palette import further_runs
from ..look.tips import one_line
from ..look.units import bytes_text
from ..model.axes import XAxis
from ..model.peaks import peaks_of
from ..model.run import Run
from ..model.sampling import peak_columns
from .frame import Frame, PixelItem
from .pair_item import PairItem
from .step_line import step_line
from .theme import colour

Line = tuple[Run, XAxis]
_NAME = 0.4
"""Share of the chart's width that a name with its bytes has at most."""


class OtherLines(PixelItem):
    """Lines in colours of their own; a name that would lie on another one is left to the hover."""

    def __init__(self, pair: PairItem) -> None:
        """Painted after `pair`, whose names stay free."""
        super().__init__()
        self.pair = pair
        self.lines: tuple[Line, ...] = ()

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        taken = list(self.pair.pills)
        inks = further_runs(len(self.lines), self.theme.dark)
        free = QRegion(frame.rect.toRect())
        for pill in self.pair.pills:
            free = free.subtracted(QRegion(pill.toAlignedRect()))
        painter.setClipRegion(free)
        for (run, axis), ink in zip(self.lines, inks):
            painter.setPen(QPen(colour(ink, 255 if self.pair.matching is None else 110), 1.3))
            painter.drawPolyline(_polyline(frame, run, axis))
        wide, sizes = QFontMetricsF(painter.font()).horizontalAdvance, [bytes_text(r.peak_bytes) for r, _ in self.lines]
        room = frame.rect.width() * _NAME - max((wide(f" {size}") for size in sizes), default=0)
        names = cut_apart([one_line(run.name) for run, _ in self.lines], room, wide, "…")
        for (run, axis), ink, name, size in zip(self.lines, inks, names, sizes):
            self._name(painter, frame, run, axis, ink, f"{name} {size}", taken)

    def _name(
        self, painter: QPainter, frame: Frame, run: Run, axis: XAxis, ink: str, text: str, taken: list[QRectF]
    ) -> None:
        at = QPointF(frame.x(float(axis.x_of(run.peak_position))), frame.y(run.peak_bytes))
        painter.setPen(QPen(QColor(self.theme.text), 1))
        painter.setBrush(QColor(ink))
        painter.drawEllipse(at, 2.6, 2.6)
        metrics = QFontMetricsF(painter.font())
        width, height = metrics.horizontalAdvance(text) + 8, metrics.height() + 2
        last = frame.rect.right() - width
        lefts = (max(min(x, last), frame.rect.left()) for x in (at.x() + 6, at.x() - 6 - width))
        tops = (max(at.y() - height - 3, frame.rect.top()), at.y() + 5)
        places = (QRectF(left, top, width, height) for left, top in product(lefts, tops))
        place = next((one for one in places if not any(one.intersects(other) for other in taken)), None)
        if place is None:
            return
        taken.append(place)
        painter.fillRect(place, QColor(self.theme.panel))
        painter.drawText(place, Qt.AlignmentFlag.AlignCenter, text)


def _polyline(frame: Frame, run: Run, axis: XAxis) -> QPolygonF:
    columns = peak_columns(run.once(peaks_of), axis, frame.x0, frame.x1, frame.columns)
    return step_line(columns.x * frame.sx + frame.dx, frame.y(0) + run.curve[columns.positions] * frame.sy)
