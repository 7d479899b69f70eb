"""The axes of the charts: binary bytes, seconds or events, always with their unit."""

from __future__ import annotations

from collections.abc import Callable

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QStaticText

from ..look import ticks
from .theme import Theme

_HALF_LINE = 12
_TICK, _GAP = 4, 6
"""Pixels of a tick's length, and from there to its number."""
_KEPT = 400
"""Numbers kept laid out."""
Ticks = list[tuple[float, list[float]]]
_FORMATS: dict[str, Callable[[float, float], str]] = {
    "s": ticks.seconds_text,
    "events": ticks.event_text,
    "%": lambda value, _: f"{value:g}%",
}


class _Axis(pg.AxisItem):
    """Paints itself: pyqtgraph lays out every number again in every frame, and paints all of it twice."""

    def __init__(self, side: str) -> None:
        super().__init__(side)
        self._upright = side == "left"
        self._font = QFont()
        self._texts: dict[str, tuple[QStaticText, QSizeF]] = {}

    def paint(self, painter: QPainter, *_: object) -> None:
        """A line, a tick for each value, and its number where all of it fits."""
        bounds, room = self.mapRectFromParent(self.geometry()), self.boundingRect()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(self.pen())
        if self._upright:
            painter.drawLine(bounds.topRight() + QPointF(-1, -1), bounds.bottomRight() + QPointF(-1, 1))
        else:
            painter.drawLine(bounds.topLeft() + QPointF(-1, 1), bounds.topRight() + QPointF(1, 1))
        found = self._numbers(bounds)
        painter.setPen(self.tickPen())
        for at, _text in found:
            painter.drawLine(at, at + (QPointF(-_TICK, 0) if self._upright else QPointF(0, _TICK)))
        painter.setPen(self.textPen())
        for at, text in found:
            laid_out, size = self._laid_out(painter, text)
            place = QRectF(self._corner(at, size), size)
            if room.contains(place):
                painter.drawStaticText(place.topLeft(), laid_out)

    def _numbers(self, bounds: QRectF) -> list[tuple[QPointF, str]]:
        """Where each value lies on the axis, and what it says."""
        (low, high), length = self.range, bounds.height() if self._upright else bounds.width()
        if high <= low or length <= 0:
            return []
        out = []
        for step, values in self.tickValues(low, high, length):
            for value, text in zip(values, self.tickStrings(values, 1.0, step)):
                part = (value - low) / (high - low) * length
                if 0 <= part <= length:
                    upright = QPointF(bounds.right(), bounds.bottom() - part)
                    out.append((upright if self._upright else QPointF(bounds.left() + part, bounds.top()), text))
        return out

    def _corner(self, at: QPointF, size: QSizeF) -> QPointF:
        """The upper left corner of the number of a tick."""
        if self._upright:
            return at - QPointF(_TICK + _GAP + size.width(), size.height() / 2)
        return at + QPointF(-size.width() / 2, _TICK + _GAP)

    def _laid_out(self, painter: QPainter, text: str) -> tuple[QStaticText, QSizeF]:
        """A number and how much room it takes; the same ones stay in sight from frame to frame."""
        font = painter.font()
        if font != self._font or len(self._texts) > _KEPT:
            self._font, self._texts = font, {}
        if text not in self._texts:
            metrics, made = QFontMetricsF(font), QStaticText(text)
            made.setTextFormat(Qt.TextFormat.PlainText)
            self._texts[text] = made, QSizeF(metrics.horizontalAdvance(text), metrics.height())
        return self._texts[text]


class BytesAxis(_Axis):
    """Bytes at powers of two."""

    def __init__(self, width: int) -> None:
        super().__init__("left")
        self.setWidth(width)

    def tickValues(self, low: float, high: float, size: float) -> Ticks:
        few = min(int(size / 28), 4)  # a low chart has them closer together
        step = ticks.byte_step(high - low, max(int(size / 42), few, 2))
        return [(step, ticks.multiples(max(low, 0), high, step))]

    def boundingRect(self) -> QRectF:
        """With half a line above and below: pyqtgraph leaves out a number that does not fit, and so the zero."""
        return super().boundingRect().adjusted(0, -_HALF_LINE, 0, _HALF_LINE)

    def tickStrings(self, values: list[float], _scale: float, spacing: float) -> list[str]:
        return [ticks.byte_text(value, spacing) for value in values]


class UnitAxis(_Axis):
    """Seconds or events."""

    def __init__(self) -> None:
        super().__init__("bottom")
        self.unit = "events"
        self.enableAutoSIPrefix(False)

    def set_unit(self, unit: str, title: str) -> None:
        """`s` or `events`, and what the axis counts."""
        self.unit = unit
        self.setLabel(title)
        self.update()

    def tickValues(self, low: float, high: float, size: float) -> Ticks:
        step = ticks.round_step(high - low, max(int(size / 110), 2))
        if self.unit == "events":
            step = max(step, 1.0)
        return [(step, ticks.multiples(low, high, step))]

    def tickStrings(self, values: list[float], _scale: float, spacing: float) -> list[str]:
        return [_FORMATS[self.unit](value, spacing) for value in values]


def style_axis(axis: pg.AxisItem, theme: Theme) -> None:
    """Quiet lines, readable numbers."""
    axis.setPen(theme.border)
    axis.setTextPen(theme.faint)
    axis.setTickPen(theme.border)
    axis.setStyle(tickLength=_TICK, tickTextOffset=_GAP, autoExpandTextSpace=False)
