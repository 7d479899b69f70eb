"""Lists of references in a small pickle, made once each: most stacks occur often, as equal bytes.

Where such a list comes again, a number takes its place, with BINPERSID, which asks the unpickler what that is. Then
much less is to be unpickled, and equal stacks are one list. The first time the list is appended to those that can be
asked for, which number 0 stands for, and then asked for itself.

Numbers are written as LONG4, and a file that has such bytes anywhere is left as it is. So the unpickler is asked only
by what was put there; and if it was asked as often, nothing of it stands inside of a text or a number: each was an
instruction of the file, and so all of its other ones are too. `whole` says so, and that no list was appended to later,
of which the file wanted two.
"""

from __future__ import annotations

import functools
import re
from typing import Any

LARGE = 384 << 10
"""Bytes from which on lists come again in any file that has many of them."""
_LOOK = 8 << 10
_SHARE = 5
"""A fifth of a large file must be lists."""
_LONG = b"\x8b\4\0\0\0"
"""LONG4, with the length that a number has."""
_HAS_NUMBER = re.compile(re.escape(_LONG)).search
_ALL = _LONG + bytes(4) + b"Q"
"""Asks for the list of lists."""
_KEEP = b"a0"
"""Appends a list to it, and takes it away again."""
_J, _H = rb"j...\0", rb"h."
REFERENCES = b"(?=[hj])(?:(?:" + 4 * _J + b")*+(?:" + _J + b")*+(?:" + 4 * _H + b")*+(?:" + _H + b")*+)++"
"""The numbers are below 2**24, as all are in a small file. So none holds the beginning of a list with references behind
it: such lists would overlap, which takes quadratic time, and one that no instruction makes could stand for another."""
_BEGIN = b"]\x94("
_ROW = REFERENCES + b"e"
_STACK = re.escape(_BEGIN) + _ROW
_ASKS = rb"(?:....Q\x94|\0{4}Q" + _STACK + _KEEP + re.escape(_LONG) + b"....Q)"
ABRIDGED = re.escape(_LONG) + _ASKS
"""A pattern of what takes the place of a list: the first time, and again."""
_LIST = re.compile(_STACK, re.DOTALL)
_row_in = re.compile(_ROW, re.DOTALL).match
_HEADS = (60, 30)
"""Bytes by which a list is looked up where most are long, and where they are short: most that begin alike are equal."""
_EACH = 16
"""Bytes of a file for each list in it, at least, beyond `_FREE`; an event has many more."""
_FREE = 4 << 10


class Abridged:
    """The bodies of the frames of a pickle, shortened."""

    def __init__(self, bodies: list[bytes]) -> None:
        self.bodies = bodies
        self._rows, self._asking, self._after = [_BEGIN], [b""], [0]
        """Of each list so far, from number 1 on: its references with their end; the instructions that ask for it; and
        which list came behind it the last time, as programs do things in the same order again and again. No part of a
        body begins like number 0."""
        self._known: dict[bytes, int] = {}
        """Their numbers, by their references."""
        self._heads: dict[bytes, int] = {}
        """The last list that began so."""
        self.asks = 0
        """How often the unpickler is to ask."""
        self._lists: list[Any] = []
        self._lengths: list[int] = []
        self.answer = functools.lru_cache(None)(functools.partial(_answer, self._lists, self._lengths))
        """What the unpickler asks: it counts, and is as quick as what Python is made of."""
        seen = sample(bodies)
        if not seen or any(map(_HAS_NUMBER, bodies)):
            return
        self._head = _HEADS[sum(map(len, seen)) < len(seen) * _HEADS[0]]
        self._last = 0
        parts = [body.split(_BEGIN) for body in bodies]
        if sum(map(len, parts)) * _EACH < sum(map(len, bodies)) + _FREE:
            self.bodies = list(map(self._shortened, parts))

    def _shortened(self, parts: list[bytes]) -> bytes:
        """What is left of a body; each part of it but the first is what stands behind the beginning of a list."""
        heads, head, rows, asking, after, last = (
            self._heads, self._head, self._rows, self._asking, self._after, self._last
        )  # fmt: skip
        for i in range(1, len(parts)):
            part = parts[i]
            number = after[last]
            if not part.startswith(rows[number]):
                number = heads.get(part[:head], 0)
                if not part.startswith(rows[number]):
                    number = self._looked_at(part)
                    if not number:
                        parts[i] = _BEGIN + part
                        continue
                after[last] = number
            ask = asking[number] if number < len(asking) else self._first(number)
            parts[i] = ask + part[len(rows[number]) :]
            self.asks += 1
            last = number
        self._last = last
        return b"".join(parts)

    def _looked_at(self, part: bytes) -> int:
        """The number of the list that a part is the rest of, which may be a new one; 0 if it is not that of a list."""
        matched = _row_in(part)
        if matched is None:
            return 0
        row = matched.group()
        number = self._known.setdefault(row, len(self._rows))
        if number == len(self._rows):
            self._rows.append(row)
            self._after.append(number)
        else:
            self._heads[part[: self._head]] = number
        return number

    def _first(self, number: int) -> bytes:
        """What takes the place of a list the first time."""
        ask = _LONG + number.to_bytes(4, "little") + b"Q"
        self._asking.append(ask + b"\x94")
        self.asks += 1
        return _ALL + _BEGIN + self._rows[number] + _KEEP + ask

    @property
    def whole(self) -> bool:
        """Whether what was unpickled is what the file says."""
        asked = self.answer.cache_info()
        return asked.hits + asked.misses == self.asks and list(map(len, self._lists)) == self._lengths


def _answer(lists: list[Any], lengths: list[int], number: int) -> Any:
    """The last list, which has this number, counted from 1; for 0 the list of them. Notes how long it is."""
    if number == 0:
        return lists
    if number != len(lists):
        raise ValueError("lists are not in order")
    lengths.append(len(lists[-1]))
    return lists[-1]


def sample(bodies: list[bytes]) -> list[bytes]:
    """Some lists from the middle; none if this would cost more than it saves, as it looks there."""
    middle = bodies[len(bodies) // 2] if bodies else b""
    half = len(middle) // 2
    seen = _LIST.findall(middle, half, half + _LOOK)
    if sum(map(len, bodies)) >= LARGE:
        pays = sum(map(len, seen)) * _SHARE > min(half, _LOOK)
    else:
        pays = len(seen) > 2 * len(set(seen))
    return seen if pays else []
