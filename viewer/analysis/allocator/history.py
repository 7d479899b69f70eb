"""Where every block lay at any position of a replay, without playing it again: what the window's map steps through."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memstrata.capture.format.schema import B1, I32, I64, Action

from .replay import Replay
from .rules import SMALL_SIZE, rounded
from .sequence import Op


@dataclass(frozen=True, eq=False)
class Layout:
    """The reserved memory at one moment: ranges in order of address, and the blocks in use in them."""

    address: I64
    bytes: I64
    expandable: B1
    stream: I64
    pool: I32
    """Private pool of each range, as `past.pool_ids` numbers them; 0 is the default pool."""
    is_small: B1
    """Whether a range belongs to the small part of its pool."""
    number: I64
    """Allocation of each block, in order of address."""
    block_address: I64
    block_bytes: I64
    home: I64
    """Row of the range that holds each block."""

    @property
    def reserved_bytes(self) -> int:
        """All ranges."""
        return int(self.bytes.sum())

    @cached_property
    def kinds(self) -> list[tuple[tuple[int, bool, int], I64]]:
        """((pool, is small, stream), rows of its ranges in order of address): what cannot lend memory to one another.
        The default pool first, large before small."""
        order = np.lexsort((self.address, self.stream, self.is_small, self.pool))
        keys = list(zip(self.pool[order].tolist(), self.is_small[order].tolist(), self.stream[order].tolist()))
        cuts = [i for i in range(1, len(keys)) if keys[i] != keys[i - 1]]
        parts = np.split(order, cuts) if len(order) else []
        return [(keys[first], rows) for first, rows in zip((0, *cuts), parts)]

    @cached_property
    def free_bytes(self) -> I64:
        """What no block holds, by range."""
        used = np.zeros(len(self.bytes), np.int64)
        np.add.at(used, self.home, self.block_bytes)
        return self.bytes - used

    def block_at(self, row: int, address: int) -> int:
        """The block of a range that holds an address, -1 for none."""
        found = int(np.searchsorted(self.block_address, address, "right")) - 1
        inside = found >= 0 and self.home[found] == row
        return found if inside and address < self.block_address[found] + self.block_bytes[found] else -1

    def gap_at(self, row: int, address: int) -> int:
        """Bytes of the free block of a range that holds an address."""
        after = int(np.searchsorted(self.block_address, address, "right"))
        start, end = int(self.address[row]), int(self.address[row] + self.bytes[row])
        if after > 0 and self.home[after - 1] == row:
            start = int(self.block_address[after - 1] + self.block_bytes[after - 1])
        if after < len(self.home) and self.home[after] == row:
            end = int(self.block_address[after])
        return end - start


class History:
    """The layouts of one replay. A position is one of the device's events, as in the charts."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        s = replay.sequence
        self._made = np.full(s.count, len(s), np.int64)
        self._freed = np.full(s.count, len(s), np.int64)
        making = np.flatnonzero((s.kind == Op.alloc) | (s.kind == Op.failed))
        self._made[s.id[making]] = making
        self._made[replay.start.block_id] = -1
        freeing = np.flatnonzero(s.kind == Op.free)
        self._freed[s.id[freeing]] = freeing

    def at(self, position: int) -> Layout:
        """The layout after the events before this position."""
        played, outcome = self.replay, self.replay.outcome
        row = int(played.at_position(np.array([position]))[0])
        if outcome.stopped_at is not None:
            row = min(row, outcome.stopped_at + 1)  # the failed operation gave memory back and made nothing
        alive = np.flatnonzero((self._made < row) & (self._freed >= row) & (outcome.held > 0))
        alive = alive[np.argsort(outcome.address[alive], kind="stable")]
        ranges = self._ranges(row)
        at = outcome.address[alive]
        home = np.searchsorted(ranges[:, 0], at, "right").astype(np.int64) - 1
        inside = home >= 0  # a file that contradicts itself has blocks outside of everything
        blocks = alive[inside], at[inside], outcome.held[alive][inside], home[inside]
        return Layout(*columns_of(ranges), *blocks)

    def _ranges(self, row: int) -> I64:
        """(address, bytes, expandable, stream, pool, is small) of each range, in order of address."""
        native, mapped = self._at_start()
        for move, kind in zip(self.replay.outcome.moves, self._kinds):
            if move.op >= row:
                break
            if move.action == Action.segment_alloc:
                native[move.address] = move.bytes, kind
            elif move.action == Action.segment_free:
                native.pop(move.address, None)
            elif move.action == Action.segment_map:
                _join(mapped, move.address, move.address + move.bytes, kind)
            else:
                _cut(mapped, move.address, move.address + move.bytes)
        rows = [(a, n, 0, *kind) for a, (n, kind) in native.items()]
        rows += [(a, end - a, 1, *kind) for a, (end, kind) in mapped.items()]
        return np.array(sorted(rows), np.int64).reshape(-1, 6)

    def _at_start(self) -> tuple[dict[int, tuple[int, _Kind]], dict[int, tuple[int, _Kind]]]:
        """Ranges of cudaMalloc by address with their bytes, those of expandable segments with their end."""
        start = self.replay.start
        native, mapped = {}, {}
        kinds = zip(start.stream.tolist(), start.pool.tolist(), start.is_small.tolist())
        for a, n, base, kind in zip(start.address.tolist(), start.bytes.tolist(), start.base.tolist(), kinds):
            if base < 0:
                native[a] = n, kind
            else:
                mapped[a] = a + n, kind
        return native, mapped

    @cached_property
    def _kinds(self) -> list[_Kind]:
        """Of each move, by the request that the allocator grew for."""
        s, moves = self.replay.sequence, self.replay.outcome.moves
        ops = np.array([move.op for move in moves], np.int64)
        small = rounded(s.bytes[ops], self.replay.config) <= SMALL_SIZE
        return list(zip((move.stream for move in moves), s.pool[ops].tolist(), small.tolist()))


_Kind = tuple[int, int, bool]
"""(stream, pool, is small)."""


def columns_of(ranges: I64) -> tuple[I64, I64, B1, I64, I32, B1]:
    """The columns of a layout from rows (address, bytes, expandable, stream, pool, is small)."""
    address, size, expandable, stream, pool, small = ranges.T
    return address, size, expandable.astype(np.bool_), stream, pool.astype(np.int32), small.astype(np.bool_)


def _join(mapped: dict[int, tuple[int, _Kind]], start: int, end: int, kind: _Kind) -> None:
    """Adds an interval; neighbours of the same kind that touch become one."""
    if end in mapped and mapped[end][1] == kind:
        end = mapped.pop(end)[0]
    before = next((a for a, (e, other) in mapped.items() if e == start and other == kind), start)
    mapped[before] = end, kind


def _cut(mapped: dict[int, tuple[int, _Kind]], start: int, end: int) -> None:
    """Takes an interval out."""
    for a, (e, kind) in [(a, held) for a, held in mapped.items() if a < end and start < held[0]]:
        del mapped[a]
        if a < start:
            mapped[a] = start, kind
        if end < e:
            mapped[end] = e, kind
