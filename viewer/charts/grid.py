"""Faint lines across a plot at the ticks of its bytes. pyqtgraph's own grid takes longer than everything else in it."""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from .axis_items import BytesAxis
from .frame import Frame, PixelItem
from .theme import colour

_STRENGTH = 60
"""Opacity of 255."""


class GridItem(PixelItem):
    """Paints the lines of one axis."""

    def __init__(self, axis: BytesAxis) -> None:
        super().__init__()
        self.axis = axis

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        rect, ratio = frame.rect, frame.ratio
        for _, values in self.axis.tickValues(frame.y0, frame.y1, rect.height()):
            for value in values:
                line = QRectF(rect.left(), round(frame.y(value) * ratio) / ratio, rect.width(), 1)
                painter.fillRect(line, colour(self.theme.border, _STRENGTH))
