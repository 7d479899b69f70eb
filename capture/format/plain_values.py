"""Columns out of untrusted dicts: types and ranges are checked before numpy sees a value.

Entries come as dicts, as torch hands them out, or in stretches that a file reader made into columns without ever
building a dict (`Run`); `Rows` gives one column for both, so what an entry means is written down once.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import numpy as np

from .schema import B1, I32, I64, NONE, U8

Row = dict[str, Any]

_WORD = 1 << 64
MAX_REPEATED = 1000
"""How many entries of a file may be there already; a few do no harm."""


@dataclass(frozen=True)
class Fields:
    """What is read of one kind of entry: `key` is in every such entry and in no other; frames may be there too."""

    key: str
    integers: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(eq=False)
class Shared:
    """What the numbers in `Columns` stand for: texts, and lists of frame dicts."""

    texts: list[str]
    lists: list[Any]


class Columns:
    """Entries as columns; what is not here is absent in all of them. -1 is no text and no frames."""

    __slots__ = ("count", "frames", "integers", "reader", "shared", "texts")

    def __init__(self, count: int, shared: Shared) -> None:
        self.count, self.shared = count, shared
        self.integers: dict[str, I64] = {}
        self.texts: dict[str, I32] = {}
        self.frames: I32 | None = None
        self.reader: Rows | None = None
        """Who reads it; there can be one, as each column is gone once it was read."""


class Run:
    """Stands in a list for `count` dicts that follow each other there: the rows of `columns` from `first` on."""

    __slots__ = ("columns", "count", "first")
    __hash__ = None  # type: ignore[assignment]  # like the dicts it stands for, it can be no key

    def __init__(self, count: int) -> None:
        self.columns: Columns | None = None
        self.count, self.first = count, 0


class Rows:
    """Entries in order, dicts and runs. Each column can be asked for once: it then leaves the memory of the runs."""

    def __init__(self, parts: Sequence[Row | Run]) -> None:
        self._runs: list[tuple[int, int, int, Columns]] = []  # (position, first, behind the last, columns)
        self._dicts: list[Row] = []
        self._at: Sequence[int] = range(0)
        self._where: Any = slice(None)
        """The same, for numpy."""
        self.count = 0
        if Run in set(map(type, parts)):
            self._mixed(parts)
        else:
            self._dicts, self.count = list(parts), len(parts)  # type: ignore[arg-type]
            self._at = range(self.count)

    def _mixed(self, parts: Sequence[Row | Run]) -> None:
        at = []
        for part in parts:
            if type(part) is Run:
                self._run(part)
            else:
                self._dicts.append(part)  # type: ignore[arg-type]
                at.append(self.count)
                self.count += 1
        self._at, self._where = at, np.array(at, np.int64)

    def _run(self, run: Run) -> None:
        columns, first = run.columns, run.first
        assert columns is not None
        if columns.reader not in (None, self):
            raise ValueError("it has the same entries in lists of two kinds")
        columns.reader = self
        if self._runs:
            at, begin, end, before = self._runs[-1]
            if before is columns and end == first and at + end - begin == self.count:
                self._runs[-1] = (at, begin, end + run.count, columns)
                self.count += run.count
                return
        self._runs.append((self.count, first, first + run.count, columns))
        self.count += run.count

    def __len__(self) -> int:
        return self.count

    def number(self, row: int, key: str) -> int:
        """A whole number of one entry; -1 for anything else (and to be asked before the column itself)."""
        at = bisect.bisect_left(self._at, row)
        if at < len(self._at) and self._at[at] == row:
            return number(self._dicts[at], key, NONE)
        run = bisect.bisect_right(self._runs, row, key=lambda run: run[0]) - 1
        start, first, _, columns = self._runs[run]
        return int(columns.integers[key][first + row - start]) if key in columns.integers else NONE

    def missing(self, key: str) -> B1:
        """Which entries have no whole number `key` (to be asked before the column itself)."""
        out = np.zeros(self.count, np.bool_)
        out[self._where] = [key not in row for row in self._dicts]
        for at, first, end, columns in self._runs:
            out[at : at + end - first] = key not in columns.integers
        return out

    def whole_numbers(self, key: str, default: int | None, what: str) -> I64:
        """The integer column `key`; None as default means that it must be there. ValueError unless it fits 63 bits."""
        return self._filled(key, default, whole_numbers(self._dicts, key, default, what), what)

    def sizes(self, key: str, default: int | None, what: str) -> I64:
        """`whole_numbers` that may not be negative."""
        return _not_negative(self.whole_numbers(key, default, what), key, what)

    def pointers(self, key: str, what: str) -> I64:
        """A column of raw 64-bit pointers, 0 where absent; the highest bit becomes the sign."""
        return self._filled(key, 0, pointers(self._dicts, key, what), what)

    def _filled(self, key: str, default: int | None, of_dicts: I64, what: str) -> I64:
        if not self._runs:
            return of_dicts
        out = np.empty(self.count, np.int64)
        out[self._where] = of_dicts
        for at, first, end, columns in self._runs:
            if key in columns.integers:
                out[at : at + end - first] = columns.integers[key][first:end]
            elif default is None:
                raise ValueError(f"{key!r} of {what} is missing or not a whole number")
            else:
                out[at : at + end - first] = default
        for *_, columns in self._runs:
            columns.integers.pop(key, None)
        return out

    def texts(self, key: str) -> tuple[I32, list[str]]:
        """(number of the text under `key` of each entry, -1 for none; the texts by number)."""
        known = self._runs[0][3].shared.texts if self._runs else []
        numbers = {text: number for number, text in enumerate(known)}
        out = np.full(self.count, NONE, np.int32)
        out[self._where] = _text_numbers(column(self._dicts, key, None), numbers)
        for at, first, end, columns in self._runs:
            if key in columns.texts:
                out[at : at + end - first] = columns.texts[key][first:end]
        for *_, columns in self._runs:
            columns.texts.pop(key, None)
        return out, list(numbers)

    def by_frames(self, rows_of: Callable[[list[Any]], list[int]], frames_of: Callable[[list[Row]], list[Any]]) -> I32:
        """For each entry what `rows_of` says of its list of frames, which `frames_of` finds in dicts; -1 for none."""
        out = np.full(self.count, NONE, np.int32)
        out[self._where] = rows_of(frames_of(self._dicts))
        if self._runs:
            rows = self._stacks_of_runs(rows_of)
            for at, first, end, columns in self._runs:
                if columns.frames is not None:
                    out[at : at + end - first] = rows[columns.frames[first:end]]
        return out

    def _stacks_of_runs(self, rows_of: Callable[[list[Any]], list[int]]) -> I32:
        """What is said of each list that the runs have, by its number; -1 for others, and in the end for none."""
        lists = self._runs[0][3].shared.lists
        used = np.zeros(len(lists) + 1, np.bool_)
        for _, first, end, columns in self._runs:
            if columns.frames is not None:
                used[columns.frames[first:end]] = True
        numbers, out = np.flatnonzero(used[:-1]), np.full(len(used), NONE, np.int32)
        out[numbers] = rows_of([lists[number] for number in numbers.tolist()])
        return out


def entries(value: Any, what: str) -> list[Row | Run]:
    """The value if it is a list (or tuple) of dicts or runs; raises ValueError naming `what` otherwise."""
    if type(value) not in (list, tuple) or not set(map(type, value)) <= {dict, Run}:
        raise ValueError(f"{what} is not a list of records")
    return list(value)


def all_entries(values: list[Any], plural: str, what: str, limit: float) -> tuple[list[Row | Run], list[int]]:
    """(`entries` of all of these, how many each has); ValueError if there are more than `limit` of them."""
    if set(map(type, values)) <= {list, tuple} and sum(map(len, values)) <= limit:
        parts = list(chain.from_iterable(values))
        if set(map(type, parts)) <= {dict}:
            return parts, list(map(len, values))
    out: list[Row | Run] = []
    counts: list[int] = []
    total = 0
    for value in values:
        own = entries(value, what)
        counts.append(count(own))
        total += counts[-1]
        if total > limit:
            raise ValueError(f"it repeats its {plural} more often than a file of its size can hold")
        out += own
    return out, counts


def listed_once(parts: Sequence[Row | Run], plural: str) -> None:
    """ValueError if more than `MAX_REPEATED` of these are among those before them: no snapshot lists anything twice.

    A reference takes two bytes, and packed next to none, so that a small file could list a thing millions of times.
    """
    if len(parts) > MAX_REPEATED:
        places = np.sort(np.fromiter(map(id, parts), np.int64, len(parts)))
        if np.count_nonzero(places[1:] == places[:-1]) > MAX_REPEATED:
            raise ValueError(f"it lists the same {plural} over and over")


def count(parts: Sequence[Row | Run]) -> int:
    """How many entries these are."""
    if Run not in set(map(type, parts)):
        return len(parts)
    return sum(part.count if type(part) is Run else 1 for part in parts)


def dicts(value: Any, what: str) -> list[Row]:
    """The value if it is a list (or tuple) of dicts; raises ValueError naming `what` otherwise."""
    if type(value) not in (list, tuple) or not set(map(type, value)) <= {dict}:
        raise ValueError(f"{what} is not a list of records")
    return list(value)


def column(rows: Sequence[Row], key: str, default: Any = None) -> list[Any]:
    """What each dict has under `key`."""
    try:
        return list(map(itemgetter(key), rows))
    except KeyError:
        return [row.get(key, default) for row in rows]


def whole_numbers(rows: Sequence[Row], key: str, default: int | None, what: str) -> I64:
    """The integer column `key`; None as default means that it must be there. ValueError unless it fits 63 bits."""
    values = column(rows, key, default)
    if not set(map(type, values)) <= {int}:
        raise ValueError(f"{key!r} of {what} is missing or not a whole number")
    try:
        return np.array(values, np.int64)
    except OverflowError:
        raise ValueError(f"{key!r} of {what} is too large") from None


def sizes(rows: Sequence[Row], key: str, default: int | None, what: str) -> I64:
    """`whole_numbers` that may not be negative."""
    return _not_negative(whole_numbers(rows, key, default, what), key, what)


def _not_negative(values: I64, key: str, what: str) -> I64:
    if len(values) and int(values.min()) < 0:
        raise ValueError(f"{key!r} of {what} is negative")
    return values


def pointers(rows: Sequence[Row], key: str, what: str) -> I64:
    """A column of raw 64-bit pointers, 0 where absent; the highest bit becomes the sign."""
    values = column(rows, key, 0)
    if not set(map(type, values)) <= {int}:
        raise ValueError(f"{key!r} of {what} is not a pointer")
    try:
        return np.array(values, np.int64)
    except OverflowError:
        if not all(-_WORD < v < _WORD for v in values):
            raise ValueError(f"{key!r} of {what} is not a pointer") from None
        return np.array([(v + _WORD // 2) % _WORD - _WORD // 2 for v in values], np.int64)


def _text_numbers(values: list[Any], numbers: dict[str, int]) -> Any:
    """The number of each of these values that is a text, -1 for others; new texts get the next numbers."""
    if set(map(type, values)) <= {str}:
        distinct = dict.fromkeys(values)
        for value in distinct:
            numbers.setdefault(value, len(numbers))
        if len(distinct) == 1:
            return numbers[values[0]]
        return list(map(numbers.__getitem__, values))
    return [numbers.setdefault(v, len(numbers)) if type(v) is str else NONE for v in values]


def text(row: Row, key: str, default: str = "") -> str:
    """A text entry; anything else reads as the default."""
    value = row.get(key, default)
    return value if type(value) is str else default


def number(row: Row, key: str, default: int = 0) -> int:
    """A whole-number entry within 63 bits; anything else reads as the default."""
    value = row.get(key, default)
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else default


def settings(value: Any, depth: int = 2) -> dict[str, Any]:
    """A dict of settings, nested once at most, without what JSON has no word for and without endless repetition."""
    if type(value) is not dict:
        return {}
    kept: dict[str, Any] = {}
    for key, entry in islice(value.items(), 256):
        if type(key) is not str:
            continue
        if type(entry) in (str, int, float, bool, type(None)):
            kept[key] = entry
        elif type(entry) is dict and depth > 1:
            kept[key] = settings(entry, depth - 1)
    return kept


def members(rows: Rows, key: str, known: Mapping[str, int], unknown: int, seen: Counter[str]) -> U8:
    """The member that the text under `key` names; `unknown`, counted by name in `seen`, for a name not known."""
    numbers, names = rows.texts(key)
    names.append("(none)")  # where -1 points
    strange = np.array([name not in known for name in names])[numbers]
    if strange.any():
        found, first, counts = np.unique(numbers[strange], return_index=True, return_counts=True)
        for i in np.argsort(first).tolist():  # in the order in which they occur
            seen[names[found[i]]] += int(counts[i])
    return np.array([known.get(name, unknown) for name in names], np.uint8)[numbers]
