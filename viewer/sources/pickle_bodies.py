"""Lists of references, by their bytes: equal stacks are equal bytes, so each is looked into once.

Most lists of a window are among some hundred that came before. Three words of a list pick the one it should be, and
all of its words are compared with that one's, for all lists of the window at once; only what is not equal is cut out
of the window and looked up as bytes.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.schema import B1, I32, I64, NONE

from .pickle_machine import reference_numbers

U64 = NDArray[np.uint64]
BODY = re.compile(rb"(?:\((?:h.|j.{4})*+e|(?:h.|j.{4})a)", re.DOTALL)
_ROW = re.compile(rb"(?:h.|j.{4})*+", re.DOTALL)
_WIDTHS = (256, 2048)
"""Bytes of the lists that are compared as rows of words; longer ones are cut out."""
_KEPT = 4096
"""Most lists of each width that are kept as words."""
_AT_ONCE = 2048
"""Bodies compared at once: their words stay in the processor's cache."""
_UNKNOWN = NONE - 1
_SLOT_BITS = 14
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)
_ALL = np.uint64(0x0101010101010101)


class Bodies(dict[bytes, int]):
    """Numbers of the distinct inner parts of lists of references; -1 for what is none."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[list[int]] = []
        self._kept = [_Kept(low, high) for low, high in zip((8, *(width + 1 for width in _WIDTHS)), _WIDTHS)]

    def __missing__(self, body: bytes) -> int:
        row = body[1:-1] if body[:1] == b"(" and body[-1:] == b"e" else body[:-1] if body[-1:] == b"a" else body
        fits = _ROW.fullmatch(row) is not None and (row != body or not body)
        numbers = reference_numbers(row) if fits else []
        if not fits or (body[-1:] == b"a" and len(numbers) != 1):
            self[body] = NONE
            return NONE
        self.references.append(numbers)
        self[body] = len(self.references) - 1
        return self[body]

    def numbers(self, data: bytes, begins: I64, ends: I64) -> I32:
        """The numbers of the bodies between these bytes of a window that has `SLACK` behind its end."""
        out = np.full(len(begins), _UNKNOWN, np.int32)
        lengths, before = ends - begins, len(self.references)
        found = []
        for kept in self._kept:
            rows = np.flatnonzero((lengths >= kept.low) & (lengths <= kept.width))
            if len(rows):
                prints = kept.prints(data, begins[rows], lengths[rows])
                out[rows] = kept.numbers(data, begins[rows], lengths[rows], prints)
                found.append((kept, rows, prints))
        new = out == _UNKNOWN
        if new.any():
            cut = [self[data[s:e]] for s, e in zip(begins[new].tolist(), ends[new].tolist())]
            out[new] = np.array(cut, np.int32)
            for kept, rows, prints in found:
                some = new[rows]
                kept.keep(data, begins[rows][some], lengths[rows][some], out[rows][some], prints[some], before)
        return out


class _Kept:
    """Bodies of some lengths as rows of words, and where to find the one that has a print."""

    def __init__(self, low: int, width: int) -> None:
        self.low, self.width = low, width
        self._words: U64 = np.empty((0, width // 8), np.uint64)
        self._behind: B1 = np.empty((0, width // 8), np.bool_)
        """Which words are, at least in part, behind the end of the body."""
        self._numbers: I32 = np.empty(0, np.int32)
        self._last: U64 = np.empty(0, np.uint64)
        self._lengths: I64 = np.empty(0, np.int64)
        self._row_of: dict[int, int] = {}
        self._prints: U64 = np.zeros(1 << _SLOT_BITS, np.uint64)
        self._slots: I32 = np.zeros(1 << _SLOT_BITS, np.int32)

    def prints(self, data: bytes, begins: I64, lengths: I64) -> U64:
        """A number for each body that differs for most that differ; never 0."""
        words: U64 = np.ndarray((len(data) - 8,), "<u8", data, 0, (1,))
        out = lengths.astype(np.uint64)
        for factor, at in zip(_FACTORS, (begins + 1, begins + (lengths >> 1) - 4, begins + lengths - 8)):
            out *= factor
            out ^= words[at]
        out ^= out >> np.uint64(31)
        out *= _FACTORS[3]
        out |= np.uint64(1)
        return out

    def numbers(self, data: bytes, begins: I64, lengths: I64, prints: U64) -> I32:
        """The number of each body that is known, and equal to it in every byte; -2 for the others."""
        out = np.full(len(begins), _UNKNOWN, np.int32)
        slots = prints >> np.uint64(64 - _SLOT_BITS)
        some = np.flatnonzero(self._prints[slots] == prints)
        words: U64 = np.ndarray((len(data) - 8,), "<u8", data, 0, (1,))
        for first in range(0, len(some), _AT_ONCE):
            part = some[first : first + _AT_ONCE]
            rows, at = self._slots[slots[part]], begins[part]
            equal = self._rows(data, at) == self._words[rows]
            equal |= self._behind[rows]
            good = (equal.view(np.uint64) == _ALL).all(axis=1)
            good &= lengths[part] == self._lengths[rows]
            good &= words[at + self._lengths[rows] - 8] == self._last[rows]
            out[part[good]] = self._numbers[rows[good]]
        return out

    def _rows(self, data: bytes, begins: I64) -> U64:
        pieces: NDArray[Any] = np.ndarray((len(data) - self.width,), f"V{self.width}", data, 0, (1,))
        return pieces[begins].view("<u8").reshape(len(begins), -1)

    def keep(self, data: bytes, begins: I64, lengths: I64, numbers: I32, prints: U64, before: int) -> None:
        """Know from now on those of these bodies that come again; numbers below `before` have come already."""
        distinct, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        again = (distinct >= 0) & ((counts > 1) | (distinct < before))
        for i in first[again].tolist():
            row = self._row_of.get(int(numbers[i]))
            if row is None:
                row = self._add(data, int(begins[i]), int(lengths[i]), int(numbers[i]))
            if row >= 0:
                slot = int(prints[i]) >> 64 - _SLOT_BITS
                self._prints[slot], self._slots[slot] = prints[i], row

    def _add(self, data: bytes, begin: int, length: int, number: int) -> int:
        row = len(self._row_of)
        if row == _KEPT:
            return NONE
        if row == len(self._words):
            self._grow(max(64, 2 * row))
        self._words[row] = np.frombuffer(data, "<u8", self.width // 8, begin)
        self._behind[row] = np.arange(self.width // 8) >= length // 8
        self._numbers[row], self._lengths[row] = number, length
        self._last[row] = int.from_bytes(data[begin + length - 8 : begin + length], "little")
        self._row_of[number] = row
        return row

    def _grow(self, rows: int) -> None:
        for name in ("_words", "_behind", "_numbers", "_last", "_lengths"):
            old = getattr(self, name)
            new = np.zeros((rows, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
