"""What the keyboard and the focus do in every table and tree alike."""

from __future__ import annotations

import time

from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QApplication

_COMMANDS = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier


class Manners(QObject):
    """Belongs to a view. Focus that comes to it chooses no row. Tab leaves it. Letters typed one after the other look
    for a row, as Qt has it: while they do, none of them is taken for a key of the window."""

    def __init__(self, view: QAbstractItemView) -> None:
        super().__init__(view)
        self.view, self._typed = view, 0.0
        view.setTabKeyNavigation(False)
        view.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind == QEvent.Type.FocusIn:
            if not self.view.currentIndex().isValid():
                self.view.setCurrentIndex(QModelIndex())  # else Qt makes the first row current, as if it were chosen
        elif kind == QEvent.Type.ShortcutOverride and self._is_letter(event) and self._is_searching:
            event.accept()
            return True
        elif kind == QEvent.Type.KeyPress and self._is_letter(event):
            self._typed = time.monotonic()
        return False

    @property
    def _is_searching(self) -> bool:
        return time.monotonic() - self._typed < QApplication.keyboardInputInterval() / 1000

    @staticmethod
    def _is_letter(event: QEvent) -> bool:
        return (
            isinstance(event, QKeyEvent)
            and event.text().isprintable()
            and bool(event.text().strip())
            and not (event.modifiers() & _COMMANDS)
        )
