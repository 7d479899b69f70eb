"""The table of all open runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis.all_runs import RunFigures
from ..look.units import bytes_text, exact_bytes_text, seconds_text
from .array_table import Column

UNKNOWN = "unknown"


def run_columns(figures: Sequence[RunFigures], sides: Sequence[str]) -> list[Column]:
    """A row for each run; `sides` says which of them are A and B. Columns of bytes that no run can fill are left out;
    speeds that are not known are said to be unknown."""
    columns = [
        Column("side", _ranks(sides), lambda i: sides[i], meaning="which of them are compared above"),
        Column("run", _ranks([f.name for f in figures]), lambda i: figures[i].name),
    ]
    if any(f.rank is not None for f in figures):
        columns.append(_number("rank", [f.rank for f in figures], str, "rank of the process"))
    for title, field, meaning in (
        ("peak", "peak_bytes", "highest active bytes"),
        ("activations", "activation_bytes", "most bytes of activations, rematerialized ones included"),
        ("communication", "communication_bytes", "most bytes of collectives' buffers and gathered shards"),
        ("reserved", "reserved_bytes", "most bytes that the allocator held"),
        ("unused at end", "unused_bytes", "reserved at the end and not in use"),
    ):
        values = [getattr(f, field) for f in figures]
        if any(value is not None for value in values):
            columns.append(_bytes(title, values, meaning))
    seconds, rates = [f.step_seconds for f in figures], [f.tokens_per_second for f in figures]
    step = _number("step", seconds, seconds_text, "median of the steps that were not recorded")
    columns.append(replace(step, seconds=lambda i: seconds[i]))
    columns.append(_number("tokens/s", rates, lambda rate: f"{rate:,.0f}", "over the steps that were not recorded"))
    return columns


def _bytes(title: str, values: Sequence[int | None], meaning: str) -> Column:
    most = max((value or 0 for value in values), default=0) or 1
    share = np.array([(value or 0) / most for value in values])
    return Column(
        title, _keys(values), lambda i: _or_unknown(values[i], bytes_text),
        lambda i: _or_unknown(values[i], exact_bytes_text), True, share, meaning=meaning,
    )  # fmt: skip


def _number(title: str, values: Sequence[Any], text: Callable[[Any], str], meaning: str) -> Column:
    return Column(title, _keys(values), lambda i: _or_unknown(values[i], text), None, True, meaning=meaning)


def _ranks(texts: Sequence[str]) -> NDArray[Any]:
    """The place of each text in alphabetical order."""
    return np.unique(np.array(texts, object), return_inverse=True)[1]


def _keys(values: Sequence[Any]) -> NDArray[np.float64]:
    return np.array([-1.0 if value is None else float(value) for value in values])


def _or_unknown(value: Any, text: Callable[[Any], str]) -> str:
    return UNKNOWN if value is None else text(value)
