"""Reads many equal entries of a pickle at once: all advance together, instruction by instruction, in numpy.

Exact by construction: an entry counts as read only if every byte from its first to its last was accounted for by the
instructions of its layout. Everything else is marked as odd, and the machine runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.schema import B1, I32, I64, NONE

from .pickle_bodies import BODY, Bodies
from .pickle_layouts import MEMO_LENGTHS, REFERENCE_LENGTHS, TUPLES, Field, Layout

Rows = Any
"""Which entries: their numbers, or `ALL`."""
ALL = slice(None)
_LOW = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
_LONGEST = 1 << 16


class Texts(dict[bytes, int]):
    """Numbers of the distinct texts, by their bytes; `by_number` has the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.by_number: list[Any] = []

    def __missing__(self, data: bytes) -> int:
        number = self.add(data.decode("utf-8", "surrogatepass"))
        self[data] = number
        return number

    def add(self, value: Any) -> int:
        """The number of one more value."""
        self.by_number.append(value)
        return len(self.by_number) - 1


class Behind:
    """The bytes from the cursors on, as far as a word reaches that was read some bytes before."""

    def __init__(self, words: NDArray[np.uint64], read: int) -> None:
        self._words, self._read = words, read
        self.ops: NDArray[np.uint8] = words.view(np.uint8)[read::8]

    def number(self, rows: Rows, size: int) -> NDArray[np.uint64] | None:
        """The number in so many bytes behind the instruction; None if the word does not reach."""
        if self._read + 1 + size > 8:
            return None
        return (self._words[rows] >> np.uint64(8 * (self._read + 1))) & _LOW[size]


class Cursor:
    """Entries of one layout, at byte `p` of the window each. `ok` says which were read without a surprise."""

    def __init__(self, data: bytes, end: int, starts: I64, stops: I64, bodies: Bodies, texts: Texts) -> None:
        self.data, self.end, self.stops, self.bodies, self.texts = data, end, stops, bodies, texts
        self.bytes: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self.words: NDArray[np.uint64] = np.ndarray((len(data) - 8,), "<u8", data, 0, (1,))
        self.p = starts.copy()
        self.ok: B1 = np.ones(len(starts), np.bool_)
        self.memos: I64 = np.zeros(len(starts), np.int64)
        """How many numbers of the memo each has used up."""
        self.implied: I64 | None = None
        """The first number of the memo of each, where they name their numbers; -1 where one names none."""
        self.columns: dict[str, NDArray[Any]] = {}
        self.references: dict[str, I64] = {}
        """By name, numbers of the memo that stand for a value; -1 where the value itself is there."""
        self.used: dict[str, I64] = {}
        """By name, how many numbers of the memo were used up in front of the reference."""
        self.list_offset: I64 = np.full(len(starts), NONE, np.int64)
        """Which of its numbers of the memo is that of its new list of frames."""

    def read(self, layout: Layout) -> None:
        """Read all entries, which are known to begin as the layout does (EMPTY_DICT, MARK and the first key).

        Afterwards `p` is behind the end of each that is ok.
        """
        self._advance(ALL, 1)
        if not layout.late_dict and layout.early != 0x28:
            self._memo()
        self._advance(ALL, 1)
        for number, field in enumerate(layout.fields):
            behind = self._key(field.key)
            self._value(field, layout, behind, last=number == len(layout.fields) - 1)
        self._step(0x75)
        if layout.late_dict:
            self._memo()
        self.ok &= self.p <= self.end

    def _step(self, op: int) -> None:
        self.ok &= self.bytes[self.p] == op
        self._advance(ALL, 1)

    def _key(self, key: bytes) -> Behind:
        """Check and pass a key; returns the bytes that stand behind it."""
        words = self.words[self.p]
        self.ok &= (words & _LOW[len(key)]) == np.uint64(int.from_bytes(key, "little"))
        self._advance(ALL, len(key))
        return Behind(words, len(key))

    def _here(self) -> Behind:
        return Behind(self.words[self.p], 0)

    def _advance(self, rows: Rows, by: Any) -> None:
        """Go on; the window has room behind it for all that an entry of fixed size can take (`SLACK`)."""
        if rows is ALL:
            self.p += by
        else:
            self.p[rows] += by

    def _stay(self) -> None:
        """Behind a value of any size: whoever left the window is out."""
        if len(self.p) and int(self.p.max()) > self.end:
            self.ok &= self.p <= self.end
            np.minimum(self.p, self.end, out=self.p)

    def _groups(self, ops: NDArray[Any], rows: Rows = ALL) -> Iterator[tuple[int, Rows]]:
        """(value, the rows that have it)."""
        if not len(ops):
            return
        first = ops[0]
        if (ops == first).all():
            yield int(first), rows
            return
        for value in np.flatnonzero(np.bincount(ops, minlength=256)).tolist():
            found = np.flatnonzero(ops == value)
            yield value, found if rows is ALL else rows[found]

    def _value(self, field: Field, layout: Layout, behind: Behind, last: bool) -> None:
        if field.kind in ("text", "frames"):
            self.used[field.name] = self.memos.copy()
        if field.kind == "integer":
            self.columns[field.name] = self._integers(behind)
        elif field.kind == "text":
            self.columns[field.name], self.references[field.name] = self._texts(behind)
        elif field.kind == "frames":
            self._frames(layout, behind, last)
        else:
            for step in field.steps:
                self._other(step)

    def _number(self, behind: Behind, rows: Rows, size: int) -> NDArray[np.uint64]:
        """The number in so many bytes behind the instruction."""
        found = behind.number(rows, size)
        return self.words[self.p[rows] + 1] & _LOW[size] if found is None else found

    def _integers(self, behind: Behind) -> I64:
        out: I64 | None = None
        for op, rows in self._groups(behind.ops):
            size = {0x4B: 1, 0x4D: 2, 0x4A: 4}.get(op, 0)
            if out is None:
                out = np.empty(len(self.p), np.int64) if rows is ALL else np.zeros(len(self.p), np.int64)
            if op == 0x8A:
                self._longs(behind, out, rows)
                continue
            if not size:
                self.ok[rows], out[rows] = False, 0
                continue
            values = self._number(behind, rows, size)
            out[rows] = values.astype(np.uint32).view(np.int32) if size == 4 else values
            self._advance(rows, 1 + size)
        return np.zeros(len(self.p), np.int64) if out is None else out

    def _longs(self, behind: Behind, out: I64, rows: Rows) -> None:
        for n, some in self._groups(self._number(behind, rows, 1).astype(np.uint8), rows):
            if not 1 <= n <= 8:
                self.ok[some], out[some] = False, 0
                continue
            shift = 64 - 8 * n
            out[some] = (self.words[self.p[some] + 2] << np.uint64(shift)).view(np.int64) >> shift
            self._advance(some, 2 + n)

    def _texts(self, behind: Behind) -> tuple[I32, I64]:
        """(numbers of the texts that stand here, numbers of the memo of those that do not)."""
        first = int(behind.ops[0]) if len(behind.ops) else 0
        if first in REFERENCE_LENGTHS and (behind.ops == first).all():
            found = self._number(behind, ALL, REFERENCE_LENGTHS[first] - 1).astype(np.int64)
            self._advance(ALL, REFERENCE_LENGTHS[first])
            return np.full(len(self.p), NONE, np.int32), found
        numbers, references = self._nothing()
        inline = False
        for op, rows in self._groups(behind.ops):
            if op in REFERENCE_LENGTHS:
                length = REFERENCE_LENGTHS[op]
                references[rows] = self._number(behind, rows, length - 1)
            elif op in (0x8C, 0x58):
                numbers[rows], length = self._inline(self.p[rows] + 1, 1 if op == 0x8C else 4)
                inline = True
            elif op == 0x4E:
                length = 1
            else:
                self.ok[rows], length = False, 0
            self._advance(rows, length)
        if inline:
            self.ok &= numbers >= NONE
            self._stay()
            self._memo()
        return numbers, references

    def _nothing(self) -> tuple[I32, I64]:
        return np.full(len(self.p), NONE, np.int32), np.full(len(self.p), NONE, np.int64)

    def _inline(self, at: I64, width: int) -> tuple[Any, Any]:
        """(numbers of the texts whose length is at these bytes, how many bytes each takes with instruction)."""
        words = self.words[at]
        lengths = (words & _LOW[width]).astype(np.int64)
        if int(lengths.max()) > 8 - width:
            ends = np.minimum(at + width + lengths, self.end)
            return [self._text(s, e) for s, e in zip((at + width).tolist(), ends.tolist())], lengths + 1 + width
        kept = words & _LOW[np.minimum(lengths + width, 8)]
        if (kept == kept[0]).all():
            one = int(lengths[0])
            return self._text(int(at[0]) + width, int(at[0]) + width + one), one + 1 + width
        _, first, inverse = np.unique(kept, return_index=True, return_inverse=True)
        begins, sizes = (at[first] + width).tolist(), lengths[first].tolist()
        numbers = np.array([self._text(s, s + n) for s, n in zip(begins, sizes)], np.int32)
        return numbers[inverse], lengths + 1 + width

    def _text(self, start: int, end: int) -> int:
        """The number of a text; -2 if the machine had better look at it."""
        try:
            return self.texts[self.data[start:end]] if end - start <= _LONGEST else NONE - 1
        except UnicodeDecodeError:
            return NONE - 1

    def _frames(self, layout: Layout, behind: Behind, last: bool) -> None:
        numbers, references = self._nothing()
        for op, rows in self._groups(behind.ops):
            if op in REFERENCE_LENGTHS:
                length = REFERENCE_LENGTHS[op]
                references[rows] = self._number(behind, rows, length - 1)
                self._advance(rows, length)
            elif op == 0x5D:
                self._advance(rows, 1)
                numbers[rows] = self._lists(rows, layout, last)
            elif op == 0x4E:
                self._advance(rows, 1)
            else:
                self.ok[rows] = False
        self.columns["frames"], self.references["frames"] = numbers, references

    def _lists(self, rows: Rows, layout: Layout, last: bool) -> I32:
        """Numbers of the new lists of these entries, whose cursors stand behind EMPTY_LIST."""
        if not layout.late_list:
            self._memo(rows, is_list=True)
        begins = self.p[rows]
        ends = self._list_ends(begins, self.stops[rows], layout) if last else begins
        data, bodies = self.data, self.bodies
        numbers = bodies.numbers(data, begins, ends)
        numbers[begins == ends] = NONE
        for i in np.flatnonzero(numbers < 0).tolist():
            begin = int(begins[i])
            matched = BODY.match(data, begin, self.end)
            if matched is not None:
                numbers[i], ends[i] = bodies[matched.group()], matched.end()
            elif data[begin] != 0x28:
                numbers[i], ends[i] = bodies[b""], begin
        self.ok[rows] &= numbers >= 0
        self.p[rows] = ends
        if layout.late_list:
            self._memo(rows, is_list=True)
        return numbers

    def _list_ends(self, begins: I64, stops: I64, layout: Layout) -> I64:
        """Where lists that stand last in their entry end, judged from where the next entry begins."""
        b = self.bytes
        e = np.minimum(stops, begins + _LONGEST)
        np.maximum(e, begins, out=e)
        e -= 2 * ((b[e - 1] == 0x28) & (b[e - 2] == 0x65))
        if layout.late_dict:
            e = self._before_memo(e)
        e -= 1
        if layout.late_list:
            e = self._before_memo(e)
        return np.maximum(e, begins)

    def _before_memo(self, e: I64) -> I64:
        wide, narrow, plain = self.bytes[e - 5] == 0x72, self.bytes[e - 2] == 0x71, self.bytes[e - 1] == 0x94
        return e - np.where(wide, 5, np.where(narrow, 2, np.where(plain, 1, 0)))

    def _other(self, step: int) -> None:
        """One instruction of a value that nobody asks for."""
        if step in TUPLES:
            self._step(step)
            self._memo()
        elif step in b"hj\x8cXN":
            used = self.memos.copy()
            _, references = self._texts(self._here())
            last, before = self.references.get(""), self.used.get("")
            if last is not None and before is not None:  # keep whichever is closer to what it may not refer to
                references = np.maximum(references, np.where(last < 0, NONE, last + (used - before)))
            self.references[""], self.used[""] = references, used
        elif step in b"KMJ\x8a":
            self._integers(self._here())
        else:
            ops = self.bytes[self.p]
            flag = (ops == 0x88) | (ops == 0x89)
            self.ok &= flag | (ops == 0x47)
            self._advance(ALL, np.where(flag, 1, 9))

    def _memo(self, rows: Rows = ALL, is_list: bool = False) -> None:
        """Where an instruction that notes the value follows, it uses up a number of the memo."""
        for op, some in self._groups(self.bytes[self.p[rows]], rows):
            length = MEMO_LENGTHS.get(op)
            if length is None:
                continue
            if is_list:
                self.list_offset[some] = self.memos[some]
            if length > 1:
                self._named(some, self.words[self.p[some] + 1] & _LOW[length - 1])
            if some is ALL:
                self.memos += 1
            else:
                self.memos[some] += 1
            self._advance(some, length)

    def _named(self, rows: Rows, numbers: NDArray[np.uint64]) -> None:
        """These entries name the number they use: it must be the next one."""
        if self.implied is None:
            self.implied = np.full(len(self.p), NONE, np.int64)
        first = numbers.astype(np.int64) - self.memos[rows]
        before = self.implied[rows]
        self.ok[rows] &= (before == NONE) | (before == first)
        self.implied[rows] = first
