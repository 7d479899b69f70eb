"""Lines of steps, which is what every curve of bytes is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyqtgraph.functions import arrayToQPolygonF
from PySide6.QtGui import QPainter, QPen, QPolygonF

from .theme import Theme, colour

_DENSE = 1_000
"""Corners from which a line fills what it crosses: it would hide its rim, which takes as long to draw as the line."""


def step_line(x: NDArray[np.floating], y: NDArray[np.floating]) -> QPolygonF:
    """At the height `y[i]` from `x[i]` to `x[i + 1]`; a step as high as the one before it needs no corner."""
    if not len(y):
        return QPolygonF()
    new = np.append(True, y[1:] != y[:-1])
    across = np.append(x[:-1][new], x[-1])
    line: QPolygonF = arrayToQPolygonF(np.repeat(across, 2)[1:-1], np.repeat(y[new], 2))
    return line


def draw_rimmed(painter: QPainter, line: QPolygonF, pen: QPen, theme: Theme) -> None:
    """Draw a line with a rim in the colour of the panel, so that it shows on any fill."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)  # upright and level lines are sharp; 5x as fast
    if line.size() < _DENSE:
        painter.setPen(QPen(colour(theme.panel, 150), pen.widthF() + 2.0))
        painter.drawPolyline(line)
    painter.setPen(pen)
    painter.drawPolyline(line)
