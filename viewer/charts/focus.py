"""The frame around a painted widget that has the focus."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QWidget

from .theme import Theme

WIDTH = 2


def paint_focus(painter: QPainter, widget: QWidget, theme: Theme) -> None:
    """Paint it over what is painted already; nothing without the focus."""
    if widget.hasFocus():
        painter.setPen(QPen(QColor(theme.accent), WIDTH))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(QRectF(widget.rect()).adjusted(WIDTH / 2, WIDTH / 2, -WIDTH / 2, -WIDTH / 2))
