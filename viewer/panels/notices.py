"""The bars between tabs and page: a load that runs, and one clear sentence when something went wrong."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QProgressBar, QPushButton, QToolButton, QWidget

from ..look.tips import sentence
from ..state.jobs import Jobs
from .caption import Caption

_LEAST_BAR = 120
"""Pixels of a progress bar beside the longest name."""
_EACH_MS = 80
"""How often a bar moves: what it takes to paint one is time that reading a file does not get."""


class LoadingBar(QFrame):
    """Shows the job started last of those that run, with how far it is and a way to call it off."""

    def __init__(self, jobs: Jobs, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.jobs, self.number = jobs, 0
        self._latest: dict[int, tuple[str, int]] = {}
        """What each running job said last."""
        self.setObjectName("loading")
        self.text = Caption(self, Qt.TextElideMode.ElideMiddle)
        self.text.setObjectName("")
        self.bar = QProgressBar(self)
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(10)
        self.bar.setMinimumWidth(_LEAST_BAR)
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
        self._later = QTimer(self, singleShot=True, interval=_EACH_MS)
        self._later.timeout.connect(lambda: self._move(self.number))
        jobs.started.connect(self._started)
        jobs.progressed.connect(self._progressed)
        jobs.ended.connect(self._ended)

    def _started(self, number: int, title: str) -> None:
        self._latest[number] = (title, 0)
        self._show(number)

    def _show(self, number: int) -> None:
        self.number = number
        self._move(number)
        self.show()

    def _move(self, number: int) -> None:
        if number in self._latest:
            title, part = self._latest[number]
            self.text.setText(title)
            self.bar.setValue(part)

    def _progressed(self, number: int, fraction: float, stage: str) -> None:
        self._latest[number] = (stage, int(fraction * 1000))
        if number != self.number:
            return
        if stage != self.text.text():
            self._move(number)
        elif not self._later.isActive():
            self._later.start()

    def _ended(self, number: int) -> None:
        self._latest.pop(number, None)
        if number != self.number:
            return
        if self._latest:
            self._show(next(reversed(self._latest)))
        else:
            self.hide()


class BackgroundNote(QWidget):
    """A word at the foot of the window while what may be asked for next is made ready, and a way to call it off.

    What is on screen does not depend on it, so nothing moves when it comes and goes.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.running: tuple[Jobs, int] | None = None
        self.text = QLabel(self)
        self.text.setAccessibleName("What is made ready")
        stop = QToolButton(self)
        stop.setText("✕")
        stop.setAccessibleName("Stop making ready")
        stop.setToolTip("Stop; what is missing is worked out when it is asked for")
        stop.clicked.connect(self._stop)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.text)
        layout.addWidget(stop)
        self.hide()

    def follow(self, jobs: Jobs) -> None:
        """Show these jobs too, for as long as they last."""
        jobs.started.connect(lambda number, title: self._show(jobs, number, title))
        jobs.progressed.connect(lambda number, part, stage: self._say(jobs, number, part, stage))
        jobs.ended.connect(lambda number: self._hide(jobs, number))

    def _show(self, jobs: Jobs, number: int, title: str) -> None:
        self.running = (jobs, number)
        self.text.setText(title)
        self.show()

    def _say(self, jobs: Jobs, number: int, part: float, stage: str) -> None:
        if self.running == (jobs, number):
            self.text.setText(f"{stage}: {part:.0%}")

    def _hide(self, jobs: Jobs, number: int) -> None:
        if self.running == (jobs, number):
            self.running = None
            self.hide()

    def _stop(self) -> None:
        if self.running is not None:
            self.running[0].cancel(self.running[1])


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
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.text, 1)
        layout.addWidget(close)
        self.hide()

    def say(self, sentences: tuple[str, ...], calm: bool = False) -> None:
        """Show these sentences, quietly where nothing went wrong; nothing if there are none."""
        self.setProperty("calm", calm)
        for widget in (self, self.text):
            widget.style().unpolish(widget)
            widget.style().polish(widget)
        self.text.setText("\n".join(map(sentence, sentences)))
        self.setVisible(bool(sentences))
