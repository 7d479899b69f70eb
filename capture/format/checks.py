"""Checks of a recording against the schema, before anything uses its numbers as indices or sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import schema
from .recording import Recording


def check_recording(recording: Recording) -> None:
    """Raise ValueError naming the first column whose numbers cannot be right."""
    _check_strings(recording)
    counts = {name: len(table) for name, table in recording.tables()}
    counts["devices"] = len(recording.meta.devices)
    counts["strings"] = len(recording.strings)
    for name, table in recording.tables():
        for f in schema.columns_of(type(table)):
            _check_column(f"{name}/{f.name}", getattr(table, f.name), f.metadata, counts)
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
    if len(array) == 0:
        return
    if meta["enum"] is not None and int(array.max()) >= len(meta["enum"]):
        raise ValueError(f"{name} holds an unknown {meta['enum'].__name__} number")
    if meta["refers"] and (int(array.min()) < _lowest(meta) or int(array.max()) >= counts[meta["refers"]]):
        raise ValueError(f"{name} points outside {meta['refers']}")
    if meta["unit"] == "B" and (int(array.min()) < 0 or _sum_overflows(array)):
        raise ValueError(f"{name} holds impossible sizes")


def _lowest(meta: Any) -> int:
    return schema.NONE if meta["none"] else 0


def _sum_overflows(array: NDArray[Any]) -> bool:
    """Curves are int64 sums; anything near 2**62 bytes is damage, and would wrap around."""
    return float(array.astype(np.float64).sum()) > 2.0**62


def _check_trees(recording: Recording) -> None:
    for name, parent in (("stacks", recording.stacks.parent), ("modules", recording.modules.parent)):
        if (parent >= np.arange(len(parent))).any():
            raise ValueError(f"{name}/parent does not form a tree")
