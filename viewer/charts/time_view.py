"""The view box of a timeline: drag pans, wheel zooms, both along x only; a click says where, a
drag with Shift from where to where."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal

from ..model.axes import XAxis
from ..state.session import Drag, Gesture

_MARGIN = 0.004
HALF = QPointF(0.5, 0.5)
"""From the corner of a pixel, which is where the pointer says it is, to its middle, which is what is painted there."""


class TimeView(pg.ViewBox):
    """Bytes start at zero and fill the height; only the x range moves."""

    clicked = Signal(float, float)
    """Data x and y."""

    brushed = Signal(float, float)
    """Data x where a drag with Shift held began and where it is now."""

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.gesture: Gesture = Drag()
        """What the mouse does, or did last."""
        self._held = (0.0, 0.0)
        """What was on screen when the drag began."""
        self._whole = (0.0, 0.0)
        self.least = 0.0
        """The least width that can be on screen."""
        self.setMouseEnabled(x=True, y=False)
        self.disableAutoRange()
        self.setDefaultPadding(0)

    def bound(self, axis: XAxis, top: float) -> None:
        """Keep inside the axis; at most zoomed in to one event."""
        low, high = self._whole = float(axis.edges[0]), float(axis.edges[-1])
        self.least = least = 2.0 if axis.unit == "events" else max((high - low) * 1e-6, 1e-7)
        margin = (high - low) * _MARGIN
        self.setLimits(xMin=low - margin, xMax=high + margin, minXRange=least, maxXRange=high - low + 2 * margin)
        self.setYRange(0, top, padding=0)

    def wheelEvent(self, event: Any, axis: int | None = None) -> None:
        self.gesture = ("wheel",)
        super().wheelEvent(event, axis)

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        if event.isStart():
            low, high = self.viewRange()[0]
            self.gesture, self._held = Drag(), (low, high)
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and event.button() == Qt.MouseButton.LeftButton:
            event.accept()
            begin, end = (self.mapSceneToView(place).x() for place in (event.buttonDownScenePos(), event.scenePos()))
            self.brushed.emit(begin, end)
        elif event.button() == Qt.MouseButton.RightButton:
            super().mouseDragEvent(event, axis)
        else:
            event.accept()
            self._pan(event.buttonDownScenePos().x() - event.scenePos().x())

    def _pan(self, pixels: float) -> None:
        """As far from where the drag began, and no further than the axis goes: back there is exactly as before."""
        low, high = self._held
        step = pixels * (high - low) / max(self.width(), 1)  # of a plot that is squeezed to nothing too
        step = max(min(step, self._whole[1] - high), self._whole[0] - low)
        self.setXRange(low + step, high + step, padding=0)

    def mouseClickEvent(self, event: Any) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            event.accept()
            where = self.mapSceneToView(event.scenePos() + HALF / self.getViewWidget().devicePixelRatioF())
            self.clicked.emit(where.x(), where.y())
