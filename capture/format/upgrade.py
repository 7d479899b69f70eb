"""Older recordings become current ones, step by step; newer ones are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .problems import FormatError
from .schema import FORMAT_VERSION, NONE

Columns = dict[str, NDArray[Any]]
Step = Callable[[dict[str, Any], Columns], tuple[dict[str, Any], Columns]]


def _from_1(meta: dict[str, Any], columns: Columns) -> tuple[dict[str, Any], Columns]:
    """Format 2 says which text a program stamped on an event, which parameters are trained, on which device a tensor
    was saved, how long the device worked on a span, and lists the steps: format 1 knew none of the first four, and
    held one step."""
    columns = dict(columns)
    for name in ("events/metadata", "events/compile_context"):
        columns[name] = np.full(len(columns["events/action"]), NONE, np.int32)
    columns["module_parameters/requires_grad"] = np.ones(len(columns["module_parameters/module"]), np.bool_)
    columns["spans/device_time"] = np.full(len(columns["spans/module"]), NONE, np.int64)
    saved = len(columns["saved_tensors/time"])
    columns["saved_tensors/device"] = np.full(saved, 0 if len(meta["devices"]) == 1 else NONE, np.int32)
    columns |= _the_step(meta, columns)
    return meta, columns


def _the_step(meta: dict[str, Any], columns: Columns) -> Columns:
    whole = columns["spans/module"] == NONE
    rows = int(whole.any())
    index, loss = meta.get("step_index"), meta.get("loss")
    return {
        "steps/index": np.full(rows, index if isinstance(index, int) else NONE, np.int64),
        "steps/start_time": columns["spans/start_time"][whole].min(keepdims=True) if rows else np.empty(0, np.int64),
        "steps/end_time": columns["spans/end_time"][whole].max(keepdims=True) if rows else np.empty(0, np.int64),
        "steps/recorded": np.ones(rows, np.bool_),
        "steps/tokens": np.full(rows, NONE, np.int64),
        "steps/loss": np.full(rows, loss if isinstance(loss, float) else np.nan, np.float64),
    }


STEPS: dict[int, Step] = {1: _from_1}
"""`STEPS[n]` turns format n into format n + 1."""


def to_current(meta: dict[str, Any], columns: Columns, name: str) -> tuple[dict[str, Any], Columns]:
    """Meta and columns of format `FORMAT_VERSION`; raises FormatError for files this version cannot know."""
    version = meta.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(f"{name} does not say which format version it is, so it cannot be read.")
    if version > FORMAT_VERSION:
        raise FormatError(
            f"{name} was written by a newer memstrata (format {version}, this one reads up to {FORMAT_VERSION}): "
            "upgrade memstrata to open it."
        )
    while version < FORMAT_VERSION:
        meta, columns = STEPS[version](meta, columns)
        version += 1
    return meta, columns
