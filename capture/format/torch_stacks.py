"""The frames of torch's snapshots, interned."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from operator import itemgetter
from typing import Any

from . import plain_values as plain
from .interning import Chain, StackTable
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
_TOO_MUCH = "its stacks are longer, or more of them differ, than in any program"
_MOST_LINES = 1 << 31
_Key = tuple[str, str, int]


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
        self._chains: dict[Chain, int] = {}
        """Each chain's number, which `_rows` has the stack of."""
        self._rows: list[int] = []
        self._files: dict[str, int] = {}
        self._known: dict[_Key, int] = {}
        self.saw_npu = False

    def rows(self, values: list[Any]) -> list[int]:
        """The row of stacks of each of these lists of frames, innermost first as torch gives them; -1 for none.

        Raises ValueError if one is not a list of dicts.
        """
        found: list[Any] = list(map(self._lists.get, map(id, values)))
        if None in found:
            self._read({id(value): value for value, row in zip(values, found) if row is None})
            found = list(map(self._lists.__getitem__, map(id, values)))
        return found

    def column(self, rows: list[Row]) -> list[int]:
        """The stack of each of these entries."""
        return self.rows(plain.column(rows, "frames"))

    def _read(self, lists: dict[int, Any]) -> None:
        """Find the rows of lists that have none yet, all at once."""
        self._lists |= dict.fromkeys([number for number, frames in lists.items() if not frames], NONE)
        lists = {number: frames for number, frames in lists.items() if frames}
        if not set(map(type, lists.values())) <= {list, tuple}:
            raise ValueError("a stack is not a list of records")
        if max(map(len, lists.values()), default=0) > MAX_DEPTH:
            raise ValueError(_TOO_MUCH)
        chains, first = self._chains, len(self._chains)
        numbers: list[int] = []
        new: list[tuple[Chain, Any]] = []
        for frames in lists.values():
            one = tuple(map(id, frames))
            number = chains.setdefault(one, len(chains))
            if number == first + len(new):
                new.append((one, frames))
            numbers.append(number)
        self._learn(new)
        rows = self._stacks.stacks([one for one, _ in new], self._frames, self._most)
        if rows is None:
            raise ValueError(_TOO_MUCH)
        self._rows += rows
        self._lists.update(zip(lists, map(self._rows.__getitem__, numbers)))

    def _learn(self, chains: list[tuple[Chain, Any]]) -> None:
        """Look into those frames of these chains that have no row yet."""
        frames = {number: frame for one in chains for number, frame in zip(*one)}
        numbers = [number for number in frames if number not in self._frames]
        keys, distinct = _keys(list(map(frames.__getitem__, numbers)))
        known, files = self._known, self._files
        new = [key for key in distinct if key not in known]
        for path in dict.fromkeys([path for _, path, _ in new]):
            if path not in files:
                self.saw_npu = self.saw_npu or "torch_npu" in path
                files[path] = self._stacks.file(short_path(path, self._project))
        known.update(zip(new, self._stacks.frames_of([(name, files[path], line) for name, path, line in new])))
        self._frames.update(zip(numbers, map(known.__getitem__, keys)))


def _keys(frames: list[Any]) -> tuple[list[_Key], Iterable[_Key]]:
    """(what tells each of these frames from others, the same without repetition)."""
    if not set(map(type, frames)) <= {dict}:
        raise ValueError("a stack is not a list of records")
    try:
        keys: list[_Key] = list(map(itemgetter("name", "filename", "line"), frames))
        if set(map(type, map(itemgetter(2), keys))) == {int}:
            distinct = dict.fromkeys(keys)
            names, paths, lines = zip(*distinct)
            if set(map(type, chain(names, paths))) == {str} and min(lines) >= 0 and max(lines) < _MOST_LINES:
                return keys, distinct
    except (KeyError, TypeError):
        pass
    keys = list(map(_key, frames))
    return keys, dict.fromkeys(keys)


def _key(frame: Row) -> _Key:
    """Those of a frame that has something else in place of a text or a number."""
    line = plain.number(frame, "line")
    return plain.text(frame, "name"), plain.text(frame, "filename"), line if 0 <= line < _MOST_LINES else 0
