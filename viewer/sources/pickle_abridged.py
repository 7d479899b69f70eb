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
from collections import Counter
from itertools import chain
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
_STACK = rb"\]\x94\(" + REFERENCES + b"e"
_ASKS = rb"(?:....Q\x94|\0{4}Q" + _STACK + _KEEP + re.escape(_LONG) + b"....Q)"
ABRIDGED = re.escape(_LONG) + _ASKS
"""A pattern of what takes the place of a list: the first time, and again."""
_LIST = re.compile(b"(" + _STACK + b")", re.DOTALL)


class Abridged:
    """The bodies of the frames of a pickle, shortened."""

    def __init__(self, bodies: list[bytes]) -> None:
        self.bodies = bodies
        self._asking: dict[bytes, bytes] = {}
        """The instructions that ask for it by its number, for each list that is repeated."""
        self.asks = 0
        """How often the unpickler is to ask."""
        self._lists: list[Any] = []
        self._lengths: list[int] = []
        self.answer = functools.lru_cache(None)(functools.partial(_answer, self._lists, self._lengths))
        """What the unpickler asks: it counts, and is as quick as what Python is made of."""
        if not pays(bodies) or any(map(_HAS_NUMBER, bodies)):
            return
        parts = list(map(_LIST.split, bodies))
        counts = Counter(chain.from_iterable(part[1::2] for part in parts))
        often = {row for row, count in counts.items() if count > 1}
        if often:
            self.bodies = [self._shortened(part, often) for part in parts]
            self.asks = len(often) + sum(map(counts.__getitem__, often))

    def _shortened(self, parts: list[bytes], often: set[bytes]) -> bytes:
        """`parts` are, by turns, what is between the lists and the lists."""
        asking = self._asking
        for i in range(1, len(parts), 2):
            row = parts[i]
            if row in asking:
                parts[i] = asking[row]
            elif row in often:
                ask = _LONG + (len(asking) + 1).to_bytes(4, "little") + b"Q"
                asking[row] = ask + b"\x94"
                parts[i] = _ALL + row + _KEEP + ask
        return b"".join(parts)

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


def pays(bodies: list[bytes]) -> bool:
    """Whether this saves more than it costs, as it looks in the middle."""
    middle = bodies[len(bodies) // 2] if bodies else b""
    half = len(middle) // 2
    seen = _LIST.findall(middle, half, half + _LOOK)
    if sum(map(len, bodies)) >= LARGE:
        return sum(map(len, seen)) * _SHARE > min(half, _LOOK)
    return len(seen) > 2 * len(set(seen))
