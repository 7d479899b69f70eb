"""From data to pixels for items that paint their own pixels inside a pyqtgraph view."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

from .theme import Theme, current


@dataclass(frozen=True)
class Frame:
    """The visible part of a view: data ranges, and what one unit is in pixels."""

    x0: float
    x1: float
    y0: float
    y1: float
    sx: float
    dx: float
    sy: float
    dy: float
    ratio: float = 1.0
    """Device pixels to one pixel of these: 2 on a screen of high density."""

    def x(self, value: float) -> float:
        """Pixel of a data x."""
        return value * self.sx + self.dx

    def y(self, value: float) -> float:
        """Pixel of a data y."""
        return value * self.sy + self.dy

    @property
    def rect(self) -> QRectF:
        """The view in pixels."""
        return QRectF(self.x(self.x0), self.y(self.y1), (self.x1 - self.x0) * self.sx, (self.y0 - self.y1) * self.sy)

    @property
    def columns(self) -> int:
        """How many device pixels wide the view is, at least one."""
        return max(round((self.x1 - self.x0) * self.sx * self.ratio), 1)

    @property
    def rows(self) -> int:
        """How many device pixels high the view is, at least one."""
        return max(round((self.y0 - self.y1) * self.sy * self.ratio), 1)


def device_ratio(painter: QPainter) -> float:
    """Device pixels to one pixel of a painter whose coordinates are not turned."""
    return painter.deviceTransform().m11() / (painter.transform().m11() or 1.0)


class PixelItem(pg.GraphicsObject):
    """Base of the chart items: `paint_pixels` gets a painter in pixels of the widget, clipped to the view."""

    def __init__(self) -> None:
        super().__init__()
        self._extent = QRectF(0, 0, 1, 1)
        self.theme: Theme = current()

    def set_extent(self, left: float, right: float, top: float) -> None:
        """The data range that the item may paint in, from y = 0 up."""
        self.prepareGeometryChange()
        self._extent = QRectF(left, 0, right - left, top)

    def boundingRect(self) -> QRectF:
        return self._extent

    def paint(self, painter: QPainter, *_: object) -> None:
        view = self.getViewBox()
        if view is None:
            return
        if not painter.transform().m11() or not painter.transform().m22():
            return  # a view that has not been given a size yet
        (x0, x1), (y0, y1) = view.viewRange()
        t = painter.transform()
        frame = Frame(x0, x1, y0, y1, t.m11(), t.dx(), t.m22(), t.dy(), device_ratio(painter))
        painter.save()
        painter.resetTransform()
        painter.setClipRect(frame.rect)
        try:
            self.paint_pixels(painter, frame)
        except Exception:  # left to Qt, an error of ours in the middle of a scene ends the process
            sys.excepthook(*sys.exc_info())
        painter.restore()

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        """Paint in pixels of the widget."""
        raise NotImplementedError
