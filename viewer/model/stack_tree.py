"""Bytes along stacks: from the outermost caller down, or from the allocating frame up through its callers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I32, I64, NONE

from . import stacks

if TYPE_CHECKING:
    from .run import Run

NO_STACK = -1
"""The frame of the node that stands for allocations without a stack."""
DEEPEST = 400
"""Levels kept; what lies below counts as the last one's own. The deepest real stack seen has 303 frames."""


@dataclass(frozen=True, eq=False)
class StackTree:
    """Nodes level by level, each level in the order of its parents and in it the heaviest first.

    `offset` places a node as wide as its bytes inside its parent, so that the nodes are an icicle as they are.
    """

    frame: I32
    """Row of frames, `NO_STACK` for none."""
    parent: I32
    """Node, -1 at the top."""
    depth: I32
    bytes: I64
    """Of the allocations below, its own included."""
    own_bytes: I64
    """Of the allocations whose stack ends here."""
    count: I64
    """Allocations below, its own included."""
    offset: I64

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def total_bytes(self) -> int:
        """Bytes of all allocations."""
        return int(self.bytes[self.parent == NONE].sum())

    def children(self, node: int) -> I64:
        """The children of a node, the heaviest first; of -1 the nodes at the top."""
        first, last = np.searchsorted(self.parent, (node, node + 1))  # parents only rise from node to node
        return np.arange(first, last)

    def heaviest_path(self) -> list[int]:
        """From the top always the heaviest child, down to a node that weighs more itself than any of its children."""
        path: list[int] = []
        node = NONE
        while len(children := self.children(node)):
            first = int(children[0])
            if node != NONE and self.own_bytes[node] > self.bytes[first]:
                break
            path.append(first)
            node = first
        return path


def stack_tree(run: Run, rows: I64, bottom_up: bool = False, only: B1 | None = None) -> StackTree:
    """The tree of these allocations: callers above callees, or, bottom up, callees above their callers.

    `only` marks rows of frames: the others are left out of every stack that has at least one of those.
    """
    first, table = _paths(run.recording, only)
    found, at = np.unique(first[run.allocations.stack[rows]], return_inverse=True)
    sizes, counts = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
    np.add.at(sizes, at, run.allocations.bytes[rows])
    np.add.at(counts, at, 1)
    paths = _Inward(table, found) if bottom_up else _Outward(table, found)
    return _grown(paths, sizes, counts)


@dataclass(frozen=True, eq=False)
class _Table:
    """`Stacks` with one row more, which -1 leads to: no frame, no caller."""

    frame: I64
    parent: I64


def _paths(recording: Recording, only: B1 | None) -> tuple[I64, _Table]:
    """(where the path of each stack begins, with one more for no stack; the rows to follow)."""
    frame = np.append(recording.stacks.frame, NO_STACK).astype(np.int64)
    parent = np.append(recording.stacks.parent, NONE).astype(np.int64)
    itself = np.append(np.arange(len(recording.stacks)), NONE).astype(np.int64)
    if only is None or not len(recording.stacks):
        return itself, _Table(frame, parent)
    kept = only[recording.stacks.frame]
    nearest = np.append(stacks.nearest(recording.stacks.parent, kept), NONE).astype(np.int64)
    above = np.where(np.append(kept, False), nearest[parent], parent)
    return np.where(nearest != NONE, nearest, itself), _Table(frame, above)


class _Inward:
    """The frames of each stack from the innermost outwards, level by level."""

    def __init__(self, table: _Table, begin: I64) -> None:
        self._table = table
        self._at = begin

    def next(self, alive: I64) -> I64:
        """The frame of each of these stacks on this level; -2 where a stack has ended before."""
        at = self._at[alive]
        out = np.where(at == -2, -2, self._table.frame[np.maximum(at, NO_STACK)])
        return out.astype(np.int64)

    def step(self) -> None:
        """Go on to the next level; the node without a stack ends with the first."""
        above = np.where(self._at >= 0, self._table.parent[self._at], NONE)
        self._at = np.where(above >= 0, above, -2)


class _Outward(_Inward):
    """The frames of each stack from the outermost inwards: the inward path read backwards."""

    def __init__(self, table: _Table, begin: I64) -> None:
        super().__init__(table, begin)
        levels: list[I64] = []
        at = begin
        while (at >= 0).any() and len(levels) < DEEPEST:
            levels.append(at)
            at = np.where(at >= 0, table.parent[at], NONE)
        self._levels = np.array(levels, np.int64).reshape(len(levels), len(begin))
        self._length = (self._levels >= 0).sum(axis=0)
        self._number = 0
        self._none = begin < 0

    def next(self, alive: I64) -> I64:
        place = self._length[alive] - 1 - self._number
        inside = place >= 0
        rows = self._levels[np.maximum(place, 0), alive] if len(self._levels) else np.full(len(alive), -1, np.int64)
        frames = self._table.frame[np.where(inside, rows, NONE)]
        first = self._none[alive] & (self._number == 0)
        return np.where(inside, frames, np.where(first, NO_STACK, -2)).astype(np.int64)

    def step(self) -> None:
        self._number += 1


def _grown(paths: _Inward, sizes: I64, counts: I64) -> StackTree:
    """Level by level: stacks with the same node above and the same frame here share a node."""
    node = np.full(len(sizes), NONE, np.int64)
    alive = np.arange(len(sizes), dtype=np.int64)
    levels: list[tuple[I64, I64, I64, I64]] = []  # frame, parent, bytes, count
    own: list[tuple[I64, I64]] = []  # node, bytes of the stacks that end there
    first = 0
    while len(alive) and len(levels) < DEEPEST:
        frame = paths.next(alive)
        ended = frame == -2
        own.append((node[alive[ended]], sizes[alive[ended]]))
        alive, frame = alive[~ended], frame[~ended]
        if not len(alive):
            break
        level, place = _level(frame, node[alive], sizes[alive], counts[alive])
        node[alive] = first + place
        first += len(level[0])
        levels.append(level)
        paths.step()
    own.append((node[alive], sizes[alive]))
    return _tree(levels, own, first)


def _level(frame: I64, above: I64, sizes: I64, counts: I64) -> tuple[tuple[I64, I64, I64, I64], I64]:
    """The nodes of one level, and the place of each stack among them."""
    keys, place = np.unique(np.stack([above, frame]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    size, count = np.zeros(keys.shape[1], np.int64), np.zeros(keys.shape[1], np.int64)
    np.add.at(size, place, sizes)
    np.add.at(count, place, counts)
    order = np.lexsort((-size, keys[0]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return (keys[1][order], keys[0][order], size[order], count[order]), rank[place]


def _tree(levels: list[tuple[I64, I64, I64, I64]], own: list[tuple[I64, I64]], n: int) -> StackTree:
    none = [np.empty(0, np.int64)]
    frame, parent, size, count = (np.concatenate([level[i] for level in levels] or none) for i in range(4))
    depth = np.repeat(np.arange(len(levels)), [len(level[0]) for level in levels])
    mine = np.zeros(n + 1, np.int64)
    for nodes, sizes in own:
        np.add.at(mine, nodes, sizes)
    return StackTree(
        frame.astype(np.int32), parent.astype(np.int32), depth.astype(np.int32), size, mine[:n], count,
        _offsets(levels, n),
    )  # fmt: skip


def _offsets(levels: list[tuple[I64, I64, I64, I64]], n: int) -> I64:
    """Siblings side by side from where their parent begins."""
    out = np.zeros(n, np.int64)
    first = 0
    for _, parent, size, _ in levels:
        before = np.cumsum(size) - size
        begins = np.searchsorted(parent, parent)  # the first sibling of each
        base = np.where(parent >= 0, out[np.maximum(parent, 0)], 0)
        out[first : first + len(size)] = base + before - before[begins]
        first += len(size)
    return out
