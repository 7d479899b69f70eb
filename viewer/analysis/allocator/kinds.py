"""The reserved memory of one moment range by range, and summed by what cannot lend memory to one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import I64

from .history import Layout, columns_of
from .sequence import State


@dataclass(frozen=True)
class Kind:
    """The ranges of one pool and stream. What no block holds is free."""

    pool: int
    is_small: bool
    stream: int
    ranges: int
    expandable: int
    """How many of the ranges belong to expandable segments."""
    reserved_bytes: int
    used_bytes: int
    largest_free_bytes: int
    """The largest single free block."""

    @property
    def free_bytes(self) -> int:
        """Reserved and in no block."""
        return self.reserved_bytes - self.used_bytes


def kinds_of(layout: Layout) -> tuple[Kind, ...]:
    """In the order of the layout; they sum to all that is reserved."""
    free, largest = layout.free_bytes, largest_free(layout)
    return tuple(
        Kind(
            *kind, len(rows), int(layout.expandable[rows].sum()), int(layout.bytes[rows].sum()),
            int((layout.bytes - free)[rows].sum()), int(largest[rows].max(initial=0)),
        )
        for kind, rows in layout.kinds
    )  # fmt: skip


def largest_free(layout: Layout) -> I64:
    """Bytes of the largest free block in each range."""
    begins, ends, home = layout.block_address, layout.block_address + layout.block_bytes, layout.home
    stop = layout.address + layout.bytes
    out = layout.bytes.copy()
    out[home] = 0
    first = np.append(True, home[1:] != home[:-1])[: len(home)]
    before = np.where(first, layout.address[home], np.append(0, ends[:-1])[: len(home)])
    np.maximum.at(out, home, begins - before)
    last = np.append(home[1:] != home[:-1], True)[: len(home)]
    np.maximum.at(out, home[last], stop[home[last]] - ends[last])
    return out


def layout_of(state: State) -> Layout:
    """The state of a replay as a layout."""
    order = np.argsort(state.address, kind="stable")
    columns = (state.address, state.bytes, state.base >= 0, state.stream, state.pool, state.is_small)
    ranges = np.stack([column[order].astype(np.int64) for column in columns], 1)
    blocks = np.argsort(state.block_address, kind="stable")
    at = state.block_address[blocks]
    home = np.searchsorted(ranges[:, 0], at, "right").astype(np.int64) - 1
    inside = home >= 0  # a file that contradicts itself has blocks outside of everything
    blocks = blocks[inside]
    return Layout(*columns_of(ranges), state.block_id[blocks], at[inside], state.block_bytes[blocks], home[inside])
