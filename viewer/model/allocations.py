"""The table of allocations, and the ways to build one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.schema import B1, I32, I64, NONE

from .ordering import ascending


@dataclass(frozen=True, eq=False)
class Allocations:
    """One row for each allocation of a device: those before the first event first, then in order of their event.

    An allocation is alive at position p iff `start <= p < end`. Made by event e: start = e + 1; freed by event f:
    end = f + 1; alive before the first event: start = 0; never freed: end = n_events + 1.
    """

    address: I64
    """0 where no event and no block explains the bytes."""
    bytes: I64
    """Requested bytes."""
    start: I64
    end: I64
    stack: I32
    """Row of stacks where it was allocated, -1 unknown."""
    free_stack: I32
    """Row of stacks where it was freed, -1 unknown."""
    stream: I64
    thread: I64
    before: B1
    """Alive before the recording."""

    def __len__(self) -> int:
        return len(self.address)

    def take(self, rows: Any) -> Allocations:
        """These rows, in this order."""
        return Allocations(**{f.name: getattr(self, f.name)[rows] for f in dataclasses.fields(self)})

    def alive(self, position: int) -> I64:
        """Rows alive at this position."""
        return np.flatnonzero((self.start <= position) & (position < self.end))


_DTYPES: dict[str, Any] = {"stack": np.int32, "free_stack": np.int32, "before": np.bool_}
_DEFAULTS: dict[str, Any] = {"stack": NONE, "free_stack": NONE, "stream": 0, "thread": NONE}


def rows(count: int, **columns: Any) -> Allocations:
    """`count` allocations from the columns at hand; single values are repeated, missing ones are unknown. Columns are
    kept, not copied, where they are of the right type."""
    values = {**_DEFAULTS, **columns}
    made = {}
    for f in dataclasses.fields(Allocations):
        made[f.name] = np.broadcast_to(np.asarray(values[f.name], _DTYPES.get(f.name, np.int64)), count)
    return Allocations(**made)


def joined(parts: list[Allocations]) -> Allocations:
    """All rows of all parts: what was there before first, then by start."""
    fields = dataclasses.fields(Allocations)
    whole = Allocations(**{f.name: _together([getattr(p, f.name) for p in parts]) for f in fields})
    key = whole.start + ~whole.before  # before or not, nothing starts ahead of the first event but what was there
    return whole if (key[1:] >= key[:-1]).all() else whole.take(ascending(key))


def _together(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """One column after the other. A value that all rows share is kept once."""
    count = sum(len(column) for column in columns)
    value = next((column[0] for column in columns if len(column)), None)
    if value is not None and all((column == value).all() for column in columns):
        return np.broadcast_to(value, count)
    return np.concatenate(columns)


def picked(column: NDArray[Any], rows: I64) -> NDArray[Any]:
    """`column[rows]`. A value that all rows share is kept once."""
    if len(column) and (column == column[0]).all():
        return np.broadcast_to(column[0], len(rows))
    return column[rows]
