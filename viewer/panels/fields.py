"""Fields of forms: a path with what was dragged on it, a whole number."""

from __future__ import annotations

import os

from PySide6.QtGui import QDragEnterEvent, QDropEvent, QIntValidator
from PySide6.QtWidgets import QFileDialog, QLineEdit, QWidget


class NumberLine(QLineEdit):
    """A whole number from `least` to `most`; what is no number cannot be typed. Empty means `least` where a hint says
    what that is."""

    def __init__(self, value: int, least: int, most: int, hint: str = "", parent: QWidget | None = None) -> None:
        super().__init__("" if hint and value == least else str(value), parent)
        self.least, self.most = least, most
        self.setPlaceholderText(hint)
        self.setValidator(QIntValidator(0, most, self))
        self.setMaximumWidth(self.fontMetrics().horizontalAdvance("0") * max(18, len(hint) + 4))

    def value(self) -> int:
        """The number; raises ValueError with one sentence where there is none in the range."""
        text = self.text().strip()
        if not text and self.placeholderText():
            return self.least
        if not text.isdecimal() or not self.least <= int(text) <= self.most:
            raise ValueError(f"{self.accessibleName()} must be a whole number from {self.least:,} to {self.most:,}.")
        return int(text)


class PathLine(QLineEdit):
    """A file dragged here fills it in. `row` is the row of the form that it stands in."""

    row: QWidget

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()
        else:
            super().dragEnterEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        local = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        if not local:
            super().dropEvent(event)
            return
        self.fill_in(local[0])
        event.acceptProposedAction()

    def fill_in(self, path: str) -> None:
        """Take a path as if it was typed."""
        self.setText(path)
        self.textEdited.emit(path)

    def browse(self, what: str, kinds: str, save: bool) -> None:
        """Ask for a file of these kinds, or for a folder where the kind is `folder`."""
        start, title = self.text() or os.getcwd(), f"Choose {what}"
        if kinds == "folder":
            path = QFileDialog.getExistingDirectory(self, title, start)
        elif save:
            path, _ = QFileDialog.getSaveFileName(self, title, start, kinds)
        else:
            path, _ = QFileDialog.getOpenFileName(self, title, start, kinds)
        if path:
            self.fill_in(path)
