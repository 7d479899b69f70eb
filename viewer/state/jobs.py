"""Long work outside the window's thread: each job has a number, a cancel check and progress; stale answers are dropped.

The work itself sees plain Python only, never a Qt object. Its answer is fetched by a timer, so
everything that touches the window runs in the window's thread.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance
from shiboken6 import isValid

from memstrata.capture.format.problems import FormatError

from .collecting import CollectHere

_POST_MS = 10


class Cancelled(Exception):
    """Raised inside the work by `Job.check` once nobody waits for the answer any more."""


class Job:
    """What the work may ask and say. `number` identifies it, `title` is what the window shows."""

    def __init__(
        self,
        number: int,
        title: str,
        said: Callable[[int, float, str], None],
        found: Callable[[int, Any], None] = lambda *_: None,
    ) -> None:
        self.number, self.title = number, title
        self._said, self._found = said, found
        self._stop = threading.Event()
        self.thread: threading.Thread | None = None

    def cancel(self) -> None:
        """Ask the work to stop at its next check."""
        self._stop.set()

    def check(self) -> None:
        """Raises `Cancelled` if the work was called off."""
        if self._stop.is_set():
            raise Cancelled

    def progress(self, fraction: float, stage: str) -> None:
        """Say how far the work is, from 0 to 1, and check."""
        self.check()
        self._said(self.number, fraction, stage)

    def show(self, part: Any) -> None:
        """Hand out a part of the answer that can be shown while the rest is worked out, and check."""
        self.check()
        self._found(self.number, part)


class Jobs(QObject):
    """Runs jobs, each in a thread of its own, and keeps none of them beyond `shutdown`."""

    started = Signal(int, str)
    """(number, title)"""
    progressed = Signal(int, float, str)
    """(number, fraction from 0 to 1, stage)"""
    found = Signal(int, object)
    """(number, part of the answer that can be shown already)"""
    ended = Signal(int)
    """The number of a job that is over, however it ended."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._running: dict[int, tuple[Job, Callable[[Any], None], Callable[[str], None]]] = {}
        self._threads = CollectHere(self)
        self._next = 1
        _LIVING.add(self)
        self._mail: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        """What threads have said: a thread that emits a signal may wait for Qt while Qt waits for Python."""
        self._post = QTimer(self, interval=_POST_MS)
        self._post.timeout.connect(self._hand_out)

    def start(
        self, title: str, work: Callable[[Job], Any], done: Callable[[Any], None], failed: Callable[[str], None]
    ) -> int:
        """Run `work(job)`; then `done(answer)` or `failed(sentence)` in this thread. Returns the job's number."""
        job = Job(self._next, title, self._mailed(self.progressed), self._mailed(self.found))
        self._next += 1
        self._running[job.number] = (job, done, failed)
        job.thread = threading.Thread(target=self._work, args=(job, work), name=f"memstrata {title}", daemon=True)
        self._threads.watch(job.thread)
        self._post.start()
        self.started.emit(job.number, title)
        job.thread.start()
        return job.number

    @property
    def running(self) -> tuple[int, ...]:
        """Numbers of the jobs whose answer is awaited."""
        return tuple(self._running)

    def cancel(self, number: int) -> None:
        """Drop the job: its answer is not delivered any more."""
        entry = self._running.pop(number, None)
        if entry is not None:
            entry[0].cancel()
            if isValid(self):  # it is not where the application went first
                self.ended.emit(number)

    def shutdown(self) -> None:
        """Cancel everything and wait until no thread is left."""
        for number in self.running:
            self.cancel(number)
        self._threads.join()
        self._mail.clear()
        if isValid(self._post):
            self._post.stop()

    def end(self) -> None:
        """Shut down without a word: who would hear it is just being destroyed."""
        if isValid(self):
            self.blockSignals(True)
        self.shutdown()

    def end_with(self, owner: QObject) -> None:
        """End when this object is destroyed."""
        owner.destroyed.connect(lambda: self.end())

    def _work(self, job: Job, work: Callable[[Job], Any]) -> None:
        answer, sentence = None, ""
        try:
            answer = work(job)
        except Cancelled:
            return
        except (FormatError, OSError) as error:
            sentence = str(error) or type(error).__name__
        except MemoryError:
            sentence = f"{job.title}: not enough memory"
        except Exception as error:  # a fault of ours must reach the user as a sentence, not end the thread in silence
            sentence = f"{job.title}: {type(error).__name__}: {error}"
        self._mail.append((self._deliver, (job.number, answer, sentence)))

    def _hand_out(self) -> None:
        while self._mail:
            act, said = self._mail.popleft()
            act(*said)
        if not self._running:
            self._post.stop()

    def _mailed(self, signal: SignalInstance) -> Callable[..., None]:
        """What a thread calls to have this signal emitted here, unless its job is over by then."""
        return lambda number, *said: self._mail.append((self._tell, (signal, number, *said)))

    def _tell(self, signal: SignalInstance, number: int, *said: Any) -> None:
        if number in self._running:
            signal.emit(number, *said)

    def _deliver(self, number: int, answer: Any, sentence: str) -> None:
        entry = self._running.pop(number, None)
        if entry is None:
            return
        _job, done, failed = entry
        self.ended.emit(number)
        if sentence:
            failed(sentence)
        else:
            done(answer)


_LIVING: WeakSet[Jobs] = WeakSet()


@atexit.register  # after Qt's own was registered, so it runs before it: Qt would destroy what threads still speak to
def end_all() -> None:
    """End the jobs of a process that ends with its window open."""
    for jobs in tuple(_LIVING):
        jobs.end()
