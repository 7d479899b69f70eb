"""Bytes along stacks: from the outermost caller down, or from the allocating frame up through its callers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memstrata.capture.format.schema import I32, I64, NONE

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
        return np.flatnonzero(self.parent == node)

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


def stack_tree(run: Run, rows: I64, bottom_up: bool = False) -> StackTree:
    """The tree of these allocations: callers above callees, or, bottom up, callees above their callers."""
    stacks, at = np.unique(run.allocations.stack[rows].astype(np.int64), return_inverse=True)
    sizes, counts = np.zeros(len(stacks), np.int64), np.zeros(len(stacks), np.int64)
    np.add.at(sizes, at, run.allocations.bytes[rows])
    np.add.at(counts, at, 1)
    paths = _Inward(run, stacks) if bottom_up else _Outward(run, stacks)
    return _grown(paths, sizes, counts)


class _Inward:
    """The frames of each stack from the innermost outwards, level by level."""

    def __init__(self, run: Run, stacks: I64) -> None:
        self._table = run.recording.stacks
        self._at = stacks.astype(np.int64)

    def next(self, alive: I64) -> I64:
        """The frame of each of these stacks on this level; -2 where a stack has ended before."""
        at = self._at[alive]
        out = np.where(at == -2, -2, np.append(self._table.frame, NO_STACK)[np.maximum(at, NO_STACK)])
        return out.astype(np.int64)

    def step(self) -> None:
        """Go on to the next level; the node without a stack ends with the first."""
        above = np.where(self._at >= 0, np.append(self._table.parent, NONE)[self._at], NONE)
        self._at = np.where(above >= 0, above, -2)


class _Outward(_Inward):
    """The frames of each stack from the outermost inwards: the inward path read backwards."""

    def __init__(self, run: Run, stacks: I64) -> None:
        super().__init__(run, stacks)
        levels: list[I64] = []
        at = stacks.astype(np.int64)
        parent = np.append(self._table.parent, -1).astype(np.int64)
        while (at >= 0).any() and len(levels) < DEEPEST:
            levels.append(at)
            at = np.where(at >= 0, parent[at], -1)
        self._levels = np.array(levels, np.int64).reshape(len(levels), len(stacks))
        self._length = (self._levels >= 0).sum(axis=0)
        self._number = 0
        self._none = stacks < 0

    def next(self, alive: I64) -> I64:
        place = self._length[alive] - 1 - self._number
        inside = place >= 0
        rows = self._levels[np.maximum(place, 0), alive] if len(self._levels) else np.full(len(alive), -1, np.int64)
        frames = np.append(self._table.frame, NO_STACK)[np.where(inside, rows, -1)]
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
