"""Lists of references in a small pickle, made once each: most stacks occur often, as equal bytes.

Where such a list comes again, a number takes its place, with BINPERSID, which asks the unpickler what that is; so does
the list itself the first time, with its number. Then much less is to be unpickled, and equal stacks are one list. The
number is written as LONG4, and a file that has such bytes anywhere is left as it is. So the unpickler is asked only by
what was put there; and if it was asked as often, nothing of it stands inside of a text or a number: each was an
instruction of the file, and so all of its other ones are too. `whole` says so, and that no list was appended to later,
of which the file wanted two.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from typing import Any

_LONG = b"\x8b\4\0\0\0"
"""LONG4, with the length that a number has."""
_NUMBER = re.escape(_LONG) + rb"...."
_REFERENCES = rb"(?:j...\0j...\0j...\0j...\0|h.h.h.h.|j...\0|h.)++"
"""The numbers are below 2**24, as all are in a small file. So none holds the beginning of a list with references behind
it: such lists would overlap, which takes quadratic time, and one that no instruction makes could stand for another."""
STACK = rb"\]\x94\(" + _REFERENCES + b"e(?:" + _NUMBER + rb"\x86Q)?+"
"""A pattern of a list of references, with its number or without."""
REPEATED = _NUMBER + rb"Q\x94"
"""A pattern of what takes the place of one."""
_LIST = re.compile(rb"(\]\x94\(" + _REFERENCES + b"e)", re.DOTALL)


class Abridged:
    """The bodies of the frames of a pickle, shortened."""

    def __init__(self, bodies: list[bytes]) -> None:
        self.bodies = bodies
        self._numbers: dict[bytes, bytes] = {}
        """The instructions that ask for it by its number, for each list that is repeated."""
        self._asks = self._asked = 0
        self._lists: list[Any] = []
        self._lengths: list[int] = []
        if any(_LONG in body for body in bodies):
            return
        parts = list(map(_LIST.split, bodies))
        counts = Counter(chain.from_iterable(part[1::2] for part in parts))
        often = {row for row, count in counts.items() if count > 1}
        if often:
            self.bodies = [self._shortened(part, often) for part in parts]
            self._asks = sum(map(counts.__getitem__, often))

    def _shortened(self, parts: list[bytes], often: set[bytes]) -> bytes:
        """`parts` are, by turns, what is between the lists and the lists."""
        out, numbers = [parts[0]], self._numbers
        for row, behind in zip(parts[1::2], parts[2::2]):
            asking = numbers.get(row)
            if asking is not None:
                out += (asking, behind)
            elif row in often:
                number = _LONG + len(numbers).to_bytes(4, "little")
                numbers[row] = number + b"Q\x94"
                out += (row, number, b"\x86Q", behind)
            else:
                out += (row, behind)
        return b"".join(out)

    def list_of(self, asked: Any) -> Any:
        """The list that has a number; or the one that is given with its number, which it has from now on."""
        self._asked += 1
        if type(asked) is int:
            return self._lists[asked]
        made, number = asked
        if number != len(self._lists):
            raise ValueError("lists are not in order")
        self._lists.append(made)
        self._lengths.append(len(made))
        return made

    @property
    def whole(self) -> bool:
        """Whether what was unpickled is what the file says."""
        return self._asked == self._asks and list(map(len, self._lists)) == self._lengths
