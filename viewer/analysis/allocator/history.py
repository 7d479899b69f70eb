"""Where every block lay at any position of a replay, without playing it again: what the window's map steps through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import B1, I64, Action

from .replay import Replay
from .sequence import Op


@dataclass(frozen=True, eq=False)
class Layout:
    """The reserved memory at one moment: ranges in order of address, and the blocks in use in them."""

    address: I64
    bytes: I64
    expandable: B1
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
        address, size, expandable = self._ranges(row)
        at = outcome.address[alive]
        home = np.searchsorted(address, at, "right").astype(np.int64) - 1
        inside = home >= 0  # a file that contradicts itself has blocks outside of everything
        return Layout(address, size, expandable, alive[inside], at[inside], outcome.held[alive][inside], home[inside])

    def _ranges(self, row: int) -> tuple[I64, I64, B1]:
        start = self.replay.start
        native = {a: n for a, n, b in zip(start.address.tolist(), start.bytes.tolist(), start.base.tolist()) if b < 0}
        mapped = {
            a: a + n for a, n, b in zip(start.address.tolist(), start.bytes.tolist(), start.base.tolist()) if b >= 0
        }
        for move in self.replay.outcome.moves:
            if move.op >= row:
                break
            if move.action == Action.segment_alloc:
                native[move.address] = move.bytes
            elif move.action == Action.segment_free:
                native.pop(move.address, None)
            elif move.action == Action.segment_map:
                _join(mapped, move.address, move.address + move.bytes)
            else:
                _cut(mapped, move.address, move.address + move.bytes)
        rows = sorted([(a, n, False) for a, n in native.items()] + [(a, e - a, True) for a, e in mapped.items()])
        table = np.array(rows, np.int64).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2].astype(np.bool_)


def _join(mapped: dict[int, int], start: int, end: int) -> None:
    """Adds an interval; neighbours that touch become one."""
    end = mapped.pop(end, end)
    before = next((a for a, e in mapped.items() if e == start), start)
    mapped[before] = end


def _cut(mapped: dict[int, int], start: int, end: int) -> None:
    """Takes an interval out."""
    for a, e in [(a, e) for a, e in mapped.items() if a < end and start < e]:
        del mapped[a]
        if a < start:
            mapped[a] = start
        if end < e:
            mapped[end] = e
