"""One window of a pickle with all entries of known layouts read at once, and which of them follow each other."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.plain_values import Run
from memstrata.capture.format.schema import B1, I64, NONE

from . import pickle_errors as errors
from .pickle_bodies import Bodies
from .pickle_columns import Cursor, Texts
from .pickle_layouts import Layout, boundary
from .pickle_machine import Machine
from .pickle_stream import PickleStream

_NEXT_BATCH = 0x2865
"""APPENDS and MARK between two entries: Python writes lists by the thousand."""
_BEHIND = b"}ehj(]tl."
"""What may follow an entry without touching it: another value, or the end of the list."""


_EMPTY_DICT = 0x7D
_PART = 1 << 18
"""Bytes looked through at once."""


class Scratch:
    """Two masks, used again and again: fresh memory costs more than what is done with it."""

    def __init__(self) -> None:
        self._masks = np.empty((2, _PART), np.bool_)

    def pairs(self, data: bytes, at: int, end: int, seconds: list[int]) -> list[I64]:
        """Places of EMPTY_DICT between two bytes of a window, for each instruction that may stand behind it."""
        found: list[list[I64]] = [[] for _ in seconds]
        both = np.frombuffer(data, np.uint8)
        for first in range(at, end, _PART):
            n = min(_PART, end - first)
            dicts, here = self._masks[0, :n], self._masks[1, :n]
            np.equal(both[first : first + n], _EMPTY_DICT, out=dicts)
            for second, places in zip(seconds, found):
                np.equal(both[first + 1 : first + n + 1], second, out=here)
                np.logical_and(dicts, here, out=here)
                places.append(self._places(n) + first)
        return [np.concatenate(places) for places in found]

    def _places(self, n: int) -> I64:
        """Where the second mask of this length holds: most words of 8 places have none."""
        words = self._masks[1, : -(-n // 8) * 8]
        words[n:] = False
        words = words.view(np.uint64)
        found = np.flatnonzero(words != 0)
        inside = np.flatnonzero(words[found].view(np.bool_))
        out: I64 = (found[inside >> 3] << 3) + (inside & 7)
        return out


class Window:
    """Arrays have a row for each place where an entry seems to begin, in order of place."""

    def __init__(
        self, stream: PickleStream, at: int, layouts: list[Layout], bodies: Bodies, texts: Texts, scratch: Scratch
    ) -> None:
        self.data, self.base, self.end = stream.buffer, stream.base, stream.end
        self.lessons = [0, 0]
        self.taken: list[tuple[Run, int, int, int]] = []
        """(run, first row, row behind the last, number of the memo at the first)"""
        openings = list(dict.fromkeys(layout.opening for layout in layouts))
        self.starts, opening = _candidates(self.data, at, self.end, openings, scratch)
        n = len(self.starts)
        self.ok: B1 = np.zeros(n, np.bool_)
        self.layout: NDArray[np.int8] = np.full(n, NONE, np.int8)
        self.ends: I64 = np.zeros(n, np.int64)
        self.memos: I64 = np.zeros(n, np.int64)
        self.list_offset: I64 = np.full(n, NONE, np.int64)
        self.implied: I64 | None = None
        self.columns: dict[str, NDArray[Any]] = {}
        self.references: dict[str, I64] = {}
        self.used: dict[str, I64] = {}
        stops = np.append(self.starts[1:], self.end)
        for number, layout in enumerate(layouts):
            rows = np.flatnonzero((opening == openings.index(layout.opening)) & ~self.ok)
            if len(rows):
                cursor = Cursor(self.data, self.end, self.starts[rows], stops[rows], bodies, texts)
                cursor.read(layout)
                self._merge(number, rows, cursor)
        self._chain(layouts)

    def _merge(self, number: int, rows: I64, cursor: Cursor) -> None:
        """Take over what was read; rows that are not ok hold anything."""
        found = {"ends": cursor.p, "memos": cursor.memos, "list_offset": cursor.list_offset}
        if cursor.implied is not None:
            found["implied"] = cursor.implied
        if len(rows) == len(self.ok) and not self.columns:
            self.ok, self.columns = cursor.ok, cursor.columns
            self.references, self.used = cursor.references, cursor.used
            self.layout[:] = number
            self.__dict__.update(found)
            return
        good = rows[cursor.ok]
        self.ok[good], self.layout[good] = True, number
        if cursor.implied is not None and self.implied is None:
            self.implied = np.full(len(self.ok), NONE, np.int64)
        pairs = [(self.__dict__, found), (self.columns, cursor.columns)]
        for mine, theirs in (*pairs, (self.references, cursor.references), (self.used, cursor.used)):
            for name, values in theirs.items():
                if name not in mine:
                    mine[name] = np.full(len(self.ok), NONE, values.dtype)
                mine[name][good] = values[cursor.ok]
        for mine, theirs in ((self.columns, cursor.columns), (self.references, cursor.references)):
            for name in mine.keys() - theirs.keys():
                mine[name][good] = NONE

    def _chain(self, layouts: list[Layout]) -> None:
        """Find after which rows a stretch ends."""
        n = len(self.ok)
        self.before: I64 = np.cumsum(self.memos) - self.memos
        self._breaks = self._batches = np.empty(0, np.int64)
        if n == 0:
            return
        shapes = np.array([*(layout.shape for layout in layouts), NONE])
        follows = self.starts[1:] - self.ends[:-1]
        pair = np.frombuffer(self.data, np.uint8)
        e = np.minimum(self.ends[:-1], len(pair) - 2)
        batch = (follows == 2) & (pair[e] == 0x65) & (pair[e + 1] == 0x28)
        goes_on = self.ok[:-1] & self.ok[1:] & ((follows == 0) | batch)
        goes_on &= shapes[self.layout[:-1]] == shapes[self.layout[1:]]
        if self.implied is not None:
            goes_on &= (self.implied[1:] == self.implied[:-1] + self.memos[:-1]) & (self.implied[:-1] != NONE)
        self._breaks = np.append(np.flatnonzero(~goes_on), n - 1)
        self._batches = np.flatnonzero(batch & goes_on)

    def seen(self, at: int) -> bool:
        """Whether an entry seems to begin at this byte."""
        row = int(self.starts.searchsorted(at))
        return row < len(self.starts) and bool(self.starts[row] == at)

    def has_dicts(self, at: int) -> bool:
        """Whether there are dicts inside of the entry that begins at this byte: frames that occur for the first time.

        Such an entry is not read together with others, whatever is learned from it.
        """
        row = int(self.starts.searchsorted(at))
        end = int(self.starts[row + 1]) if row + 1 < len(self.starts) else self.end
        return self.data.find(self.data[at : at + 2], at + 1, end) >= 0

    def row(self, at: int) -> int:
        """The row of the entry that begins at this byte, if it was read; else -1."""
        row = int(self.starts.searchsorted(at))
        return row if row < len(self.starts) and self.starts[row] == at and self.ok[row] else NONE

    def take(self, machine: Machine, row: int) -> int:
        """Put the stretch that begins with this row on the machine's stack; returns the byte behind it."""
        first_row, number = row, len(machine.memo) + machine.hidden
        if self.implied is not None and self.implied[row] not in (NONE, number):
            return int(self.starts[row])
        stop = int(self._breaks[self._breaks.searchsorted(row)]) + 1
        if self.data[self.ends[stop - 1]] not in _BEHIND:
            stop -= 1  # something is done with the last one itself
            if stop == row:
                return int(self.starts[row])
        first, last = self._batches.searchsorted((row, stop - 1)).tolist()
        container = machine.stack[machine.marks[-1] - 1]
        if first < last and type(container) is not list:
            stop, last = int(self._batches[first]) + 1, first
        if first < last:
            split = int(self._batches[last - 1]) + 1
            self._push(machine, row, split, number)
            container += machine.stack[machine.marks[-1] :]
            del machine.stack[machine.marks[-1] :]
            row, number = split, number + int(self.before[split] - self.before[row])
        self._push(machine, row, stop, number)
        machine.hidden += int(self.before[stop - 1] + self.memos[stop - 1] - self.before[first_row])
        end = int(self.ends[stop - 1])
        self._check_cuts(machine.stream, end)
        machine.skip(int(self.starts[first_row]), end)
        return end

    def entry(self, number: int) -> tuple[bytes, int] | None:
        """(its bytes, its first number of the memo), of the taken entry that put something there under this number."""
        at = bisect.bisect_right(self.taken, number, key=lambda span: span[3]) - 1
        if at < 0:
            return None
        _, first, stop, begin = self.taken[at]
        begin -= int(self.before[first])
        row = first + int(self.before[first:stop].searchsorted(number - begin, "right")) - 1
        begin += int(self.before[row])
        return (self.data[self.starts[row] : self.ends[row]], begin) if number < begin + self.memos[row] else None

    def _push(self, machine: Machine, row: int, stop: int, number: int) -> None:
        run = Run(stop - row)
        machine.stack.append(run)
        self.taken.append((run, row, stop, number))

    def _check_cuts(self, stream: PickleStream, end: int) -> None:
        """Frames end between instructions."""
        cuts = []
        while stream.cuts and stream.cuts[0] < self.base + end:
            cuts.append(stream.cuts.popleft() - self.base)
        for cut, row in zip(cuts, (self.starts.searchsorted(cuts, "right") - 1).tolist() if cuts else ()):
            if row < 0 or not boundary(self.data, int(self.starts[row]), cut):
                raise errors.damaged(stream.file_offset(self.base + cut), "a frame ends inside an entry")


_GAPS = {0x28: ((0x28, 1),), 0x94: ((0x94, 2),), 0x71: ((0x71, 3), (0x72, 6))}
"""By the instruction behind EMPTY_DICT: which ones may stand there, and how far from the dict MARK then is."""


def _candidates(
    data: bytes, at: int, end: int, openings: list[tuple[int, bytes]], scratch: Scratch
) -> tuple[I64, NDArray[np.int8]]:
    """(where entries seem to begin, which of the openings each has), in order of place."""
    found: list[I64] = []
    which: list[NDArray[np.int8]] = []
    if openings and end > at:
        words: NDArray[np.uint64] = np.ndarray((len(data) - 8,), "<u8", data, 0, (1,))
        gaps = sorted({pair for op, _ in openings for pair in _GAPS[op]})
        for (second, gap), places in zip(gaps, scratch.pairs(data, at, end, [second for second, _ in gaps])):
            here = words[places + gap]
            for number, (op, key) in enumerate(openings):
                begins = _begins(here, b"(" + key) if (second, gap) in _GAPS[op] else np.zeros(0, np.bool_)
                if begins.any():
                    found.append(places[begins])
                    which.append(np.full(len(found[-1]), number, np.int8))
    if len(found) < 2:
        return (found[0], which[0]) if found else (np.empty(0, np.int64), np.empty(0, np.int8))
    places = np.concatenate(found)
    order = np.argsort(places, kind="stable")
    return places[order], np.concatenate(which)[order]


def _begins(words: NDArray[np.uint64], with_bytes: bytes) -> B1:
    mask = np.uint64((1 << 8 * len(with_bytes)) - 1)
    return (words & mask) == np.uint64(int.from_bytes(with_bytes, "little"))
