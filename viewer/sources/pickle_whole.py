"""Small, ordinary snapshots by way of Python's own unpickler, and the segments of larger ones.

This is the one place that runs it, on bytes checked before.

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
What is such a file, the machine reads to the same value, or refuses for one of three things that do no harm here and
that nothing in a snapshot has: a pair as a name, more lists inside lists than `MAX_MARKS`, and very many instructions
that leave nothing behind.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np

from .pickle_abridged import ABRIDGED, REFERENCES, Abridged
from .pickle_instructions import DICT, LIST, TUPLE
from .pickle_layouts import boundary
from .pickle_machine import BUILT_FREE, BUILT_PER_BYTE

MOST = 3 << 20
"""Bytes of the largest file: larger ones would stop other threads for longer, and the vectorised reader is as fast."""
PROTOCOLS = (b"\x80\4", b"\x80\5")
"""What a file begins with all of which is in frames."""
LONGEST = 1 << 12
"""Bytes that the longest text takes: wherever one is a key, it is compared with an equal one byte by byte."""

_BUILT = ((0x7D, DICT), (0x5D, LIST), (0x86, TUPLE + 16), (0x94, 100))
"""What each instruction builds, or notes, in bytes; as the machine counts."""
_MOST_BUILT = 8 + max(size for _, size in _BUILT)
"""By one byte."""

_FRAME, _STOP, _MEMOIZE, _SHORT_TEXT, _LONG_TEXT = 0x95, 0x2E, 0x94, 0x8C, 0x58

_LEFT = 16
"""Bytes at the end of a frame that are plain only with those behind it, at most: a pair that is not noted yet has 5.
What is never plain has soon more behind it; otherwise it would be looked at again for each frame."""

_SEGMENTS = b"}\x94(\x8c\x08segments\x94]\x94"
_ENDS = b"u."
"""Completes the snapshot behind its segments."""
_LEAVES_NOTHING = b"t\x94" + b"\x86\x94" + b"00" + b"N."
"""Notes what is on the stack since the last mark, then that with what is in front of it, takes it away, and one thing
or mark more: an error if that was all."""

_REFERENCE = rb"h.|j...."


def _sized(sizes: Iterable[int]) -> bytes:
    """A length of one byte, with so many bytes behind it."""
    return b"|".join(re.escape(bytes([n])) + (b".{%d}+" % n if n > 3 else n * b".") for n in sizes)


_BY_LENGTH = b"|".join(
    b"(?=[\\x%02x-\\x%02x])(?:%b)" % (n, n + 31, _sized(range(n, n + 32))) for n in range(0, 128, 32)
)
"""So that not all lengths are tried one after the other."""
_TEXT = rb"\x8c(?:\x03...|" + _BY_LENGTH + rb")\x94"
_NAME = rb"\x8c(?:" + _sized(range(21)) + rb")\x94"
"""A text such as keys are; others are looked at one by one."""
_LONG = rb"\x8a(?:" + _sized([6, 7, 5, 8, 4, 3, 2, 1]) + b")"
_NUMBER = b"J....|" + _LONG + rb"|K(?:[\0-\x3f]K[\0-\x3f]\x86\x94|.)|M.."
_OTHER = rb"[N\x88\x89]|G........"
_MARK = rb"\((?=[^ue])"
_KEY = b"(?:" + _REFERENCE + b"|" + _NAME + b")"
_ONE = _KEY + b"(?:" + _REFERENCE + b"|" + _NUMBER + b"|" + _NAME + b"|" + _OTHER + b")s"
"""What is in a dict that has only this."""
_FILLED = rb"\]\x94\((?:" + REFERENCES + b"|(?:K.)++)e"
"""A list of references; or of nothing but numbers, such as a pair that came through JSON."""
_VALUE = b"|".join((_REFERENCE, _NUMBER, _TEXT, _FILLED, rb"\]\x94", ABRIDGED, _OTHER))
_PAIR = _KEY + b"(?:" + _VALUE + b")"
_SMALL = b"(?:J....|M..|K.)"
_PLACE = rb"\x8a(?:\x06.{6}+|\x05.{5}+)h." + _SMALL + b"h."
"""An address, and one more key and its value; then a key."""
_EVENT = rb"j....j....j...." + _PLACE + rb"(?:K.|J....)(?:j....\x8a\x07.{7}+(?:j....(?:\x8c\x03...\x94|j....))?+)?+"
_BLOCK = b"h." + _PLACE + _SMALL + b"h.h."
_FRAME_DICT = rb"\}\x94\(h.h.h.h.h.(?:M..|K.)u"
"""What most dicts are, or begin with, in one piece: several times as quick as pair by pair."""
_DICT = _FRAME_DICT + rb"|\}\x94\((?=[hj\x8c])(?:" + _EVENT + b"|" + _BLOCK + b")?+(?:" + _PAIR + b")*+u?+"
_CONTAINER = rb"\}\x94(?:" + _MARK + b"|" + _ONE + b")?+|" + _FILLED + rb"|\]\x94(?:" + _MARK + b")?+|"
_CONTAINER += b"[ue](?:" + _MARK + b")?+|a|" + _MARK + b"|" + ABRIDGED
_TWOS = (
    b"(?:"
    + _DICT
    + b"|(?:"
    + _PAIR
    + b")++u?+|"
    + _KEY
    + rb"(?=[\}\]\(uea\x8b])|"
    + _CONTAINER
    + b")*+("
    + _KEY
    + b")?+"
)
"""As far as there is no long text. A key before a container is one with its value; the group is one that has none yet,
and before a text, or at the end of a frame, it will have."""


@functools.cache
def _patterns() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """(where a key or a container is next, where a value is), made when the first file is read."""
    value = b"(?:" + b"|".join((_REFERENCE, _NUMBER, _OTHER, _CONTAINER)) + b")?+"
    return re.compile(_TWOS, re.DOTALL), re.compile(value, re.DOTALL)


_SOUND = re.fullmatch(rb"(?:a|\((?=[^ue]))?+", b"(") is None
"""Before Python 3.11.5 and 3.12 a repetition like this takes what it only tried: there `_plain` would prove nothing."""


def value(data: bytes) -> Any:
    """The value of a pickle that is plain as said above; None for any other, and for a damaged one."""
    frames = _frames(data)
    if not frames or len(data) > MOST or not _SOUND or _built(data) > BUILT_FREE + BUILT_PER_BYTE * len(data):
        return None
    abridged = Abridged(frames)
    if not _plain(abridged.bodies):
        return None
    try:
        made = _Refusing(_Frames(data[:2], abridged.bodies), abridged).load()
    except Exception:  # whatever it is, the machine has the sentence for it
        return None
    return made if abridged.whole else None


def segments(bodies: list[bytes]) -> tuple[dict[int, Any], Callable[[], bool]] | None:
    """The memo behind the segments at the beginning of a snapshot, which are all that `bodies` has.

    Its entries 0, 1 and 2 are the snapshot, the name of its first entry and that entry, which are then on the stack,
    with a mark behind the first. None if this is not plain, or if anything else is on the stack there. With it comes
    what says whether all lists still are as they were: some are one where the file has several that are equal.
    """
    size = sum(map(len, bodies))
    built = sum(map(_built, bodies)) > BUILT_FREE + BUILT_PER_BYTE * size
    if not _SOUND or size > MOST or built or not bodies[0].startswith(_SEGMENTS):
        return None
    abridged = Abridged([*bodies[:-1], bodies[-1] + _ENDS])
    if not _plain(abridged.bodies):
        return None
    abridged.bodies[-1] = abridged.bodies[-1][: -len(_ENDS)] + _LEAVES_NOTHING
    unpickler = _Refusing(_Frames(b"\x80\4", abridged.bodies), abridged)
    with contextlib.suppress(Exception):
        unpickler.load()
        return None  # there was something left
    abridged.bodies = []
    memo: dict[int, Any] = unpickler.memo.copy()
    last = len(memo) - 1
    noted, values = memo.pop(last, None), memo.pop(last - 1, None)
    if not (type(noted) is type(values) is tuple and len(noted) == 2 and noted[1] is values and abridged.whole):
        return None  # it came to an error before that
    stack = noted[0], *values
    is_all = len(stack) == 3 and all(value is memo[i] for i, value in enumerate(stack))
    return (memo, lambda: abridged.whole) if is_all else None


def _built(data: bytes) -> int:
    """As many bytes as the machine would count, or more: bytes inside of texts and numbers are counted too.

    0 where a file is too small to build much.
    """
    if len(data) * _MOST_BUILT < BUILT_FREE:
        return 0
    each, on_the_stack = np.frombuffer(data, np.uint8), 8 * len(data)
    return on_the_stack + sum(size * int(np.count_nonzero(each == op)) for op, size in _BUILT)


def _frames(data: bytes) -> list[bytes]:
    """What is in each frame that has something; nothing if not all is in frames, as in protocols 4 and 5."""
    parts, p = [], 2
    while p < len(data):
        end = p + 9 + int.from_bytes(data[p + 1 : p + 9], "little")
        if data[p] != _FRAME or end > len(data):
            return []
        parts += [data[p + 9 : end]] if end > p + 9 else []
        p = end
    return parts if data[:2] in PROTOCOLS else []


def _plain(bodies: list[bytes]) -> bool:
    """Whether all instructions are such as said above; `bodies` is what is in the frames."""
    go_on, one_value = (pattern.match for pattern in _patterns())
    left, key = b"", False  # of the frame before, and whether the last value is a key without its value
    for number, body in enumerate(bodies, 1):
        body = left + body if left else body
        p, end = 0, len(body)
        while True:
            matched = (one_value if key else go_on)(body, p)
            assert matched is not None
            at = matched.end()
            if key and at > p:
                p, key = at, False
                continue
            key = key or matched.lastindex is not None
            op = body[at] if at + 2 < end else _STOP
            if op == _SHORT_TEXT:
                p = at + 3 + body[at + 1]
            elif op == _LONG_TEXT:
                p = at + 6 + int.from_bytes(body[at + 1 : at + 5], "little")
            else:
                break
            if p > end or body[p - 1] != _MEMOIZE or p - at > LONGEST:
                return False
            key = not key
        if number == len(bodies):
            return at == end - 1 and body[at] == _STOP and not key
        left = body[at:]
        if len(left) > _LEFT or not boundary(left + bytes(_LEFT), 0, len(left)):
            return False
    return False


class _Frames:
    """A file with a pickle, in the pieces in which the unpickler asks for it: it takes each without a copy."""

    def __init__(self, start: bytes, bodies: list[bytes]) -> None:
        frames = ((b"\x95", len(body).to_bytes(8, "little"), body) for body in bodies)
        self._next = chain((start[:1], start[1:]), chain.from_iterable(frames)).__next__

    def read(self, size: int) -> bytes:
        """The next piece, if it is as long as is asked for."""
        piece = self._next()
        if len(piece) != size:
            raise EOFError
        return piece

    def readline(self) -> bytes:
        """No instruction that is let through reads a line."""
        raise EOFError


class _Refusing(pickle.Unpickler):
    """What no such file asks for is refused once more; only what is abridged asks for its lists."""

    def __init__(self, file: _Frames, abridged: Abridged) -> None:
        super().__init__(file)
        if abridged.asks:
            self.persistent_load = abridged.answer  # type: ignore[method-assign]

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError("a snapshot names nothing outside itself")
