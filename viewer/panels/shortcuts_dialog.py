"""The list of all keys."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QLabel,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from ..state.shortcuts import CHART, GESTURES, MOUSE, STEP, Shortcut, sections

_FORMAT = QKeySequence.SequenceFormat.NativeText
_AROUND = QSize(60, 70)
"""Pixels that the dialog needs around the list."""


class ShortcutsDialog(QDialog):
    """Two columns, one below the other where it is narrow: keys and mouse of the timelines, and all others."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        self.inside = QWidget(self)
        self.inside.setObjectName("plain")
        self.columns = QBoxLayout(QBoxLayout.Direction.LeftToRight, self.inside)
        self.columns.setSpacing(26)
        self.grids = [QGridLayout(), QGridLayout()]
        for grid in self.grids:
            grid.setHorizontalSpacing(10)
            grid.setVerticalSpacing(5)
            grid.setColumnStretch(1, 1)
            self.columns.addLayout(grid)
        for section, shortcuts in sections().items():
            self._add(self.grids[int(section in (CHART, STEP, MOUSE))], section, shortcuts)
        for grid in self.grids:
            grid.setRowStretch(grid.rowCount(), 1)
        self.area = QScrollArea(self)
        self.area.setWidget(self.inside)
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setAccessibleName("Keyboard shortcuts")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(self.area, 1)
        layout.addWidget(buttons)
        self.resize((self.inside.sizeHint() + _AROUND).boundedTo(parent.size() * 0.95))

    def _add(self, grid: QGridLayout, section: str, shortcuts: list[Shortcut]) -> None:
        """The lines of a section under its title."""
        title, row = QLabel(section, self.inside), grid.rowCount()
        font = title.font()
        font.setBold(True)
        title.setFont(font)
        grid.setRowMinimumHeight(row, title.sizeHint().height() + 6)
        grid.addWidget(title, row, 0, 1, 2, Qt.AlignmentFlag.AlignBottom)
        lines = [(keys_text(shortcut.keys), shortcut.text) for shortcut in shortcuts]
        for number, (keys, text) in enumerate([*lines, *GESTURES.get(section, ())], row + 1):
            label = QLabel(keys, self.inside)
            label.setObjectName("keys")
            grid.addWidget(label, number, 0, Qt.AlignmentFlag.AlignLeft)
            grid.addWidget(QLabel(text, self.inside), number, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        side_by_side = sum(grid.sizeHint().width() for grid in self.grids) + self.columns.spacing()
        fits = self.width() >= side_by_side + _AROUND.width()
        self.columns.setDirection(QBoxLayout.Direction.LeftToRight if fits else QBoxLayout.Direction.TopToBottom)


def keys_text(keys: tuple[str, ...]) -> str:
    """Keys as this system writes them."""
    return " or ".join(QKeySequence(key).toString(_FORMAT) for key in keys)
