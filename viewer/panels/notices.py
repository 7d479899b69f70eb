"""The bars between tabs and page: a load that runs, and one clear sentence when something went wrong."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QProgressBar, QPushButton, QToolButton, QWidget

from ..state.jobs import Jobs


class LoadingBar(QFrame):
    """Shows the job started last, with how far it is and a way to call it off."""

    def __init__(self, jobs: Jobs, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.jobs, self.number = jobs, 0
        self.setObjectName("loading")
        self.text = QLabel(self)
        self.bar = QProgressBar(self)
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(10)
        self.bar.setAccessibleName("Progress")
        self.cancel = QPushButton("Cancel", self)
        self.cancel.setAccessibleName("Cancel what runs")
        self.cancel.clicked.connect(lambda: jobs.cancel(self.number))
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 4, 12, 4)
        layout.addWidget(self.text)
        layout.addWidget(self.bar, 1)
        layout.addWidget(self.cancel)
        self.hide()
        jobs.started.connect(self._started)
        jobs.progressed.connect(self._progressed)
        jobs.ended.connect(self._ended)

    def _started(self, number: int, title: str) -> None:
        self.number = number
        self.text.setText(title)
        self.bar.setValue(0)
        self.show()

    def _progressed(self, number: int, fraction: float, stage: str) -> None:
        if number == self.number:
            self.bar.setValue(int(fraction * 1000))
            self.text.setText(stage)

    def _ended(self, number: int) -> None:
        if number == self.number:
            self.hide()


class MessageBar(QFrame):
    """Stays until it is closed or something else opens."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("message")
        self.text = QLabel(self)
        self.text.setWordWrap(True)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.text.setAccessibleName("Message")
        close = QToolButton(self)
        close.setText("✕")
        close.setAccessibleName("Close this message")
        close.clicked.connect(self.hide)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, 4, 8, 4)
        layout.addWidget(self.text, 1)
        layout.addWidget(close)
        self.hide()

    def say(self, sentences: tuple[str, ...], calm: bool = False) -> None:
        """Show these sentences, quietly where nothing went wrong; nothing if there are none."""
        self.setProperty("calm", calm)
        for widget in (self, self.text):
            widget.style().unpolish(widget)
            widget.style().polish(widget)
        self.text.setText("\n".join(sentences))
        self.setVisible(bool(sentences))
