"""The window with nothing open says what to do next."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QVBoxLayout, QWidget

TITLE = "Where did the memory go?"
NEXT = "Drop a recording (.mstrata) or a torch memory snapshot (.pickle) here. Two files open as a comparison."
RECORD = "To record a training step, decorate the function that performs it, and train:"
CODE = """from memstrata.capture import record_step

@record_step("before.mstrata")
def step(batch):
    ..."""


class EmptyPanel(QWidget):
    """What to do next, and a button that does it."""

    def __init__(self, open_file: Callable[[], None], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        card = QFrame(self)
        card.setObjectName("empty")
        self.button = QPushButton("Open files\u2026", card)
        self.button.setAccessibleName("Open recordings or snapshots")
        self.button.clicked.connect(lambda: open_file())
        inside = QVBoxLayout(card)
        inside.setSpacing(12)
        inside.addWidget(self._label(TITLE, 1.7))
        inside.addWidget(self._label(NEXT))
        inside.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        inside.addSpacing(8)
        inside.addWidget(self._label(RECORD))
        code = self._label(CODE)
        code.setObjectName("code")
        code.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        inside.addWidget(code)
        layout = QVBoxLayout(self)
        layout.addStretch(2)
        layout.addWidget(card, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(3)

    def _label(self, text: str, size: float = 1.0) -> QLabel:
        label = QLabel(text, self)
        font = label.font()
        font.setPointSizeF(font.pointSizeF() * size)
        font.setBold(size > 1)
        label.setFont(font)
        return label
