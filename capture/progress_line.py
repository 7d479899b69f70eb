"""Progress of something long on stderr: one line that is written over on a terminal, elsewhere one now and then."""

from __future__ import annotations

import shutil
import sys
import time

LOG_SECONDS = 10.0
"""Between two lines where stderr is no terminal."""


class ProgressLine:
    """Call it with a text; leave the `with` block to clear the line."""

    def __init__(self) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._next = time.monotonic() + LOG_SECONDS
        self._shown = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def __call__(self, text: str) -> None:
        """Show this text instead of the last one."""
        if self._terminal:
            self._shown = True
            self._write(f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K")
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + LOG_SECONDS
            self._write(f"memstrata: {text}\n")

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            pass  # stderr is closed: nobody is there to be told
