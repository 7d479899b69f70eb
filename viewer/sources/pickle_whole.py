"""Small, ordinary snapshots by way of Python's own unpickler: the one place that runs it, on bytes checked before.

It is many times as fast as the machine, but a file could make it import and call, reserve gigabytes for one number of
the memo, or look for a key among others that all fall into one slot of a dict. So it is given a file only if `_plain`
went through all of its instructions, from the first to STOP as its last byte, and found these and no others: empty
lists and dicts, MARK, APPEND, APPENDS, SETITEMS, SETITEM in a new dict, whole numbers of up to 8 bytes, floats, None,
booleans, texts, pairs of numbers below 64, MEMOIZE behind a container, a text or a pair, references to what was
memoized, and those that `Abridged` puts there. Then:

- Nothing is imported, called or constructed: no instruction that could is there (and names are refused once more).
- Time and memory grow with the length of the file alone: an instruction makes one value of a fixed size, or moves the
  values that it stands on, and the memo has an entry for each MEMOIZE. What is built is bounded as in the machine.
- Keys are short texts, whose hashes no file can foresee, or pairs, of which there are 4,096. SETITEMS takes the values
  since its MARK by turns as keys and values, and `_plain` reads by twos likewise: a text or a reference, then any
  value. So a number can be a key only where these twos are off by one against the MARK. They begin anew behind a MARK,
  and behind each instruction that makes or fills a container; the last value is then a list or a dict. Where that is a
  value, the twos fit. Where it should be a key it is none, and SETITEMS ends with an error before it comes to what is
  behind. (What fills a container leaves it as the last value: APPEND takes one value from a list, APPENDS and SETITEMS
  all behind MARK, and that they take none at all, when they would not look at what they fill, is not let through.)
- Containers in containers without end do no harm: neither this nor what frees them calls itself for each.
- A frame ends between two instructions, and the next one begins there.

What is not such a file is not refused here: it is left to the machine, whose sentences name what is wrong and where.
What is such a file, the machine reads to the same value, or refuses for one of two things that do no harm here and
that nothing in a snapshot has: a pair as a name, and more lists inside lists than `MAX_MARKS`.
"""

from __future__ import annotations

import functools
import io
import pickle
import re
from itertools import accumulate
from typing import Any

import numpy as np

from .pickle_abridged import REPEATED, STACK, Abridged
from .pickle_instructions import DICT, LIST, TUPLE
from .pickle_layouts import boundary
from .pickle_machine import BUILT_FREE, BUILT_PER_BYTE

MOST = 3 << 20
"""Bytes of the largest file: larger ones would stop other threads for longer, and the vectorised reader is as fast."""
LONGEST = 1 << 12
"""Bytes that the longest text takes: wherever one is a key, it is compared with an equal one byte by byte."""

_BUILT = ((0x7D, DICT), (0x5D, LIST), (0x86, TUPLE + 16), (0x94, 100))
"""What each instruction builds, or notes, in bytes; as the machine counts."""

_FRAME, _STOP, _MEMOIZE, _SHORT_TEXT, _TEXT = 0x95, 0x2E, 0x94, 0x8C, 0x58

_LEFT = 16
"""Bytes at the end of a frame that are plain only with those behind it, at most: a pair that is not noted yet has 5.
What is never plain has soon more behind it; otherwise it would be looked at again for each frame."""

_REFERENCE = rb"h.|j...."


def _sized(op: bytes, sizes: list[int]) -> bytes:
    """An instruction with so many bytes behind its length."""
    return op + b"(?:" + b"|".join(re.escape(bytes([n])) + b"." * n for n in sizes) + b")"


_LONG = _sized(rb"\x8a", [6, 5, 7, 8, 4, 3, 2, 1])
_SHORT = _sized(rb"\x8c", [3, 0, 1, 2, *range(4, 21)]) + rb"\x94"
"""A text such as is written for each event anew; others are looked at one by one."""
_ATOM = rb"K(?:[\0-\x3f]K[\0-\x3f]\x86\x94|.)|M..|J....|" + _LONG + b"|" + _SHORT + rb"|[N\x88\x89]|G........"
_MARK = rb"\((?=[^ue])"
_FRAME_DICT = 3 * rb"h.(?:h.|K.|M..)" + b"u"
_ONE = b"(?:" + _REFERENCE + b"|" + _SHORT + b")(?:" + _REFERENCE + b"|" + _ATOM + b")s"
"""What is in a dict that has only this."""
_DICT = rb"\}\x94(?:\(" + _FRAME_DICT + b"|" + _MARK + b"|" + _ONE + b")?+"
_LIST = STACK + rb"|\]\x94(?:\((?:K.)++e|" + _MARK + b")?+"
"""A list may have nothing but numbers, such as a pair that came through JSON."""
_CONTAINER = _DICT + b"|" + REPEATED + b"|" + _LIST + rb"|[ue](?:" + _MARK + b")?+|a|" + _MARK
_VALUE = _REFERENCE + b"|" + _ATOM + b"|" + _CONTAINER
_TWOS = b"(?:(?:" + _REFERENCE + b")(?:" + _VALUE + b")|" + _CONTAINER + b")*+(" + _REFERENCE + b")?+"
"""As far as there is no text; the group is a reference that stands for a key, whose value is not yet there."""


@functools.cache
def _patterns() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """(where a key or a container is next, where a value is), made when the first file is read."""
    from_value = b"(?:(?:" + _VALUE + b")" + _TWOS + b")?+"
    return re.compile(_TWOS, re.DOTALL), re.compile(from_value, re.DOTALL)


_SOUND = re.fullmatch(rb"(?:a|\((?=[^ue]))?+", b"(") is None
"""Before Python 3.11.5 and 3.12 a repetition like this takes what it only tried: there `_plain` would prove nothing."""


def value(data: bytes) -> Any:
    """The value of a pickle that is plain as said above; None for any other, and for a damaged one."""
    frames = _frames(data)
    if not frames or len(data) > MOST or not _SOUND or _built(data) > BUILT_FREE + BUILT_PER_BYTE * len(data):
        return None
    abridged = Abridged(frames)
    body = b"".join(abridged.bodies)
    if not _plain(body, list(accumulate(map(len, abridged.bodies)))):
        return None
    framed = data[:2] + b"\x95" + len(body).to_bytes(8, "little") + body  # read at once, not byte by byte
    try:
        made = _Refusing(io.BytesIO(framed), abridged).load()
    except Exception:  # whatever it is, the machine has the sentence for it
        return None
    return made if abridged.whole else None


def _built(data: bytes) -> int:
    """As many bytes as the machine would count, or more: bytes inside of texts and numbers are counted too."""
    each, on_the_stack = np.frombuffer(data, np.uint8), 8 * len(data)
    return on_the_stack + sum(size * int(np.count_nonzero(each == op)) for op, size in _BUILT)


def _frames(data: bytes) -> list[bytes]:
    """What is in each frame; nothing if not all is in frames, as in protocols 4 and 5."""
    parts, p = [], 2
    while p < len(data):
        end = p + 9 + int.from_bytes(data[p + 1 : p + 9], "little")
        if data[p] != _FRAME or end > len(data):
            return []
        parts.append(data[p + 9 : end])
        p = end
    return parts if data[:2] in (b"\x80\4", b"\x80\5") else []


def _plain(body: bytes, ends: list[int]) -> bool:
    """Whether all instructions are such as said above; `ends` is where in the body each frame ends."""
    go_on, from_value = (pattern.match for pattern in _patterns())
    p, key = 0, False  # where to go on, and whether the last value is a key without its value
    for end in ends:
        while True:
            matched = (from_value if key else go_on)(body, p, end)
            assert matched is not None
            at = matched.end()
            if at > p or not key:
                key = matched.lastindex is not None
            op = body[at] if at + 2 < end else _STOP
            if op == _SHORT_TEXT:
                p = at + 3 + body[at + 1]
            elif op == _TEXT:
                p = at + 6 + int.from_bytes(body[at + 1 : at + 5], "little")
            else:
                break
            if p > end or body[p - 1] != _MEMOIZE or p - at > LONGEST:
                return False
            key = not key
        if end == len(body):
            return at == end - 1 and body[at] == _STOP and not key
        if end - at > _LEFT or not boundary(body, at, end):
            return False
        p = at
    return False


class _Refusing(pickle.Unpickler):
    """What no such file asks for is refused once more; only what is abridged asks for its lists."""

    def __init__(self, file: io.BytesIO, abridged: Abridged) -> None:
        super().__init__(file)
        self.persistent_load = abridged.list_of  # type: ignore[method-assign]

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError("a snapshot names nothing outside itself")
