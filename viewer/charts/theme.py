"""Colours of surfaces and text, light or dark as the application's palette is, and followed when that changes."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from ..look import palette


@dataclass(frozen=True)
class Theme:
    """Colours as `#rrggbb`. Text colours reach a contrast of 5:1 and more on `panel` and `window`."""

    dark: bool
    window: str
    panel: str
    raised: str
    border: str
    rest: str
    """The grey of what is left out, behind what is shown of it in colour."""
    text: str
    faint: str
    accent: str
    selected: str
    warning: str
    warning_panel: str
    good: str


_LIGHT = Theme(
    dark=False,
    window="#f3f4f6",
    panel=palette.BACKGROUND[False],
    raised="#eceef1",
    border="#d9dce1",
    rest="#c3c7ce",
    text="#1b1d21",
    faint="#5a616b",
    accent="#1f5fae",
    selected="#d6e4f7",
    warning="#8a4b00",
    warning_panel="#fdf1dc",
    good="#17693a",
)
_DARK = Theme(
    dark=True,
    window="#151619",
    panel=palette.BACKGROUND[True],
    raised="#2a2c31",
    border="#36393f",
    rest="#5b6069",
    text="#e8e9eb",
    faint="#a2a8b1",
    accent="#7db4ff",
    selected="#24406a",
    warning="#ffc46b",
    warning_panel="#3a2f1a",
    good="#7fd6a0",
)


def is_dark() -> bool:
    """Whether the application's palette is a dark one."""
    return QGuiApplication.palette().color(QPalette.ColorRole.Window).lightness() < 128


def current() -> Theme:
    """The theme that fits the application's palette."""
    return _DARK if is_dark() else _LIGHT


def colour(text: str, alpha: int = 255) -> QColor:
    """A `#rrggbb` text as a colour, alpha from 0 to 255."""
    made = QColor(text)
    made.setAlpha(alpha)
    return made


class ThemeWatch(QObject):
    """Says once when light turned dark or back, whether the system's scheme or the palette did it."""

    changed = Signal(object)
    """The new `Theme`."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.theme = current()
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        parent.installEventFilter(self)  # every widget hears of a new palette; a filter of all events costs too much
        app.styleHints().colorSchemeChanged.connect(self._look)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.ApplicationPaletteChange, QEvent.Type.ThemeChange):
            self._look()
        return False

    def _look(self, *_: object) -> None:
        theme = current()
        if theme != self.theme:
            self.theme = theme
            self.changed.emit(theme)
