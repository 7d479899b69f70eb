"""Checks of a recording against the schema, before anything uses its numbers as indices or sizes."""

from __future__ import annotations

import math
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


def check_recording(recording: Recording) -> None:
    """Raise ValueError naming the first column whose numbers cannot be right."""
    _check_strings(recording)
    if len(recording.meta.devices) > MAX_DEVICES:
        raise ValueError(f"it has {len(recording.meta.devices):,} devices, more than a machine can hold")
    counts = {name: len(table) for name, table in recording.tables()}
    counts["devices"] = len(recording.meta.devices)
    counts["strings"] = len(recording.strings)
    for name, table in recording.tables():
        for f in () if table is schema.empty(type(table)) else schema.columns_of(type(table)):
            _check_column(f"{name}/{f.name}", getattr(table, f.name), f.metadata, counts)
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


def _check_column(name: str, array: NDArray[Any], meta: Any, counts: dict[str, int]) -> None:
    if len(array) == 0 or not (meta["enum"] or meta["refers"] or meta["unit"] or meta["dtype"] == np.int32):
        return
    low, high = np.minimum.reduce(array), np.maximum.reduce(array)
    if meta["enum"] is not None and high >= len(meta["enum"]):
        raise ValueError(f"{name} holds an unknown {meta['enum'].__name__} number")
    if meta["refers"] and (low < _lowest(meta) or high >= counts[meta["refers"]]):
        raise ValueError(f"{name} points outside {meta['refers']}")
    if meta["unit"] == "ns" and (low < _lowest(meta) or high > _MAX_TIME):
        raise ValueError(f"{name} holds impossible times")
    if meta["dtype"] == np.int32 and low < _lowest(meta):
        raise ValueError(f"{name} holds impossible numbers")
    if meta["unit"] == "B" and (low < 0 or _sum_overflows(array)):
        raise ValueError(f"{name} holds impossible sizes")


def _lowest(meta: Any) -> int:
    return schema.NONE if meta["none"] else 0


def _sum_overflows(array: NDArray[Any]) -> bool:
    """Curves are int64 sums; anything near 2**62 bytes is damage, and would wrap around."""
    return float(np.add.reduce(array, dtype=np.float64)) > 2.0**62


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
