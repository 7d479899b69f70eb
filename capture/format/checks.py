"""Checks of a recording against the schema, before anything uses its numbers as indices or sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import schema
from .recording import Recording

MAX_DEVICES = 256
"""torch is built for 120 at most; each device is a view of its own, so a made-up thousand would take minutes."""
MAX_STORAGES = 1 << 24
"""Storages are numbered from 0; what counts by them is an array as long as the highest number."""
_MAX_VALUES = 1 << 62
_MAX_TIME = 1 << 62
"""Differences of two times, in ns, fit 64 bits."""
_MAX_SUM = 1 << 62
_FEW = 64
"""Numbers of which Python finds the lowest sooner than numpy."""


def check_recording(recording: Recording) -> None:
    """Raise ValueError naming the first column whose numbers cannot be right."""
    _check_strings(recording)
    if len(recording.meta.devices) > MAX_DEVICES:
        raise ValueError(f"it has {len(recording.meta.devices):,} devices, more than a machine can hold")
    counts = {name: len(table) for name, table in recording.tables()}
    counts["devices"] = len(recording.meta.devices)
    counts["strings"] = len(recording.strings)
    for name, table in recording.tables():
        for checked in () if table is schema.empty(type(table)) else _checked(type(table)):
            _check_column(name, checked, getattr(table, checked.column), counts)
    if int(recording.saved_tensors.storage.max(initial=schema.NONE)) >= MAX_STORAGES:
        raise ValueError("saved_tensors/storage holds impossible numbers")
    _check_shapes(recording)
    _check_trees(recording)


def _check_strings(recording: Recording) -> None:
    offsets = recording.strings.offsets
    if (
        len(offsets) < 1
        or offsets[0] != 0
        or offsets[-1] != len(recording.strings.blob)
        or (np.diff(offsets) < 0).any()
    ):
        raise ValueError("the string table does not fit its text")


@dataclass(frozen=True)
class _Checked:
    """A column, and what its numbers are between; the highest is one less than the rows of `refers`, where it does."""

    column: str
    lowest: int
    highest: float = math.inf
    refers: str = ""
    is_bytes: bool = False
    cause: str = ""


_CHECKED: dict[type[schema.Table], tuple[_Checked, ...]] = {}


def _checked(table: type[schema.Table]) -> tuple[_Checked, ...]:
    """The columns of a table that have limits."""
    known = _CHECKED.get(table)
    if known is None:
        limits = (_limits(f.name, f.metadata) for f in schema.columns_of(table))
        known = _CHECKED[table] = tuple(found for found in limits if found is not None)
    return known


def _limits(column: str, meta: Any) -> _Checked | None:
    enum, refers, unit = meta["enum"], meta["refers"], meta["unit"]
    lowest = schema.NONE if meta["none"] else 0
    if enum is not None:
        return _Checked(column, lowest, len(enum) - 1, cause=f"holds an unknown {enum.__name__} number")
    if refers:
        return _Checked(column, lowest, refers=refers, cause=f"points outside {refers}")
    if unit == "ns":
        return _Checked(column, lowest, _MAX_TIME, cause="holds impossible times")
    if unit == "B":
        return _Checked(column, 0, is_bytes=True, cause="holds impossible sizes")
    return _Checked(column, lowest, cause="holds impossible numbers") if meta["dtype"] == np.int32 else None


def _check_column(table: str, checked: _Checked, array: NDArray[Any], counts: dict[str, int]) -> None:
    if not len(array):
        return
    values = array.tolist() if len(array) <= _FEW else None
    low, high = (min(values), max(values)) if values else (np.minimum.reduce(array), np.maximum.reduce(array))
    highest = counts[checked.refers] - 1 if checked.refers else checked.highest
    if low < checked.lowest or high > highest or (checked.is_bytes and _sum_overflows(array, int(high))):
        raise ValueError(f"{table}/{checked.column} {checked.cause}")


def _sum_overflows(array: NDArray[Any], high: int) -> bool:
    """Curves are int64 sums; anything near 2**62 bytes is damage, and would wrap around."""
    return high * len(array) > _MAX_SUM and float(np.add.reduce(array, dtype=np.float64)) > _MAX_SUM


def _check_shapes(recording: Recording) -> None:
    """Shapes are texts such as `1024,512`; what else there is, is no number to anyone."""
    for name, numbers in (("module_parameters", recording.module_parameters.shape),
                          ("saved_tensors", recording.saved_tensors.shape)):  # fmt: skip
        for text in map(recording.strings.__getitem__, sorted(set(numbers.tolist()))):
            sizes = [n for n in text.split(",") if n.isdecimal()]
            if max(map(len, sizes), default=0) > 18 or math.prod(map(int, sizes)) >= _MAX_VALUES:
                raise ValueError(f"{name}/shape holds impossible shapes")


def _check_trees(recording: Recording) -> None:
    for name, parent in (("stacks", recording.stacks.parent), ("modules", recording.modules.parent)):
        if (parent >= np.arange(len(parent))).any():
            raise ValueError(f"{name}/parent does not form a tree")
