"""A widget as a picture: PNG with twice its pixels, or SVG, which stays sharp at any size."""

from __future__ import annotations

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPoint, QRect
from PySide6.QtGui import QPainter, QPixmap
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

_SCALE = 2


def picture_bytes(widget: QWidget, path: str, title: str) -> bytes:
    """The picture in the format that the ending of `path` names, PNG where it names none."""
    return svg_bytes(widget, title) if path.lower().endswith(".svg") else png_bytes(widget)


def png_bytes(widget: QWidget, scale: float = _SCALE) -> bytes:
    """As a PNG of `scale` pixels for each one that the widget has on a plain screen."""
    pixmap = QPixmap(widget.size() * scale)
    pixmap.setDevicePixelRatio(scale)
    QWidget.render(widget, pixmap)  # that of a chart means its scene, without what lies over it
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    pixmap.save(buffer, "PNG")
    return bytes(data.data())


def svg_bytes(widget: QWidget, title: str) -> bytes:
    """As an SVG of the widget's size."""
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setResolution(widget.logicalDpiX())  # else text has another size than on screen
    generator.setSize(widget.size())
    generator.setViewBox(QRect(QPoint(0, 0), widget.size()))
    generator.setTitle(title)
    painter = QPainter(generator)
    QWidget.render(widget, painter, QPoint(0, 0))
    painter.end()
    return bytes(data.data())
