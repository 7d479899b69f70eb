"""A page is made in steps, between which the window can paint and answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget


class Stages(QObject):
    """Steps that wait; one is done each time the window has nothing else to do."""

    done = Signal()
    """No step waits any more."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_paused = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._next)

    @property
    def is_done(self) -> bool:
        """Whether no step waits."""
        return not self._waiting

    def add(self, step: Callable[[], object]) -> None:
        """Do this after all that waits already."""
        self._waiting.append(step)
        self._start()

    def pause(self) -> None:
        """Do nothing until `go_on`."""
        self._is_paused = True
        self._timer.stop()

    def go_on(self) -> None:
        """Do what waits, if it does not yet."""
        self._is_paused = False
        if self._waiting:
            self._start()

    def _start(self) -> None:
        if not self._is_paused:
            self._timer.start()

    def show_later(self, widget: QWidget) -> None:
        """Show a part of the page in a step of its own: it takes as long as making it. Its room is kept."""
        policy = widget.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        widget.setSizePolicy(policy)
        widget.hide()
        self.add(widget.show)

    def finish(self) -> None:
        """Do all that waits, and what it adds, now."""
        while self._waiting:
            self._next()

    def drop(self) -> None:
        """Do nothing of what waits."""
        self._waiting.clear()
        self._timer.stop()

    def _next(self) -> None:
        if not self._waiting:
            return
        step = self._waiting.popleft()
        try:
            step()
        finally:
            if self._waiting:
                self._start()  # behind all that became due meanwhile
        if not self._waiting:
            self.done.emit()
