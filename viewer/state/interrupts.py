"""Ctrl+C in the terminal that the window was started from, heard while Qt waits for events."""

from __future__ import annotations

import contextlib
import signal
import socket
from types import FrameType, TracebackType

from PySide6.QtCore import QObject, QSocketNotifier, Signal

EXIT_STATUS = 128 + signal.SIGINT
"""What a shell expects of a program that ended on it."""


class Interrupts(QObject):
    """A context, of the main thread: inside it Ctrl+C raises nothing, and is `caught` in the event loop instead. Python
    itself would only look at it once it runs again, and then in the middle of whatever runs."""

    caught = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_caught = False
        self._ours, self._theirs = socket.socketpair()
        for end in (self._ours, self._theirs):
            end.setblocking(False)
        self._notifier = QSocketNotifier(self._ours.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._look)

    def __enter__(self) -> Interrupts:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:  # as of a program put into the background, which is not meant
            signal.signal(signal.SIGINT, self._interrupted)
        self._fd_before = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        signal.set_wakeup_fd(self._fd_before)
        signal.signal(signal.SIGINT, self._before)
        self._notifier.setEnabled(False)
        for end in (self._ours, self._theirs):
            end.close()

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self.is_caught = True

    def _look(self) -> None:
        """The system has written to the socket; Python has run the handler by the time that it gets here."""
        with contextlib.suppress(BlockingIOError):
            self._ours.recv(64)
        if self.is_caught:
            self.caught.emit()
