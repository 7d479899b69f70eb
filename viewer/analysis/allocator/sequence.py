"""What goes into a replay and what comes out: the sequence of operations, the state at its start, the outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from memstrata.capture.format.schema import B1, I32, I64, U8, Action


class Op(IntEnum):
    """One thing asked of the allocator."""

    alloc = 0
    free = 1
    empty_cache = 2
    retry = 3
    """The cache was emptied because cudaMalloc had failed: happens in a replay of the recorded answers only."""
    failed = 4
    """An allocation that ended in an OOM; like an allocation where cudaMalloc is simulated."""


@dataclass(frozen=True, eq=False)
class Sequence:
    """Operations in order, one row each. Allocations are numbered 0 .. count - 1, each made and freed at most once."""

    kind: U8
    """An `Op`."""
    id: I64
    """Number of the allocation; -1 for emptying the cache."""
    bytes: I64
    """Requested bytes of an allocation; ignored elsewhere."""
    stream: I64
    pool: I32
    """Number of the private pool, 0 for the default pool."""
    event: I64
    """Row of the device's events that asked for it; -1 for none."""
    count: int

    def __len__(self) -> int:
        return len(self.kind)

    def with_empty_cache(self, *events: int) -> Sequence:
        """The same with the cache emptied right before the first operation at or after each of these events."""
        at = np.searchsorted(np.maximum.accumulate(self.event), np.array(events, np.int64))
        columns = {"kind": Op.empty_cache, "id": -1, "bytes": 0, "stream": 0, "pool": 0}
        made = {name: np.insert(getattr(self, name), at, value) for name, value in columns.items()}
        return Sequence(**made, event=np.insert(self.event, at, events), count=self.count)


def sequence(
    kind: Any, id: Any, bytes: Any, stream: Any = 0, pool: Any = 0, event: Any = None, count: int = 0
) -> Sequence:
    """A sequence from anything array-like; single values are repeated, events default to the rows.

    `count` is at least how many allocations there are, those of the state at the start included. Raises ValueError
    where an allocation is made or freed twice, or has no number.
    """
    kinds = np.asarray(kind, np.uint8)
    n = len(kinds)
    ids = np.array(np.broadcast_to(id, n), np.int64)
    count = max(int(ids.max(initial=-1)) + 1, count)
    making = (kinds == Op.alloc) | (kinds == Op.failed)
    frees = kinds == Op.free
    if (ids[making | frees] < 0).any() or (np.bincount(ids[making], minlength=count) > 1).any():
        raise ValueError("every allocation needs a number of its own")
    if (np.bincount(ids[frees], minlength=count) > 1).any():
        raise ValueError("an allocation is freed twice")
    return Sequence(
        kind=kinds,
        id=ids,
        bytes=np.array(np.broadcast_to(bytes, n), np.int64),
        stream=np.array(np.broadcast_to(stream, n), np.int64),
        pool=np.array(np.broadcast_to(pool, n), np.int32),
        event=np.arange(n, dtype=np.int64) if event is None else np.array(event, np.int64),
        count=count,
    )


@dataclass(frozen=True, eq=False)
class State:
    """The allocator at one moment: its ranges, and the blocks in use in them. Everything else in a range is free."""

    address: I64
    bytes: I64
    stream: I64
    pool: I32
    is_small: B1
    base: I64
    """First address of the expandable segment that a mapped range belongs to; -1 for a range of cudaMalloc."""
    block_id: I64
    """Number of the allocation that holds the block."""
    block_address: I64
    block_bytes: I64
    """With rounding."""

    @property
    def reserved_bytes(self) -> int:
        """All ranges together."""
        return int(self.bytes.sum())


def empty_state() -> State:
    """An allocator that holds nothing."""
    none = np.empty(0, np.int64)
    return State(none, none, none, none.astype(np.int32), none.astype(np.bool_), none, none, none, none)


@dataclass(frozen=True)
class Move:
    """A change of the reserved memory: `action` is segment_alloc, segment_free, segment_map or segment_unmap."""

    op: int
    action: Action
    address: int
    bytes: int
    stream: int


@dataclass(frozen=True)
class Mismatch:
    """Where a replay of a recording differs from it."""

    op: int
    what: str


@dataclass(eq=False)
class Outcome:
    """What the allocator did."""

    address: I64
    """Of each allocation, by number; -1 where it was never made."""
    held: I64
    """Block bytes of each allocation, rounding included; 0 where it was never made."""
    moves: list[Move]
    failures: list[int]
    """Operations that ran out of memory."""
    end: State
    stopped_at: int | None = None
    """The failed operation at which the replay ended."""
    mismatches: list[Mismatch] = field(default_factory=list)
