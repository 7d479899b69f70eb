"""A line around what is selected, which shows on any colour."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QPainter, QPen, QPolygonF

from memstrata.capture.format.schema import F64

from .theme import Theme, colour


def around_outline(painter: QPainter, x: F64, top: F64, bottom: F64, theme: Theme) -> None:
    """Draw around the area between two lines through the same x, in pixels."""
    corners = np.stack([np.concatenate([x, x[::-1]]), np.concatenate([top, bottom[::-1]])], axis=1)
    polygon = QPolygonF([QPointF(*corner) for corner in np.clip(corners, -1e6, 1e6).tolist()])
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for width, ink in ((4.0, colour(theme.panel)), (2.0, colour(theme.text))):
        painter.setPen(QPen(ink, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap, Qt.PenJoinStyle.MiterJoin))
        painter.drawPolygon(polygon)
