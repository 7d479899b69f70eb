"""Where the window stood: put back where a screen still has room for it."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMainWindow, QStyle

from ..state.settings import Settings

_PLACE, _MAXIMIZED = "window/place", "window/maximized"
_TITLE_BAR = 40  # pixels of height by which a window can be dragged


def remember(window: QMainWindow, settings: Settings) -> None:
    """Keep position and size in pixels, and whether the window fills the screen."""
    place = window.normalGeometry() if window.isMaximized() else window.geometry()
    settings.set(_PLACE, [place.x(), place.y(), place.width(), place.height()])
    settings.set(_MAXIMIZED, [int(window.isMaximized())])


def put_back(window: QMainWindow, settings: Settings) -> bool:
    """Give the window its last place. False where there is none, or no screen that it fits on."""
    numbers = settings.numbers(_PLACE)
    if len(numbers) != 4:
        return False
    place = QRect(*numbers)
    place.setSize(place.size().expandedTo(window.minimumSize()))  # it may have been smaller once
    if not any(_fits(place, screen.availableGeometry()) for screen in QGuiApplication.screens()):
        return False
    window.setGeometry(place)
    if settings.numbers(_MAXIMIZED) == (1,):
        window.setWindowState(window.windowState() | Qt.WindowState.WindowMaximized)  # it is shown by who made it
    return True


def room_for(window: QMainWindow) -> QSize:
    """The largest size of the window that fits on its screen with the frame that it will get."""
    title = window.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight)
    return window.screen().availableGeometry().size() - QSize(title // 2, title * 3 // 2)


def _fits(place: QRect, room: QRect) -> bool:
    title = QRect(place.left(), place.top(), place.width(), _TITLE_BAR)
    return place.width() <= room.width() and place.height() <= room.height() and room.intersected(title) == title
