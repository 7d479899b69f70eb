"""The list of all keys."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFrame, QGridLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from ..state.shortcuts import CHART, sections

_FORMAT = QKeySequence.SequenceFormat.NativeText


class ShortcutsDialog(QDialog):
    """Two columns: keys of the chart, and all others."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        inside = QWidget(self)
        inside.setObjectName("plain")
        grid = QGridLayout(inside)
        grid.setHorizontalSpacing(18)
        grid.setVerticalSpacing(7)
        rows = [0, 0]
        for section, shortcuts in sections().items():
            side = int(section == CHART)
            title = QLabel(section, inside)
            font = title.font()
            font.setBold(True)
            title.setFont(font)
            grid.setRowMinimumHeight(rows[side], title.sizeHint().height() + 6)
            grid.addWidget(title, rows[side], 3 * side, 1, 2, Qt.AlignmentFlag.AlignBottom)
            for number, shortcut in enumerate(shortcuts, rows[side] + 1):
                keys = QLabel(keys_text(shortcut.keys), inside)
                keys.setObjectName("keys")
                grid.addWidget(keys, number, 3 * side, Qt.AlignmentFlag.AlignLeft)
                grid.addWidget(QLabel(shortcut.text, inside), number, 3 * side + 1)
            rows[side] += len(shortcuts) + 1
        grid.setColumnMinimumWidth(2, 24)
        grid.setRowStretch(max(rows), 1)
        area = QScrollArea(self)
        area.setWidget(inside)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setAccessibleName("Keyboard shortcuts")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(area, 1)
        layout.addWidget(buttons)
        wanted = inside.sizeHint().boundedTo(parent.size() * 0.95)
        self.resize(wanted.width() + 60, wanted.height() + 70)


def keys_text(keys: tuple[str, ...]) -> str:
    """Keys as this system writes them."""
    return "  or  ".join(QKeySequence(key).toString(_FORMAT) for key in keys)
