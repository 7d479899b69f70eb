"""Looks through the opcodes of a pickle before anything is built from it.

A snapshot holds dicts, lists, tuples, strings, numbers, True, False and None. Every other opcode is refused, and so
are claimed lengths beyond the end of the file and memo numbers beyond its size, which make Python's unpickler ask for
gigabytes.
"""

from __future__ import annotations

import re

TRUNCATED = "truncated"
IMPORTS = "imports"
REFUSED = "refused"
DAMAGED = "damaged"
PLAIN = "plain"

_RUN = re.compile(
    rb"(?:[(012N)\]}adelstu\x85-\x89\x94]|[Khq\x80].|M..|[Jj].{4}|G.{8}|r..[\x00-\x3f]\x00"
    rb"|\x8a(?:\x05.{5}|\x06.{6}|\x07.{7}|\x08.{8}))*+",
    re.DOTALL,
)
"""The opcodes of fixed length that may occur, as many as follow each other; most of a file is matched by this."""

_LENGTHS = {b"X": 4, b"\x8c": 1, b"\x8d": 8, b"U": 1, b"T": 4, b"\x8a": 1, b"\x8b": 4}
"""Strings and long integers: opcode, then so many bytes of length."""
_LINES = frozenset({b"I", b"L", b"F", b"V", b"S", b"g", b"p"})
"""Text opcodes of protocol 0."""
_IMPORTING = frozenset({b"c", b"i", b"\x93", b"P", b"Q"})
"""Opcodes that name something outside the file."""
_BUILDING = frozenset({b"o", b"R", b"b", b"\x81", b"\x82", b"\x83", b"\x84", b"\x92", b"\x97", b"\x98",
                       b"\x8e", b"\x8f", b"\x90", b"\x91", b"\x96", b"B", b"C"})  # fmt: skip
"""Opcodes that call something, or make sets or bytes, which no snapshot has."""


def scan(data: bytes) -> str:
    """PLAIN if the first pickle in the data holds plain values only, else the first thing that is wrong with it."""
    at, size = 0, len(data)
    while True:
        matched = _RUN.match(data, at)
        assert matched is not None  # the pattern matches the empty string
        at = matched.end()
        op = data[at : at + 1]
        if op == b".":
            return PLAIN
        if op in _IMPORTING:
            return IMPORTS
        if op in _BUILDING:
            return REFUSED
        after = _after(data, at, op)
        if after is None:
            return DAMAGED
        if after > size or not op:
            return TRUNCATED
        at = after


def _after(data: bytes, at: int, op: bytes) -> int | None:
    """Where the next opcode begins (beyond the end if this one is cut off); None if there is no such opcode."""
    width = _LENGTHS.get(op)
    if width is not None:
        length = int.from_bytes(data[at + 1 : at + 1 + width], "little")
        return at + 1 + width + length
    if op in _LINES:
        return _line_end(data, at, op)
    if op == b"\x95":  # a frame: what is in it follows
        length = int.from_bytes(data[at + 1 : at + 9], "little")
        return at + 9 if at + 9 + length <= len(data) else len(data) + 1
    if op == b"r":
        number = int.from_bytes(data[at + 1 : at + 5], "little")
        return at + 5 if number <= len(data) or at + 5 > len(data) else None
    return None if op and op not in b"KMJGhjq\x80" else len(data) + 1


def _line_end(data: bytes, at: int, op: bytes) -> int | None:
    end = data.find(b"\n", at)
    if end < 0:
        return len(data) + 1
    if op == b"p" and not (data[at + 1 : end].isdigit() and int(data[at + 1 : min(end, at + 20)]) <= len(data)):
        return None
    return end + 1
