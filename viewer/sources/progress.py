"""What a reader says while it works, and how it is called off."""

from __future__ import annotations

from collections.abc import Callable

Said = Callable[[str, float], None]
"""Called with a stage in words and how far that stage is, from 0 to 1."""


class Cancelled(Exception):
    """Raised by `open_file` once its `cancelled` answers True. Nothing is left behind."""


class Progress:
    """Passes on what a reader says, and asks whether to go on."""

    def __init__(self, said: Said | None = None, cancelled: Callable[[], bool] | None = None) -> None:
        self._said = said
        self._cancelled = cancelled

    def __call__(self, stage: str, fraction: float) -> None:
        """Say how far the stage is; raises `Cancelled`."""
        self.check()
        if self._said is not None:
            self._said(stage, min(max(fraction, 0.0), 1.0))

    def check(self) -> None:
        """Raises `Cancelled` if nobody waits for the file any more."""
        if self._cancelled is not None and self._cancelled():
            raise Cancelled
