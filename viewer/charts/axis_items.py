"""The axes of the charts: binary bytes, seconds or events, always with their unit."""

from __future__ import annotations

from collections.abc import Callable

import pyqtgraph as pg
from PySide6.QtCore import QRectF

from ..look import ticks
from .theme import Theme

_HALF_LINE = 12
Ticks = list[tuple[float, list[float]]]
_FORMATS: dict[str, Callable[[float, float], str]] = {
    "s": ticks.seconds_text,
    "events": ticks.event_text,
    "%": lambda value, _: f"{value:g}%",
}


class BytesAxis(pg.AxisItem):
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


class UnitAxis(pg.AxisItem):
    """Seconds or events."""

    def __init__(self) -> None:
        super().__init__("bottom")
        self.unit = "events"
        self.enableAutoSIPrefix(False)

    def set_unit(self, unit: str, title: str) -> None:
        """`s` or `events`, and what the axis counts."""
        self.unit = unit
        self.setLabel(title)
        self.picture = None
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
    axis.setStyle(tickLength=4, tickTextOffset=6, autoExpandTextSpace=False)
