"""What the pointer rests on, painted over a chart: a band, or one allocation. What lies below is as it was."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPen

from .allocation_item import AllocationItem
from .band_item import BandItem
from .frame import Frame, PixelItem
from .rectangles import Rectangles
from .step_line import step_line
from .theme import colour

_TINT = 26
"""How strong the tint over a band is, of 255."""


class PointedBand(PixelItem):
    """A tint over one band of the timeline, with a line along its edges."""

    def __init__(self, item: BandItem) -> None:
        super().__init__()
        self.item = item
        self.group: int | None = None
        self._rectangles = Rectangles()

    def show_group(self, group: int | None) -> None:
        """This band, None for none."""
        if group != self.group:
            self.group = group
            self.update()

    def paint_pixels(self, painter: QPainter, _frame: Frame) -> None:
        drawn = self.item.drawn
        if self.group is None or drawn is None or self.group >= drawn.groups:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour(self.theme.text, _TINT))
        self._rectangles.put(*drawn.sides(self.group)).paint(painter)
        painter.setPen(QPen(QColor(self.theme.text), 0))
        for edge in (self.group, self.group + 1):
            painter.drawPolyline(step_line(drawn.x, drawn.y[edge]))


class PointedAllocation(PixelItem):
    """A line around one allocation."""

    def __init__(self, item: AllocationItem) -> None:
        super().__init__()
        self.item = item
        self.row = -1

    def show_row(self, row: int) -> None:
        """This allocation, -1 for none."""
        if row != self.row:
            self.row = row
            self.update()

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        if self.row >= 0 and self.item.layout is not None and self.row != self.item.selected:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
            accented = replace(self.theme, text=self.theme.accent)  # else it looks like the one selected
            self.item.layout.paint_selected(painter, frame, self.row, accented)
