"""Python frames as rows of a recording, each distinct (code, line) named once."""

from __future__ import annotations

from .format.interning import StackTable
from .format.paths import short_path
from .step_log import Frame


class FrameRows:
    """Turns (code, line) into rows of `frames` and `stacks`."""

    def __init__(self, stacks: StackTable) -> None:
        self._stacks = stacks
        self._frames: dict[Frame, int] = {}

    def stack(self, frames: tuple[Frame, ...], *operations: str) -> int:
        """The stack of these frames, innermost first, with operations that have no file called from the innermost."""
        rows = [self._frame(frame) for frame in reversed(frames)]
        return self._stacks.stack([*rows, *(self._stacks.frame(name, "", 0) for name in operations)])

    def _frame(self, frame: Frame) -> int:
        if frame not in self._frames:
            code, line = frame
            self._frames[frame] = self._stacks.frame(code.co_name, short_path(code.co_filename), line)
        return self._frames[frame]
