"""How the entries of a list are laid out in a pickle: learned from one entry, so that all like it are read at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from memstrata.capture.format.plain_values import Fields

MEMO_LENGTHS = {0x94: 1, 0x71: 2, 0x72: 5}
"""MEMOIZE, BINPUT and LONG_BINPUT, with their length."""
REFERENCE_LENGTHS = {0x68: 2, 0x6A: 5}
"""BINGET and LONG_BINGET, with their length."""
_INTEGERS = frozenset(b"KMJ\x8a")
_TEXTS = frozenset(b"hj\x8cXN")
_ATOMS = _INTEGERS | _TEXTS | frozenset(b"\x88\x89G")
TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_MAX_STEPS = 20_000
_MAX_FIELDS = 40

Item = tuple[int, list[int]]
"""Where a value begins, and the instructions that make it."""


@dataclass(frozen=True)
class Field:
    """One name of an entry: `key` are the bytes of the reference to it. `kind` is `integer`, `text`, `frames`, or
    `other`, whose `steps` are the instructions of a value that nobody asks for."""

    name: str
    key: bytes
    kind: str
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The fields of an entry in order. torch's own writer notes dicts and lists behind their end (`late`), Python's
    behind their beginning."""

    kind: Fields
    fields: tuple[Field, ...]
    early: int
    """The instruction that notes the dict before its entries; MARK if there is none."""
    late_dict: bool
    late_list: bool
    shape: int
    """Equal for layouts whose entries can stand in one table: the same kind, and the same whole numbers."""

    @property
    def opening(self) -> tuple[int, bytes]:
        """What an entry begins with."""
        return self.early, self.fields[0].key


def learn(data: bytes, at: int, end: int, kinds: tuple[Fields, ...], value: Any) -> Layout | None:
    """The layout of the entry that begins at byte `at`; None if it is not of these kinds, or laid out too oddly.

    `value` gives the value under a number of the memo, or raises KeyError.
    """
    found = skim(data, at, end)
    if found is None:
        return None
    items, after = found
    names = [_name(data, item, value) for item in items[::2]]
    kind = next((kind for kind in kinds if kind.key in names), None)
    if kind is None or None in names or len(set(names)) != len(names) or len(names) > _MAX_FIELDS:
        return None
    fields = [_field(data, key, item, str(name), kind) for key, item, name in zip(items[::2], items[1::2], names)]
    if None in fields or sum(len(f.steps) for f in fields if f is not None) > _MAX_FIELDS:
        return None
    lists = [item[1] for item, name in zip(items[1::2], names) if name == "frames" and item[1][0] == 0x5D]
    late_list = any(steps[-1] in MEMO_LENGTHS and len(steps) > 2 for steps in lists)
    early = 0x71 if data[at + 1] == 0x72 else data[at + 1]
    integers = frozenset(f.name for f in fields if f is not None and f.kind == "integer")
    shape = hash((kind.key, integers)) >> 2
    kept = tuple(f for f in fields if f is not None)
    return Layout(kind, kept, early, data[after] in MEMO_LENGTHS, late_list, shape)


def _name(data: bytes, item: Item, value: Any) -> str | None:
    at, steps = item
    if len(steps) != 1 or steps[0] not in REFERENCE_LENGTHS:
        return None
    try:
        name = value(int.from_bytes(data[at + 1 : at + REFERENCE_LENGTHS[steps[0]]], "little"))
    except KeyError:
        return None
    return name if type(name) is str else None


def _field(data: bytes, key: Item, item: Item, name: str, kind: Fields) -> Field | None:
    first, rest = item[1][0], item[1][1:]
    reference = data[key[0] : key[0] + REFERENCE_LENGTHS[key[1][0]]]
    if name in kind.integers:
        return Field(name, reference, "integer") if first in _INTEGERS and not rest else None
    if name in kind.texts:
        return Field(name, reference, "text") if first in _TEXTS and not set(rest) - set(MEMO_LENGTHS) else None
    if name == "frames":
        return Field(name, reference, "frames")
    steps = tuple(step for step in item[1] if step not in MEMO_LENGTHS)
    return Field(name, reference, "other", steps) if set(steps) <= _ATOMS | set(TUPLES) else None


def skim(data: bytes, at: int, end: int) -> tuple[list[Item], int] | None:
    """(keys and values by turns, where the dict ends), of the dict that begins at byte `at`; None if it is no such."""
    if end - at < 8 or data[at] != 0x7D:
        return None
    p = at + 1 + MEMO_LENGTHS.get(data[at + 1], 0)
    if data[p] != 0x28:
        return None
    stack: list[Item] = []
    marks: list[int] = []
    p += 1
    for _ in range(_MAX_STEPS):
        if p + 6 > end or not (data[p] in _STEP or _sized(data, p)):
            return None
        op = data[p]
        if op == 0x75 and not marks:
            return (stack, p + 1) if stack and len(stack) % 2 == 0 else None
        if not _step(stack, marks, op, p):
            return None
        p += _STEP.get(op, 0) or _sized(data, p)
    return None


_STEP = {
    **dict.fromkeys(b"}])N\x88\x89(eausdt\x85\x86\x87\x94", 1), **dict.fromkeys(b"hKq", 2), 0x4D: 3,
    **dict.fromkeys(b"jJr", 5), 0x47: 9,
}  # fmt: skip


def _sized(data: bytes, p: int) -> int:
    if data[p] in (0x8A, 0x8C):
        return 2 + data[p + 1]
    return 5 + int.from_bytes(data[p + 1 : p + 5], "little") if data[p] == 0x58 else 0


def _step(stack: list[Item], marks: list[int], op: int, p: int) -> bool:
    """What an instruction does to the items; False if it cannot stand here."""
    if op in MEMO_LENGTHS:
        takes = 0
    elif op in TUPLES:
        takes = TUPLES[op]
    elif op in b"as":
        takes = 1 if op == 0x61 else 2
    elif op in b"eut":
        takes = len(stack) - marks.pop() if marks else len(stack) + 1
    elif op == 0x28:
        marks.append(len(stack))
        return True
    else:
        stack.append((p, [op]))
        return True
    if takes > len(stack) - (0 if op in b"t\x85\x86\x87" else 1):
        return False
    taken = stack[len(stack) - takes :]
    del stack[len(stack) - takes :]
    if op in b"t\x85\x86\x87":
        stack.append((taken[0][0] if taken else p, [step for item in taken for step in item[1]] + [op]))
    else:
        stack[-1][1].append(op)
    return True


_FIXED = re.compile(rb"(?:[hKq].|M..|[jJr].{4}|[}\])N\x88\x89(eausdt\x85\x86\x87\x94]|G.{8})*+", re.DOTALL)


def boundary(data: bytes, start: int, at: int) -> bool:
    """Whether an instruction begins at byte `at`, if one begins at `start` and all up to there are plain."""
    while start < at:
        matched = _FIXED.match(data, start, at)
        start = matched.end() if matched is not None else start
        if start < at:
            step = _sized(data, start)
            if not step:
                return False
            start += step
    return start == at
