"""What was alive before the first event: blocks of the end state, or storages the recorder knew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I32, I64, NONE, BlockState

from .allocations import Allocations
from .events import DeviceEvents

ACTIVE = (BlockState.active_allocated, BlockState.active_pending_free)


@dataclass(frozen=True, eq=False)
class EndBlocks:
    """The active blocks at the end, in requested bytes."""

    address: I64
    bytes: I64
    stack: I32
    stream: I64


def end_blocks(recording: Recording, device_row: int) -> EndBlocks | None:
    """The active blocks of this device at the end; None where no allocator reported an end state."""
    segments, blocks = recording.allocator_segments, recording.blocks
    if not recording.meta.has_reserved and not (segments.device == device_row).any():
        return None
    mine = (segments.device == device_row)[blocks.segment] & np.isin(blocks.state, ACTIVE)
    at = np.flatnonzero(mine)
    return EndBlocks(
        blocks.address[at], blocks.requested_bytes[at], blocks.stack[at], segments.stream[blocks.segment[at]]
    )


@dataclass(frozen=True, eq=False)
class KnownRows:
    """Storages that no event made, as address, bytes and positions."""

    address: I64
    bytes: I64
    start: I64
    end: I64


def known_storages_without_event(
    recording: Recording, device_row: int, events: DeviceEvents, allocations: Allocations
) -> KnownRows:
    """Known storages that no allocation explains, for sources without an end state.

    Such a source (the CPU) reports neither what was alive before it began nor the free of it; the recorder watched
    these storages itself. They are as old as their address allows: from the start, or from the end of the last
    allocation there, until they died or their address was used again.
    """
    known = recording.known_storages
    mine = np.flatnonzero((known.device == device_row) & (known.address != 0) & (known.bytes > 0))
    mine = mine[np.argsort(known.start_time[mine], kind="stable")]
    n = len(events)
    first = events.started(known.start_time[mine])
    # Dead between two events: gone at the position after the second one.
    died = np.where(known.end_time[mine] == NONE, n + 1, events.started(known.end_time[mine]) + 1)
    spans = _Occupied(allocations)
    for row, p, end in zip(mine.tolist(), first.tolist(), died.tolist()):
        spans.add(int(known.address[row]), int(known.bytes[row]), p, end, n)
    return spans.rows()


class _Occupied:
    """The lifetimes at each address, to fit further ones between them."""

    def __init__(self, allocations: Allocations) -> None:
        self._made: list[tuple[int, int, int, int]] = []
        order = np.argsort(allocations.address, kind="stable")
        self._keys = allocations.address[order]
        self._start, self._end = allocations.start[order], allocations.end[order]
        self._added: dict[int, list[tuple[int, int]]] = {}

    def add(self, address: int, size: int, position: int, end: int, n: int) -> None:
        """Note a storage first seen at `position` and dead at `end`, unless a lifetime there covers it already."""
        lives = self._lives(address)
        if any(s <= position < e or position <= s < end for s, e in lives):
            return
        begin = max((e for _, e in lives if e <= position), default=0)
        until = min((s for s, _ in lives if s > position), default=n + 1)
        span = (begin, max(min(end, until), begin + 1))
        self._added.setdefault(address, []).append(span)
        self._made.append((address, size, *span))

    def _lives(self, address: int) -> list[tuple[int, int]]:
        lo, hi = np.searchsorted(self._keys, [address, address + 1])
        own = zip(self._start[lo:hi].tolist(), self._end[lo:hi].tolist())
        return [*own, *self._added.get(address, [])]

    def rows(self) -> KnownRows:
        """All storages noted."""
        columns = np.array(self._made, np.int64).reshape(-1, 4).T
        return KnownRows(*(np.ascontiguousarray(c) for c in columns))
