"""Pictures out of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QImage


def picture(pixels: NDArray[np.uint32]) -> QImage:
    """An image of these pixels, 0xAARRGGBB with the colours already multiplied by the opacity; shape [height, width].

    The image has memory of its own: Qt would go on reading from that of the array without keeping it.
    """
    held = np.ascontiguousarray(pixels, np.uint32)
    height, width = held.shape
    form = QImage.Format.Format_ARGB32_Premultiplied
    return QImage(held.data, width, height, width * 4, form).copy() if held.size else QImage()
