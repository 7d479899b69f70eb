"""Pictures out of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF
from PySide6.QtGui import QImage, QPainter

U32 = NDArray[np.uint32]
_FORM = QImage.Format.Format_ARGB32_Premultiplied


def picture(pixels: U32) -> QImage:
    """An image of these pixels, 0xAARRGGBB with the colours already multiplied by the opacity; shape [height, width].

    The image has memory of its own: Qt would go on reading from that of the array without keeping it.
    """
    held = np.ascontiguousarray(pixels, np.uint32)
    height, width = held.shape
    return QImage(held.data, width, height, width * 4, _FORM).copy() if held.size else QImage()


class Canvas:
    """Room for pixels, kept from frame to frame: new memory of that size costs as much as filling it."""

    def __init__(self) -> None:
        self._room: U32 = np.empty(0, np.uint32)

    def pixels(self, height: int, width: int) -> U32:
        """So many of them, with whatever is in them; the ones given out before are lost."""
        if len(self._room) < height * width:
            self._room = np.empty(height * width, np.uint32)
        return self._room[: height * width].reshape(height, width)


def paint_pixels(painter: QPainter, place: QPointF, pixels: U32, ratio: float) -> None:
    """Paint pixels as those of `picture` with their upper left corner at a place, `ratio` of them to one unit."""
    height, width = pixels.shape
    image = QImage(pixels.data, width, height, width * 4, _FORM)
    image.setDevicePixelRatio(ratio)
    painter.drawImage(place, image)
