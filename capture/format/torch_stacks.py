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
        self._files: dict[str, int] = {}
        self._known: dict[tuple[str, str, int], int] = {}
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

    def rows(self, values: list[Any]) -> list[int]:
        """`row` of each of these."""
        found = list(map(self._lists.get, map(id, values)))
        return [self.row(value) if row is None else row for row, value in zip(found, values)]

    def _row_of_chain(self, frames: Any) -> int:
        if type(frames) not in (list, tuple):
            raise ValueError("a stack is not a list of records")
        chain = tuple(map(id, frames))
        row = self._chains.get(chain)
        if row is None:
            row = self._chains[chain] = self._new(frames, chain)
        return row

    def _new(self, frames: Any, chain: tuple[int, ...]) -> int:
        rows: list[Any] = list(map(self._frames.get, chain))
        if None in rows:
            self._learn(frames, rows)
            rows = list(map(self._frames.__getitem__, chain))
        row = self._stacks.stack(reversed(rows))
        if len(rows) > MAX_DEPTH or len(self._stacks) > self._most:
            raise ValueError("its stacks are longer, or more of them differ, than in any program")
        return row

    def column(self, rows: list[Row]) -> list[int]:
        """The stack of each of these entries."""
        return self.rows(plain.column(rows, "frames"))

    def _learn(self, frames: Any, rows: list[Any]) -> None:
        """Look into those frames that have no row yet."""
        known, seen = self._known, self._frames
        new = [frame for frame, row in zip(plain.dicts(frames, "a stack"), rows) if row is None]
        for frame in new:
            name, path, line = frame.get("name"), frame.get("filename"), frame.get("line")
            if not (type(name) is str and type(path) is str and type(line) is int):
                name, path, line = plain.text(frame, "name"), plain.text(frame, "filename"), plain.number(frame, "line")
            key = name, path, line if 0 <= line < 1 << 31 else 0
            row = known.get(key)
            if row is None:
                row = known[key] = self._frame(*key)
            seen[id(frame)] = row

    def _frame(self, name: str, path: str, line: int) -> int:
        file = self._files.get(path)
        if file is None:
            self.saw_npu = self.saw_npu or "torch_npu" in path
            file = self._files[path] = self._stacks.file(short_path(path, self._project))
        return self._stacks.frame_of(name, file, line)
