"""Which allocations are alive at a position, from checkpoints: the cost does not grow with all that ever lived."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import I32, I64

from .allocations import Allocations

EVERY = 512
"""Rows from one checkpoint to the next, where few are alive at once."""


@dataclass(frozen=True, eq=False)
class LiveSet:
    """Checkpoint c holds the rows before row `first[c]` that are alive when the last of them is made."""

    allocations: Allocations
    first: I64
    rows: I32
    """Those of all checkpoints, one after the other."""
    offset: I64
    """Where those of each checkpoint begin in `rows`, and the end."""

    def at(self, position: int) -> I64:
        """The rows alive at a position, in the order in which they were made: as `Allocations.alive`."""
        a = self.allocations
        made = int(np.searchsorted(a.start, position, "right"))
        c = int(np.searchsorted(self.first, made, "right")) - 1
        old = self.rows[self.offset[c] : self.offset[c + 1]]
        new = np.flatnonzero(a.end[self.first[c] : made] > position) + self.first[c]
        return np.concatenate([old[a.end[old] > position].astype(np.int64), new])

    def at_each(self, positions: I64) -> tuple[I32, I64]:
        """(the rows alive at each of these positions, one position after the other; how many they are)."""
        a, n = self.allocations, len(positions)
        made = np.searchsorted(a.start, positions, "right")
        c = np.searchsorted(self.first, made, "right") - 1
        begin = np.stack([self.offset[c], self.first[c]], axis=1).ravel()  # of the old ones in `rows`, of the new ones
        count = np.stack([self.offset[c + 1], made], axis=1).ravel() - begin
        ends = np.cumsum(count)
        rows = np.arange(int(ends[-1]) if n else 0, dtype=np.int32)
        rows += np.repeat((begin - ends + count).astype(np.int32), count)
        old = np.repeat(np.arange(2 * n) % 2 == 0, count)
        rows[old] = self.rows[rows[old]]
        after = ends[1::2]  # where the rows of each position end
        wanted = np.repeat(positions, np.diff(after, prepend=0))
        alive = np.flatnonzero(a.end.take(rows, mode="clip") > wanted)
        return rows[alive], np.diff(np.searchsorted(alive, after), prepend=0)

    @property
    def most(self) -> int:
        """The most rows in a checkpoint: about as many as are ever alive at once."""
        return int(np.diff(self.offset).max())


def live_set(allocations: Allocations) -> LiveSet:
    """The checkpoints of a table whose rows are in order of their start.

    Where many rows are alive at once the checkpoints stand further apart, at least half as many rows as they hold, so
    that all of them together hold no more than about twice as many rows as there are.
    """
    first, parts = [0], [np.empty(0, np.int64)]
    while (at := first[-1] + max(EVERY, len(parts[-1]) // 2)) <= len(allocations):
        seen = np.concatenate([parts[-1], np.arange(first[-1], at)])
        parts.append(seen[allocations.end[seen] > allocations.start[at - 1]])
        first.append(at)
    offset = np.cumsum([0, *(len(part) for part in parts)])
    return LiveSet(allocations, np.array(first, np.int64), np.concatenate(parts).astype(np.int32), offset)
