"""Python's cyclic garbage is collected in the window's thread, also while jobs run.

Python collects in whichever thread happens to allocate. A cycle of garbage may hold a widget or a timer, and Qt allows
these to be destroyed in their own thread only: done in a job's thread it ends the process with a segmentation fault.
"""

from __future__ import annotations

import gc
import threading

from PySide6.QtCore import QObject, QTimer
from shiboken6 import isValid

_INTERVAL_MS = 50


class CollectHere(QObject):
    """While a thread that is watched lives, automatic collection is off, and a timer here collects young garbage.

    Old garbage waits until the threads are gone. Several of these may be at work at once.
    """

    at_work = 0
    """How many of these watch a thread."""
    was_on = True
    """Whether collection was automatic before the first of them began."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._threads: list[threading.Thread] = []
        self._watching = False
        self._timer = QTimer(self, interval=_INTERVAL_MS)
        self._timer.timeout.connect(self._tick)

    def watch(self, thread: threading.Thread) -> None:
        """Collect here until this thread, which is about to start, is gone."""
        if not self._watching:
            if not CollectHere.at_work:
                CollectHere.was_on = gc.isenabled()
                gc.disable()
            CollectHere.at_work += 1
            self._watching = True
            self._timer.start()
        self._threads.append(thread)

    def join(self) -> None:
        """Wait until no thread is left, and let Python collect as before."""
        for thread in self._threads:
            thread.join()
        self._over()

    def _tick(self) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if self._threads:
            collect_young()
        else:
            self._over()

    def _over(self) -> None:
        self._threads = []
        if self._watching:
            self._watching = False
            if isValid(self._timer):  # it is not where the application went first
                self._timer.stop()
            CollectHere.at_work -= 1
            if not CollectHere.at_work and CollectHere.was_on:
                gc.enable()


def collect_young() -> None:
    """What automatic collection would have done by now in the two younger generations."""
    counts, limits = gc.get_count(), gc.get_threshold()
    if counts[1] > limits[1] > 0:
        gc.collect(1)
    elif counts[0] > limits[0] > 0:
        gc.collect(0)
