"""A widget as a picture: PNG with twice its pixels, or SVG, which stays sharp at any size."""

from __future__ import annotations

import re

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from ..charts.theme import current

_SCALE = 2
_SIDE, _OVER = 8, 4
"""Pixels beside the words over a picture, and above and under them."""
_FAMILY = re.compile(rb'font-family="([^"]*)"')
"""The desktop's family is often an alias that no browser knows: those would take one with serifs, of other widths."""
_WORDS = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap


def picture_bytes(widget: QWidget, path: str, title: str) -> bytes:
    """The picture in the format that the ending of `path` names, PNG where it names none."""
    return svg_bytes(widget, title) if path.lower().endswith(".svg") else png_bytes(widget)


def png_bytes(widget: QWidget, scale: float = _SCALE) -> bytes:
    """As a PNG of `scale` pixels for each one that the widget has on a plain screen."""
    head = _head(widget)
    pixmap = QPixmap(_size(widget, head) * scale)
    pixmap.setDevicePixelRatio(scale)
    QWidget.render(widget, pixmap, QPoint(0, head))  # that of a chart means its scene, without what lies over it
    if head:
        painter = QPainter(pixmap)
        _say(painter, widget, head)
        painter.end()
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    pixmap.save(buffer, "PNG")
    return bytes(data.data())


def svg_bytes(widget: QWidget, title: str) -> bytes:
    """As an SVG of the widget's size, with the words over it where it has some."""
    head = _head(widget)
    size = _size(widget, head)
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setResolution(widget.logicalDpiX())  # else text has another size than on screen
    generator.setSize(size)
    generator.setViewBox(QRect(QPoint(0, 0), size))
    generator.setTitle(title)
    painter = QPainter(generator)
    QWidget.render(widget, painter, QPoint(0, head))
    if head:
        _say(painter, widget, head)
    painter.end()
    return _FAMILY.sub(rb'font-family="\1, sans-serif"', bytes(data.data()))


def _words(widget: QWidget) -> str:
    """What explains the picture and is said elsewhere on screen (`picture_words` of a view)."""
    words: str = getattr(widget, "picture_words", "")
    return words


def _head(widget: QWidget) -> int:
    """Pixels that the words over the picture need, 0 without any."""
    room = QRect(0, 0, max(widget.width() - 2 * _SIDE, 1), 10_000)
    words = _words(widget)
    return widget.fontMetrics().boundingRect(room, int(_WORDS), words).height() + 2 * _OVER if words else 0


def _size(widget: QWidget, head: int) -> QSize:
    return widget.size() + QSize(0, head)


def _say(painter: QPainter, widget: QWidget, head: int) -> None:
    theme, place = current(), QRect(0, 0, widget.width(), head)
    painter.fillRect(place, QColor(theme.panel))
    painter.setFont(widget.font())
    painter.setPen(QColor(theme.text))
    painter.drawText(place.adjusted(_SIDE, _OVER, -_SIDE, -_OVER), int(_WORDS), _words(widget))
