"""Light, dark, or as the system is: the user's choice."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from ..charts.theme import Theme, current, is_dark
from ..look import palette

CHOICES = {"system": "As the system", "light": "Light", "dark": "Dark"}


def choose(choice: str) -> None:
    """Make the application light or dark, or let it follow the system again.

    Qt is asked first, so that the frame of the window follows; where the platform cannot, the palette alone changes.
    """
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    hints = app.styleHints()
    if hasattr(hints, "setColorScheme"):  # Qt 6.8 on
        schemes = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}
        hints.setColorScheme(schemes.get(choice, Qt.ColorScheme.Unknown))
    if choice not in ("light", "dark"):
        app.setPalette(QPalette())
        return
    dark = choice == "dark"
    if is_dark() != dark:
        app.setPalette(QPalette(QColor(palette.BACKGROUND[dark])))  # so that the theme is the one asked for
    app.setPalette(_palette(current()))


def _palette(theme: Theme) -> QPalette:
    """The colours of a theme for what the style sheet leaves to the style: fields, menus, check boxes."""
    made, role = QPalette(QColor(theme.raised), QColor(theme.window)), QPalette.ColorRole
    colours = {
        role.Base: theme.panel, role.AlternateBase: theme.window, role.Highlight: theme.selected,
        role.HighlightedText: theme.text, role.Text: theme.text, role.WindowText: theme.text,
        role.ButtonText: theme.text, role.PlaceholderText: theme.faint, role.ToolTipBase: theme.raised,
        role.ToolTipText: theme.text, role.Link: theme.accent,
    }  # fmt: skip
    for where, ink in colours.items():
        made.setColor(where, QColor(ink))
    for where in (role.Text, role.WindowText, role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, where, QColor(theme.faint))
    return made
