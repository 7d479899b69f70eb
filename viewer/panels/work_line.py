"""What a view works out in the background: how far it is, where that takes long, and a way to stop it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QWidget

from ..state.jobs import Job, Jobs
from .notices import LoadingBar

_PATIENCE_MS = 200
"""What is done sooner than this is not spoken of."""


class WorkLine(LoadingBar):
    """One piece of work at a time: another one takes its place."""

    def __init__(self, parent: QWidget | None = None) -> None:
        jobs = Jobs()
        super().__init__(jobs, parent)
        self._again: Callable[[], None] | None = None
        self.is_stopped = False
        self.cancel.setText("Stop")
        self.cancel.clicked.connect(self._pressed)
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(_PATIENCE_MS)
        self._patience.timeout.connect(self.show)
        jobs.end_with(self)

    def lie_on(self, view: QWidget) -> None:
        """Along the top of a view that has no place for it, and nothing to show before the work is done."""
        view.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and isinstance(watched, QWidget):
            self.setGeometry(0, 0, watched.width(), self.sizeHint().height())
        return False

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited."""
        return bool(self.jobs.running)

    def begin(self, title: str, work: Callable[[Job], Any], done: Callable[[Any], None]) -> None:
        """Run `work(job)` in a job, then `done(answer)`; a sentence about what went wrong stays here."""
        self._again = lambda: self.begin(title, work, done)
        for number in self.jobs.running:
            self.jobs.cancel(number)
        self._offer("Stop", stopped=False)
        self.jobs.start(title, work, done, self._failed)

    def _started(self, number: int, title: str) -> None:
        super()._started(number, title)
        self.hide()
        self._patience.start()

    def _ended(self, number: int) -> None:
        super()._ended(number)
        self._patience.stop()

    def _pressed(self) -> None:
        if self.is_stopped and self._again is not None:
            self._again()
        else:
            self.text.setText(f"{self.text.text()}: stopped")
            self._offer("Begin again", stopped=True)
            self.show()

    def _failed(self, sentence: str) -> None:
        self.text.setText(sentence)
        self._offer("Begin again", stopped=True)
        self.show()

    def _offer(self, word: str, stopped: bool) -> None:
        self.is_stopped = stopped
        self.bar.setVisible(not stopped)
        self.cancel.setText(word)
        self.cancel.setAccessibleName(word)
