"""Lines of steps, which is what every curve of bytes is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyqtgraph.functions import arrayToQPolygonF
from PySide6.QtGui import QPolygonF


def step_line(x: NDArray[np.floating], y: NDArray[np.floating]) -> QPolygonF:
    """At the height `y[i]` from `x[i]` to `x[i + 1]`; a step as high as the one before it needs no corner."""
    if not len(y):
        return QPolygonF()
    new = np.append(True, y[1:] != y[:-1])
    across = np.append(x[:-1][new], x[-1])
    line: QPolygonF = arrayToQPolygonF(np.repeat(across, 2)[1:-1], np.repeat(y[new], 2))
    return line
