"""Entries of menus."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu


def add_entry(menu: QMenu, text: str, act: Callable[[], object]) -> QAction:
    """An entry that calls `act()`; a name in the text may hold an ampersand where it is doubled."""
    action = menu.addAction(text)
    action.triggered.connect(lambda *_: act())
    return action
