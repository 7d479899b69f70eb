"""torch's named ranges (`record_function`, every optimizer step) that are open while a profiler is stopped.

A range that began under one profiler and ends under the next writes its end into memory that went with the first one,
and the process crashes some time later. So a profiler is not begun again while a range that it saw begin is open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.autograd.profiler import record_function

from .step_log import thread_id


class OpenRanges:
    """Wraps how a range is entered and left, on the thread that is profiled; does `then` when the last one is left."""

    def __init__(self) -> None:
        self.then: Callable[[], None] | None = None
        """Done once, as soon as no range is open."""
        self._open: set[int] = set()
        self._thread = thread_id()
        self._originals: tuple[Any, Any] | None = None

    def __bool__(self) -> bool:
        """Whether a range is open."""
        return bool(self._open)

    def install(self) -> None:
        """Start watching; ranges that are open already began under no profiler of ours."""
        enter, leave = record_function.__enter__, record_function.__exit__
        self._originals = enter, leave
        self._open.clear()

        def watched_enter(range_: Any) -> Any:
            result = enter(range_)
            if thread_id() == self._thread:
                self._open.add(id(range_))
            return result

        def watched_exit(range_: Any, *error: Any) -> Any:
            try:
                return leave(range_, *error)
            finally:
                if id(range_) in self._open and thread_id() == self._thread:
                    self._left(id(range_))

        record_function.__enter__, record_function.__exit__ = watched_enter, watched_exit

    def remove(self) -> None:
        """Put both back."""
        if self._originals is not None:
            record_function.__enter__, record_function.__exit__ = self._originals
        self._originals, self.then = None, None
        self._open.clear()

    def _left(self, range_: int) -> None:
        self._open.discard(range_)
        if not self._open and self.then is not None:
            then, self.then = self.then, None
            then()
