"""The stacks of two runs at their peaks as one tree: what each caller holds in a and in b.

Frames are the same where file, line and function are. Only the user's own frames are followed where a stack has any,
since library frames differ from version to version and say little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from memstrata.capture.format.schema import B1, NONE

from ..model.frame_names import frame_name
from ..model.query import AllocationQuery
from ..model.run import Run
from ..model.stacks import own_frames
from .at_peaks import alive_at_peak
from .changes import NO_STACK

TOP = 0
DEEPEST = 400


@dataclass
class Node:
    """A frame, below the frame that called it."""

    name: str
    parent: int
    """Number of the node above; -1 for the root, which holds everything."""
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    """In a and in b, of everything made below."""
    count: list[int] = field(default_factory=lambda: [0, 0])
    children: list[int] = field(default_factory=list)
    """The largest difference first."""
    rows: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    """Allocations whose stack ends here, in a and in b."""

    @property
    def difference_bytes(self) -> int:
        """What b has more."""
        return self.bytes[1] - self.bytes[0]


class StackDiff:
    """`nodes[TOP]` is the whole; children close exactly on their parent together with what ends in it."""

    def __init__(self, a: Run, b: Run, filter: str = "") -> None:
        self.nodes = [Node("all", NONE)]
        self._found: dict[tuple[int, str], int] = {}
        for side, run in enumerate((a, b)):
            for path, rows in _paths(run, filter):
                self._add(side, path, rows, int(run.allocations.bytes[rows].sum()))
        for node in self.nodes:
            node.children.sort(key=lambda n: (-abs(self.nodes[n].difference_bytes), -sum(self.nodes[n].bytes)))

    def _add(self, side: int, path: list[str], rows: list[int], size: int) -> None:
        at = TOP
        for name in ["", *path]:
            at = self._child(at, name) if name else at
            self.nodes[at].bytes[side] += size
            self.nodes[at].count[side] += len(rows)
        self.nodes[at].rows[side].extend(rows)

    def _child(self, at: int, name: str) -> int:
        if (at, name) not in self._found:
            self._found[at, name] = len(self.nodes)
            self.nodes[at].children.append(len(self.nodes))
            self.nodes.append(Node(name, at))
        return self._found[at, name]

    def queries(self, node: int) -> tuple[AllocationQuery, AllocationQuery]:
        """The allocations made in a node and below it, in each run."""
        below = [node]
        rows: tuple[list[int], list[int]] = ([], [])
        while below:
            one = self.nodes[below.pop()]
            below += one.children
            for side in (0, 1):
                rows[side].extend(one.rows[side])
        return AllocationQuery(rows=tuple(sorted(rows[0]))), AllocationQuery(rows=tuple(sorted(rows[1])))

    def telling_path(self) -> list[int]:
        """From the root always to the child with the largest difference, as long as it bears most of it."""
        path, at = [TOP], TOP
        while self.nodes[at].children:
            first = self.nodes[at].children[0]
            if abs(self.nodes[first].difference_bytes) * 2 < abs(self.nodes[at].difference_bytes):
                break
            path.append(first)
            at = first
        return path


def _paths(run: Run, filter: str) -> Iterator[tuple[list[str], list[int]]]:
    """(names of the frames, outermost first; rows) of each stack of what is alive at the peak."""
    alive = alive_at_peak(run, filter)
    stacks, part = np.unique(run.allocations.stack[alive], return_inverse=True)
    order = np.argsort(part, kind="stable")
    parts = np.split(alive[order], np.flatnonzero(np.diff(part[order])) + 1) if len(alive) else []
    own, names = own_frames(run.recording), dict[int, str]()
    for stack, rows in zip(stacks.tolist(), parts, strict=True):
        yield _names(run, stack, own, names), rows.tolist()


def _names(run: Run, stack: int, own: B1, names: dict[int, str]) -> list[str]:
    frames: list[int] = []
    table = run.recording.stacks
    while stack != NONE and len(frames) < DEEPEST:
        frames.append(int(table.frame[stack]))
        stack = int(table.parent[stack])
    shown = [frame for frame in frames if own[frame]] or frames
    for frame in shown:
        if frame not in names:
            names[frame] = frame_name(run.recording, frame)
    return [names[frame] for frame in reversed(shown)] or [NO_STACK]
