"""The bytes of a run over the whole of its axis, where the timeline will be: nothing in it can be moved."""

from __future__ import annotations

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import QWidget

from ..look import palette
from ..model.paints import Paint
from ..model.preview import Preview
from ..model.sampling import Columns, peak_columns
from .axis_items import BytesAxis, UnitAxis, style_axis
from .band_painter import paint_stack
from .frame import Frame, PixelItem
from .grid import GridItem
from .marks import MarkItem, Marks
from .stacking import stack
from .step_line import step_line
from .theme import Theme, colour, current
from .timeline import AXIS_WIDTH, HEADROOM, RIGHT_MARGIN


class _Total(PixelItem):
    """All bytes as one band: for each pixel column the most of them in it."""

    def __init__(self, preview: Preview) -> None:
        super().__init__()
        self.preview = preview
        self._sampled: tuple[int, Columns] | None = None

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        width = frame.columns
        if self._sampled is None or self._sampled[0] != width:
            self._sampled = width, peak_columns(self.preview.curve, self.preview.axis, frame.x0, frame.x1, width)
        columns = self._sampled[1]
        x = columns.x * frame.sx + frame.dx
        drawn = stack(x, self.preview.curve[columns.positions][None], frame.y(0), -frame.sy, frame.ratio)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        paint_stack(painter, drawn, [Paint(palette.neutral(self.theme.dark))])
        painter.setPen(QPen(colour(self.theme.faint), 1))  # wider ones take ten times as long
        painter.drawPolyline(step_line(drawn.x, drawn.y[1]))


class PreviewChart(pg.GraphicsLayoutWidget):
    """Shows one preview, with its peak."""

    def __init__(self, preview: Preview, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.setAccessibleName("All bytes over the run")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.ci.layout.setContentsMargins(0, 10, RIGHT_MARGIN, 2)  # half of the topmost number
        self.ci.layout.setSpacing(0)
        axis, top = preview.axis, max(preview.peak_bytes, 1) * HEADROOM
        self.bytes_axis, self.x_axis = BytesAxis(AXIS_WIDTH), UnitAxis()
        self.x_axis.set_unit(axis.unit, axis.title)
        view = pg.ViewBox(enableMenu=False, enableMouse=False, defaultPadding=0)
        view.setRange(xRange=(axis.edges[0], axis.edges[-1]), yRange=(0, top), padding=0)
        for row, column, item in ((0, 0, self.bytes_axis), (0, 1, view), (1, 1, self.x_axis)):
            self.addItem(item, row=row, col=column)
        for side in (self.bytes_axis, self.x_axis):
            side.linkToView(view)
        peak_x = float(axis.x_of(preview.peak_position))
        marks = MarkItem()
        marks.show_marks(Marks(peak_x, preview.peak_bytes, peak_x, peak_x, preview.peak_bytes))
        self._items: tuple[PixelItem, ...] = (_Total(preview), GridItem(self.bytes_axis), marks)
        for item in self._items:
            item.set_extent(float(axis.edges[0]), float(axis.edges[-1]), top)
            view.addItem(item, ignoreBounds=True)
        self.set_theme(current())

    def set_theme(self, theme: Theme) -> None:
        """Repaint in this theme."""
        self.setBackground(theme.panel)
        for axis in (self.bytes_axis, self.x_axis):
            style_axis(axis, theme)
        for item in self._items:
            item.theme = theme
            item.update()
