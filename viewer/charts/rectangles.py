"""Many rectangles handed to Qt at once, without a Python object for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyqtgraph.Qt.internals import PrimitiveArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter

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
            np.clip(left, -_MOST, _MOST, out=sides[:, 0])
            np.clip(top, -_MOST, _MOST, out=sides[:, 1])
            np.subtract(np.clip(right, -_MOST, _MOST), sides[:, 0], out=sides[:, 2])
            np.subtract(np.clip(bottom, -_MOST, _MOST), sides[:, 1], out=sides[:, 3])
        return self

    def paint(self, painter: QPainter) -> None:
        """Paint them with the painter's pen and brush."""
        if self.count:
            painter.drawRects(*self._room.drawargs())
