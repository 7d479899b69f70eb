"""Many rectangles handed to Qt at once, without a Python object for each."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray
from pyqtgraph.Qt.internals import PrimitiveArray
from PySide6.QtCore import QRect, QRectF
from PySide6.QtGui import QPainter
from shiboken6 import wrapInstance

from memstrata.capture.format.schema import F64

_MOST = 1e6  # pixels; what is farther out cannot be seen


class Rectangles:
    """Room for rectangles in the layout Qt wants, kept from frame to frame."""

    def __init__(self) -> None:
        self._room = PrimitiveArray(QRectF, 4)
        self.count = 0

    def put(self, left: NDArray[np.floating], top: NDArray[np.floating], right: F64, bottom: F64) -> Rectangles:
        """These rectangles, by their edges in pixels."""
        self.count = len(left)
        self._room.resize(self.count)
        if self.count:
            sides = self._room.ndarray()
            for side, edge in enumerate((left, top, right, bottom)):
                sides[:, side] = edge
            np.clip(sides, -_MOST, _MOST, out=sides)
            sides[:, 2:] -= sides[:, :2]
        return self

    def paint(self, painter: QPainter) -> None:
        """Paint them with the painter's pen and brush."""
        if self.count:
            painter.drawRects(*self._room.drawargs())


class PixelRectangles:
    """Rectangles of whole device pixels, which Qt fills in a third of the time."""

    def __init__(self) -> None:
        self.edges: NDArray[np.int32] = np.empty((0, 4), np.int32)
        """Left, top, right, bottom; the last two belong to the rectangle, as Qt has it."""

    def put(self, left: F64, top: F64, right: F64, bottom: F64) -> PixelRectangles:
        """These rectangles, by their edges in device pixels."""
        self.edges = np.empty((len(left), 4), np.int32)
        for side, edge in enumerate((left, top, right - 1, bottom - 1)):
            self.edges[:, side] = np.clip(edge, -_MOST, _MOST)
        return self

    def paint(self, painter: QPainter, ratio: float, first: int = 0, last: int | None = None) -> None:
        """Fill them, or those from first to last, with the painter's brush; `ratio` pixels are one unit of its."""
        part = self.edges[first:last]
        if len(part):
            painter.save()
            painter.scale(1 / ratio, 1 / ratio)
            first_of_them = cast(QRect, wrapInstance(part.ctypes.data, QRect))
            painter.drawRects(first_of_them, len(part))
            painter.restore()

    def outlines(self, wide: int) -> PixelRectangles:
        """Lines around them as Qt's pens draw them: to the left and at the top inside, the others outside."""
        left, top, right, bottom = self.edges.T
        far, low = right + wide, bottom + wide
        sides = (
            (left, top, far, top + wide - 1),
            (left, bottom + 1, far, low),
            (left, top, left + wide - 1, low),
            (right + 1, top, far, low),
        )
        made = PixelRectangles()
        made.edges = np.ascontiguousarray(np.concatenate([np.stack(side, axis=1) for side in sides]), np.int32)
        return made

    def units(self, ratio: float, first: int = 0, last: int | None = None) -> Rectangles:
        """The same in units of the painter, for what has to be as wide as that: patterns and lines."""
        left, top, right, bottom = self.edges[first:last].T
        return Rectangles().put(left / ratio, top / ratio, (right + 1) / ratio, (bottom + 1) / ratio)
