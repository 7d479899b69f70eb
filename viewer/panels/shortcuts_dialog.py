"""The list of all keys."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFrame, QGridLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from ..state.shortcuts import CHART, GESTURES, MOUSE, STEP, sections

_FORMAT = QKeySequence.SequenceFormat.NativeText


class ShortcutsDialog(QDialog):
    """Two columns: keys and mouse of the timelines, and all others."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        inside = QWidget(self)
        inside.setObjectName("plain")
        grid = QGridLayout(inside)
        grid.setHorizontalSpacing(10)
        grid.setVerticalSpacing(5)
        rows = [0, 0]
        for section, shortcuts in sections().items():
            side = int(section in (CHART, STEP, MOUSE))
            title = QLabel(section, inside)
            font = title.font()
            font.setBold(True)
            title.setFont(font)
            grid.setRowMinimumHeight(rows[side], title.sizeHint().height() + 6)
            grid.addWidget(title, rows[side], 3 * side, 1, 2, Qt.AlignmentFlag.AlignBottom)
            lines = [(keys_text(shortcut.keys), shortcut.text) for shortcut in shortcuts]
            lines += GESTURES.get(section, ())
            for number, (keys, text) in enumerate(lines, rows[side] + 1):
                label = QLabel(keys, inside)
                label.setObjectName("keys")
                grid.addWidget(label, number, 3 * side, Qt.AlignmentFlag.AlignLeft)
                grid.addWidget(QLabel(text, inside), number, 3 * side + 1)
            rows[side] += len(lines) + 1
        grid.setColumnMinimumWidth(2, 16)
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
        self.resize((inside.sizeHint() + QSize(50, 70)).boundedTo(parent.size() * 0.95))


def keys_text(keys: tuple[str, ...]) -> str:
    """Keys as this system writes them."""
    return " or ".join(QKeySequence(key).toString(_FORMAT) for key in keys)
