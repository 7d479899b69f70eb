"""Qt's brushes of a paint."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor

from ..look import palette
from ..model.paints import Paint

_PATTERNS = {"diagonal": Qt.BrushStyle.BDiagPattern, "dots": Qt.BrushStyle.Dense6Pattern}


def fill_brush(paint: Paint, opacity: float = 1.0) -> QBrush:
    """The fill, 1.0 opaque."""
    made = QColor(paint.fill)
    made.setAlphaF(opacity)
    return QBrush(made)


def hatch_brush(paint: Paint, opacity: float = 1.0) -> QBrush | None:
    """The hatch in a tone that shows on the fill; None for a plain fill."""
    if not paint.hatch:
        return None
    tone = QColor(palette.text_on(paint.fill))
    tone.setAlphaF(0.27 * opacity)
    return QBrush(tone, _PATTERNS[paint.hatch])
