"""What a filter matches of two runs, over their curves: a line for each, and the key that says which is which."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from ..look import palette
from ..look.tips import one_line
from ..model.axes import XAxis
from ..model.peaks import Peaks
from ..model.sampling import peak_columns
from .frame import Frame
from .step_line import draw_rimmed, step_line
from .theme import Theme, colour

_WIDTH = 2.4
_SAMPLE, _GAP = 16, 5
"""Pixels of a line in the key, and beside it."""
_WIDEST = 160
"""Pixels of the filter's words in the key."""


@dataclass(frozen=True, eq=False)
class MatchingLines:
    """The bytes that the words of a filter match at each position of both runs."""

    words: str
    curves: tuple[Peaks, Peaks]

    def paint(self, painter: QPainter, frame: Frame, theme: Theme, axes: tuple[XAxis, XAxis]) -> None:
        """Both lines; that of the run after in front."""
        for peaks, axis, ink in zip(self.curves, axes, palette.RUN_LINE[theme.dark]):
            columns = peak_columns(peaks, axis, frame.x0, frame.x1, frame.columns)
            line = step_line(columns.x * frame.sx + frame.dx, frame.y(0) + peaks.curve[columns.positions] * frame.sy)
            draw_rimmed(painter, line, QPen(QColor(ink), _WIDTH), theme)

    def paint_key(self, painter: QPainter, frame: Frame, theme: Theme, taken: list[QRectF]) -> QRectF:
        """The key, where it lies on none of what is there already; shorter where it has no room. Returns its place."""
        metrics = QFontMetricsF(painter.font())
        words = metrics.elidedText(one_line(self.words), Qt.TextElideMode.ElideRight, _WIDEST)
        texts = (f'matching "{words}"; pale: the whole steps', "matching; pale: whole steps", "matching")
        lines = sum(metrics.horizontalAdvance(side) + _SAMPLE + 3 * _GAP for side in "AB")
        sizes = {text: lines + metrics.horizontalAdvance(text) + 2 * _GAP for text in texts}
        height = metrics.height() + 4
        found = ((text, _free(frame.rect, width, height, taken)) for text, width in sizes.items())
        least = QRectF(frame.rect.left(), frame.rect.top(), sizes[texts[-1]], height)
        said, place = next(((text, place) for text, place in found if place is not None), (texts[-1], least))
        painter.fillRect(place, colour(theme.panel, 225))
        x = place.left() + _GAP
        for side, ink in zip("AB", palette.RUN_LINE[theme.dark]):
            painter.setPen(QPen(QColor(ink), _WIDTH))
            painter.drawLine(QPointF(x, place.center().y()), QPointF(x + _SAMPLE, place.center().y()))
            _write(painter, theme, place, x + _SAMPLE + _GAP, side)
            x += _SAMPLE + metrics.horizontalAdvance(side) + 3 * _GAP
        _write(painter, theme, place, x, said)
        return place


def _write(painter: QPainter, theme: Theme, place: QRectF, x: float, text: str) -> None:
    painter.setPen(QColor(theme.text))
    inside = QRectF(x, place.top(), place.right() - x, place.height())
    painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)


def _free(inside: QRectF, width: float, height: float, taken: list[QRectF]) -> QRectF | None:
    """A place at the left or the right edge, as far up as can be, that is free."""
    lefts = (inside.left() + _GAP, inside.right() - width - _GAP)
    tops = (inside.top() + _GAP / 2 + step * (height + _GAP) for step in range(2))
    places = (QRectF(left, top, width, height) for top in tops for left in lefts)
    fits = (place for place in places if inside.contains(place))
    return next((place for place in fits if not any(place.intersects(other) for other in taken)), None)
