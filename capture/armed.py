"""Armed for the one bad step: the last steps are kept over a long run, and written when something happens.

Something is an out-of-memory error that leaves a step, a step that needs more memory than any before it, or a signal.
"""

from __future__ import annotations

import signal as signals
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from .errors import CaptureError
from .format.schema import NONE
from .messages import counted, say
from .step_sequence import StepSequence, Writer

TRIGGERS = ("oom", "peak", "signal")

KEEP = 2
"""Complete steps kept before the one that runs."""

HIGHER = 1.02
"""How far a step must rise above the highest peak so far: the first steps of a run creep upwards for a while."""


class Armed(StepSequence):
    """Records every step after `warmup`, keeps the last `keep`, and writes them when `on` happens, each time anew.

    With `keep=0` and a signal nothing is recorded until it arrives; then the next step is.
    """

    endless = True

    def __init__(self, writer: Writer, on: str, keep: int = KEEP, warmup: int = 0,
                 signal_number: int | None = None) -> None:  # fmt: skip
        super().__init__(writer, warmup)
        self.times_written = 0
        self._on_what = on
        self._keep = keep
        self._highest = 0
        self._request = SignalRequest(signal_number) if on == "signal" else None
        self._waits = on == "signal" and keep == 0

    def open(self) -> None:
        """Before the first step."""
        super().open()
        if self._request is not None:
            self._request.install()

    def _is_due(self, ahead: int = 0) -> bool:
        asked = not self._waits or (self._request is not None and self._request.arrived)
        return not (self.done or self._on) and self.number + ahead >= self.warmup and asked

    def _recorded(self, error: BaseException | None) -> None:
        assert self._live is not None
        trigger = self._trigger(error)
        if trigger is not None:
            why = f"step {self.number - 1:,} {_WHY[trigger]}"
            self.times_written += self._writer.write(self._live, self._timed.rows, error, trigger, why)
        if error is not None:  # the step was cut off; what follows has nothing to do with it
            bound = self._live.bound()
            self._live.end_step(bound)
            self._live.kept[-1].row.end = NONE
        self._live.forget_all_but(0 if trigger == "oom" else self._keep)
        if self._waits and trigger is not None:
            self._switch_off()

    def _trigger(self, error: BaseException | None) -> str | None:
        """What has happened in the step that just ended, if it is what is waited for."""
        if self._on_what == "oom":
            return "oom" if error is not None and is_out_of_memory(error) else None
        if self._on_what == "signal":
            assert self._request is not None
            return "signal" if self._request.taken() else None
        assert self._live is not None
        if error is not None or self._live.highest_bytes <= HIGHER * self._highest:
            return None
        self._highest = self._live.highest_bytes
        return "peak"

    def _close(self, error: BaseException | None) -> None:
        if self._on and self._live is not None and self._live.kept:
            if error is not None and self._live.runs:
                self.number += 1
                self._recorded(error)
            elif self._request is not None and self._request.taken():
                self._live.drop_running()
                if self._live.kept:
                    why = f"a signal arrived after step {self.number - 1:,}"
                    self.times_written += self._writer.write(self._live, self._timed.rows, None, "signal", why)
        if not self.times_written:
            say(f"armed for {_FOR[self._on_what]} over {counted(self.number, 'step')}: nothing was written.")

    def _finish(self) -> None:
        super()._finish()
        if self._request is not None:
            self._request.remove()

    def _frees_missed(self) -> None:
        assert self._live is not None
        self._live.forget_all_but(0)
        self._live.forget_allocations()  # what seems to live on may be gone


_WHY = {"oom": "ran out of memory", "peak": "reached a new peak", "signal": "was asked for by a signal"}
_FOR = {"oom": "an out-of-memory error", "peak": "a new peak", "signal": "a signal"}


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this error, or one it was raised from, says that memory ran out: on a GPU, in torch's allocator for the
    CPU, or in Python."""
    return any(_is_out_of_memory(each) for each in _causes(error))


def _is_out_of_memory(error: BaseException) -> bool:
    kinds = (MemoryError, getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError))
    text = str(error) if isinstance(error, RuntimeError) else ""
    return isinstance(error, kinds) or "can't allocate memory" in text or "not enough memory" in text


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


class SignalRequest:
    """A signal by which somebody asks for the step that runs. The program's own handler is called too."""

    def __init__(self, number: int | None) -> None:
        default = getattr(signals, "SIGUSR1", None)  # not on Windows
        self._number = default if number is None else number
        if self._number is None:
            raise CaptureError("This system has no SIGUSR1: say which signal to wait for.")
        self.arrived = False
        self._before: Any = None
        self._installed = False

    def install(self) -> None:
        """Handle it from now on; only Python's main thread may."""
        if threading.current_thread() is not threading.main_thread():
            say("signals can be waited for in the main thread only: none is.")
            return
        assert self._number is not None
        self._before = signals.getsignal(self._number)
        signals.signal(self._number, self._handle)
        self._installed = True

    def taken(self) -> bool:
        """Whether it arrived since this was last asked."""
        arrived, self.arrived = self.arrived, False
        return arrived

    def remove(self) -> None:
        """Put the program's handler back, unless it has set another one since."""
        if not self._installed or threading.current_thread() is not threading.main_thread():
            return
        assert self._number is not None
        if signals.getsignal(self._number) == self._handle and self._before is not None:
            signals.signal(self._number, self._before)
        self._installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.arrived = True
        if callable(self._before):
            self._before(number, frame)
