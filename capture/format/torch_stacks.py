"""The frames of torch's snapshots, interned."""

from __future__ import annotations

import math
from typing import Any

from . import plain_values as plain
from .interning import StackTable
from .paths import short_path
from .plain_values import Row
from .schema import NONE

_NO_PROJECT = "\0"
"""No path starts with this, so a user's files keep their full path."""
MAX_DEPTH = 1 << 16
"""Frames of one stack; 303 is the most seen."""
STACKS_FREE = 1 << 20
BYTES_PER_STACK = 16
"""Beyond `STACKS_FREE`, a file has so many bytes for each stack that no other begins with; a real one has hundreds."""


class StackReader:
    """Turns lists of frame dicts into rows of stacks.

    A snapshot shares its frame dicts a thousandfold and often the lists too, so both are looked up by identity; the
    snapshot must stay alive as long as this.
    """

    def __init__(self, stacks: StackTable, project: str | None, limit: float = math.inf) -> None:
        """`limit` is the size of the file in bytes."""
        self._stacks = stacks
        self._most = STACKS_FREE + limit / BYTES_PER_STACK
        self._project = project or _NO_PROJECT
        self._frames: dict[int, int] = {}
        self._lists: dict[int, int] = {}
        self._chains: dict[tuple[int, ...], int] = {}
        self.saw_npu = False

    def row(self, frames: Any) -> int:
        """The row of stacks of a list of frames, innermost first as torch gives them; -1 for none.

        Raises ValueError if it is not a list of dicts.
        """
        if not frames:
            return NONE
        row = self._lists.get(id(frames))
        if row is None:
            row = self._lists[id(frames)] = self._row_of_chain(frames)
        return row

    def _row_of_chain(self, frames: Any) -> int:
        if type(frames) not in (list, tuple):
            raise ValueError("a stack is not a list of records")
        chain = tuple(map(id, frames))
        row = self._chains.get(chain)
        if row is None:
            rows = [self._frame(frame) for frame in plain.dicts(frames, "a stack")]
            row = self._chains[chain] = self._stacks.stack(reversed(rows))
            if len(rows) > MAX_DEPTH or len(self._stacks) > self._most:
                raise ValueError("its stacks are longer, or more of them differ, than in any program")
        return row

    def column(self, rows: list[Row]) -> list[int]:
        """The stack of each of these entries."""
        return [self.row(row.get("frames")) for row in rows]

    def _frame(self, frame: Row) -> int:
        row = self._frames.get(id(frame))
        if row is None:
            file = plain.text(frame, "filename")
            self.saw_npu = self.saw_npu or "torch_npu" in file
            line = plain.number(frame, "line")
            line = line if 0 <= line < 1 << 31 else 0
            row = self._stacks.frame(plain.text(frame, "name"), short_path(file, self._project), line)
            self._frames[id(frame)] = row
        return row
