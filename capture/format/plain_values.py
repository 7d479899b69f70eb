"""Columns out of untrusted dicts: types and ranges are checked before numpy sees a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from .schema import I64

Row = dict[str, Any]
T = TypeVar("T")

_WORD = 1 << 64


def dicts(value: Any, what: str) -> list[Row]:
    """The value if it is a list (or tuple) of dicts; raises ValueError naming `what` otherwise."""
    if type(value) not in (list, tuple) or not set(map(type, value)) <= {dict}:
        raise ValueError(f"{what} is not a list of records")
    return list(value)


def whole_numbers(rows: Sequence[Row], key: str, default: int | None, what: str) -> I64:
    """The integer column `key`; None as default means that it must be there. ValueError unless it fits 63 bits."""
    values = [row.get(key, default) for row in rows]
    if not set(map(type, values)) <= {int}:
        raise ValueError(f"{key!r} of {what} is missing or not a whole number")
    try:
        return np.array(values, np.int64)
    except OverflowError:
        raise ValueError(f"{key!r} of {what} is too large") from None


def sizes(rows: Sequence[Row], key: str, default: int | None, what: str) -> I64:
    """`whole_numbers` that may not be negative."""
    values = whole_numbers(rows, key, default, what)
    if len(values) and int(values.min()) < 0:
        raise ValueError(f"{key!r} of {what} is negative")
    return values


def pointers(rows: Sequence[Row], key: str, what: str) -> I64:
    """A column of raw 64-bit pointers, 0 where absent; the highest bit becomes the sign."""
    values = [row.get(key, 0) for row in rows]
    if not set(map(type, values)) <= {int} or not all(-_WORD < v < _WORD for v in set(values)):
        raise ValueError(f"{key!r} of {what} is not a pointer")
    return np.array([(v + _WORD // 2) % _WORD - _WORD // 2 for v in values], np.int64)


def text(row: Row, key: str, default: str = "") -> str:
    """A text entry; anything else reads as the default."""
    value = row.get(key, default)
    return value if type(value) is str else default


def number(row: Row, key: str, default: int = 0) -> int:
    """A whole-number entry within 63 bits; anything else reads as the default."""
    value = row.get(key, default)
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else default


def settings(value: Any, depth: int = 2) -> dict[str, Any]:
    """A dict of settings, nested once at most, without what JSON has no word for and without endless repetition."""
    if type(value) is not dict:
        return {}
    kept: dict[str, Any] = {}
    for key, entry in islice(value.items(), 256):
        if type(key) is not str:
            continue
        if type(entry) in (str, int, float, bool, type(None)):
            kept[key] = entry
        elif type(entry) is dict and depth > 1:
            kept[key] = settings(entry, depth - 1)
    return kept


def member(row: Row, key: str, members: dict[str, T], unknown: T, seen: Counter[str]) -> T:
    """The member that the text under `key` names; `unknown`, counted by name in `seen`, for a name not known."""
    name = text(row, key, "(none)")
    found = members.get(name)
    if found is None:
        seen[name] += 1
        return unknown
    return found
