"""Small, ordinary snapshots by way of Python's own unpickler: the one place that runs it, on bytes checked before.

Why nothing in a file can be imported, called or constructed, and what bounds time and memory:

- `_GRAMMAR` must match the file as a whole, from its first byte to STOP as its last, with the headers of frames taken
  out. It has only the instructions in `INSTRUCTIONS`: containers, numbers, constants, texts, and references to what
  came before. Each container is closed by its own instruction, none is nested deeper than a snapshot nests them, and
  keys are texts or references.
- In it a text ends at the MEMOIZE behind it. `_TEXTS` goes through the same instructions once more, without the
  nesting, and hands out the texts: each must be exactly as long as it says. So the unpickler reads the instructions
  that were checked, and no others. Headers of frames must stand between instructions.
- Only lists, dicts and texts have a number that can be referred to (a pair of numbers is written as a list for the
  unpickler), so every key is a text: no file can choose keys that fall into one slot of a dict.
- Both patterns are possessive: they go through the file once, and what does not match is given up at once.
- The file is at most `MOST` bytes long, and what is built of it is bounded as in `pickle_machine`.
- Beyond all this the unpickler itself refuses every name, every reference to something outside, and every buffer.

What does not match is not refused here: it is left to the machine, whose sentences name what is wrong and where.
"""

from __future__ import annotations

import functools
import io
import pickle
import re
from typing import Any

from .pickle_machine import BUILT_FREE

MOST = 768 << 10
"""Bytes of the largest file: from there on the vectorised reader is faster."""
INSTRUCTIONS = frozenset({
    "PROTO", "STOP", "MEMOIZE", "BINGET", "LONG_BINGET", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEM", "SETITEMS",
    "APPEND", "APPENDS", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "NONE", "NEWTRUE", "NEWFALSE",
    "SHORT_BINUNICODE", "BINUNICODE",
})  # fmt: skip
"""All that the unpickler is given, beside one FRAME around the whole."""

_FRAME = 0x95
_MARKED = b"\xff" * 9
"""Stands for the header of a frame: no instruction, no part of a number that is shorter, and not in UTF-8."""

_TEXT = rb"\x8c.[^\x94]*+\x94"
_KEY = rb"(?:h.|j.{4}|" + _TEXT + rb")"
_LONG = rb"\x8a(?:\x06.{6}|\x05.{5}|\x07.{7}|\x08.{8})"
_FIELD = rb"[hK].|[jJ].{4}|M..|[N\x88\x89]|" + _LONG + b"|" + _TEXT + rb"|X..\0\0[^\x94]*+\x94"
"""A value that holds no other."""
_PAIR = rb"K.K.\x86\x94"
_PAIRS = re.compile(rb"K(.)K(.)\x86\x94", re.DOTALL)
_ONE = rb"h.|j.{4}"
_REFERENCES = rb"(?:j.{4}j.{4}j.{4}j.{4}|h.h.h.h.|j.{4}|h.)++"


def _dict(value: bytes) -> bytes:
    """Of two entries or more, as torch's all are."""
    return rb"\}\x94\((?:" + _KEY + rb"(?:" + value + rb"))*+u"


def _any_dict(value: bytes) -> bytes:
    """Of any length."""
    return rb"\}\x94(?:\((?:" + _KEY + rb"(?:" + value + rb"))++u|" + _KEY + rb"(?:" + _FIELD + rb")s)?+"


def _list(items: bytes, one: bytes) -> bytes:
    """`one` is what may stand alone behind the last thousand."""
    return rb"\]\x94(?:\((?:" + items + rb")++e)*+(?:(?:" + one + rb")a)?+"


def _grammar() -> bytes:
    """Frames in stacks in events in traces; and in blocks (whose history is such as events are) in segments."""
    stack = _list(_REFERENCES + b"|" + _dict(_FIELD), _ONE)
    event = _dict(_FIELD + b"|" + stack)
    trace = _list(_REFERENCES + b"|" + event, _ONE + b"|" + event)
    block = _dict(_FIELD + b"|" + trace)
    blocks = _list(_REFERENCES + b"|" + block, _ONE + b"|" + block)
    segment = _dict(_PAIR + b"|" + _FIELD + b"|" + blocks)
    rows = _list(segment + b"|" + trace, trace + b"|" + event)
    settings = _any_dict(_FIELD + rb"|G.{8}|" + _any_dict(_FIELD))
    return rb"\x80[\4\5]" + _dict(rows + b"|" + settings + b"|" + _FIELD) + rb"\."


@functools.cache
def _patterns() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """(the grammar, what hands out the texts and pairs), made when the first file is read."""
    known = _REFERENCES + rb"|[\x94}\](ueas\x88\x89N]++|K.(?!K.\x86)|J.{4}|M..|" + _LONG + rb"|\xff{9}|G.{8}|\x80."
    handed = rb"([\x8cX].[^\x94]*+|K.K.\x86)|."
    return re.compile(_grammar(), re.DOTALL), re.compile(rb"(?:" + known + rb")*+(?:" + handed + rb")", re.DOTALL)


def value(data: bytes) -> Any:
    """The value of a pickle that is a snapshot by the grammar; None for any other, and for a damaged one."""
    if len(data) > MOST:
        return None
    parts = _without_headers(data)
    plain = _checked(parts) if parts else None
    if plain is None:
        return None
    framed = b"\x80\x04\x95" + (len(plain) - 2).to_bytes(8, "little") + plain[2:]  # read at once, not byte by byte
    try:
        return _Refusing(io.BytesIO(framed)).load()
    except Exception:  # whatever it is, the machine has the sentence for it
        return None


def _without_headers(data: bytes) -> list[bytes]:
    """PROTO, and what is in each frame; nothing if not all is in frames."""
    parts, p = [data[:2]], 2
    while p < len(data):
        end = p + 9 + int.from_bytes(data[p + 1 : p + 9], "little")
        if data[p] != _FRAME or end > len(data):
            return []
        parts.append(data[p + 9 : end])
        p = end
    return parts


def _checked(parts: list[bytes]) -> bytes | None:
    """The instructions without frames, and with lists in place of pairs, if they are a snapshot's; else None."""
    grammar, texts = _patterns()
    plain = b"".join(parts)
    if grammar.fullmatch(plain) is None:
        return None
    handed = texts.findall(_MARKED.join(parts))
    if handed.pop() or b"" in handed:  # nothing but STOP at the end is unknown to it
        return None
    long = [t for t in handed if t[0] != 0x8C]
    pairs = sum(t[0] == 0x4B for t in long)
    honest = [t[1] == len(t) - 2 for t in handed if t[0] == 0x8C]
    honest += [int.from_bytes(t[1:5], "little") == len(t) - 5 for t in long if t[0] == 0x58]
    if not all(honest) or _MARKED in b"".join(handed):
        return None
    if pairs:
        plain, found = _PAIRS.subn(b"](K\\1K\\2e\x94", plain)
        if found != pairs:  # other bytes look like one
            return None
    return plain


class _Refusing(pickle.Unpickler):
    """What no checked file asks for is refused once more."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError("a snapshot names nothing outside itself")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("a snapshot names nothing outside itself")
