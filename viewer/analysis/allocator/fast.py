"""The replay itself, as fast as plain Python allows: one loop without objects; the rare cases are in `ranges`."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import islice, repeat

import numpy as np

from memstrata.capture.format.schema import I64

from ...model.said import Said, quiet
from .config import Config
from .following import Follower
from .memory import VIRTUAL, Memory, RecordedMemory
from .ranges import MASK, SHIFT, Ranges
from .rules import UNLIMITED, rounded
from .sequence import Op, Outcome, Sequence, State
from .tables import Pools

_Row = tuple[int, int, int, int, int, int]
_Choice = Callable[[list[int], int, int], int]
_AT_ONCE = 50_000
"""Operations between two words about how far it is."""


class FastAllocator:
    """One replay. `want`: recorded addresses by allocation number (-1: none); a differing one is noted and followed."""

    def __init__(
        self, sequence: Sequence, config: Config, memory: Memory, state: State,
        want: I64 | None = None, allowed: int | None = None, virtual: int = VIRTUAL,
        said: Said = quiet,
    ) -> None:  # fmt: skip
        self._sequence, self._want = sequence, want
        self._pools = Pools(sequence, state, rounded(sequence.bytes, config))
        self._ranges = Ranges(config, memory, self._pools, allowed, virtual)
        self._memory, self._config, self._said = memory, config, said
        self._place, self._held = [-1] * sequence.count, [0] * sequence.count
        self._failures: list[int] = []
        self.misplaced = self._ranges.load(state)
        """Rows of the state's blocks that lie in no range: their frees are ignored."""
        self._start(state)
        self._follower = Follower(self._ranges, self._place, self._held)

    def _start(self, state: State) -> None:
        lost = set(self.misplaced)
        rows = zip(state.block_id.tolist(), state.block_address.tolist(), state.block_bytes.tolist())
        for row, (number, address, size) in enumerate(rows):
            self._place[number] = address
            self._held[number] = 0 if row in lost else size

    def run(self) -> Outcome:
        """Plays the whole sequence; ends at the first OOM where cudaMalloc is simulated."""
        stopped = self._play()
        place, held = np.array(self._place, np.int64), np.array(self._held, np.int64)
        end = self._ranges.state(self._alive(stopped), place, held)
        return Outcome(place, held, self._ranges.moves, self._failures, end, stopped, self._follower.mismatches)

    def _play(self) -> int | None:
        """The operation at which memory ran out."""
        rows, total, choose = self._rows(), len(self._sequence), self._chooser()
        for begin in range(0, total, _AT_ONCE):
            self._said(begin / total)
            stopped = self._loop(islice(rows, _AT_ONCE), choose)
            if stopped is not None:
                return stopped
        return None

    def _alive(self, stopped: int | None) -> I64:
        """Numbers of the allocations that hold a block at the end."""
        gone = self._sequence.id[:stopped][self._sequence.kind[:stopped] == Op.free]
        held = np.array(self._held, np.int64) > 0
        held[gone] = False
        return np.flatnonzero(held)

    def _rows(self) -> Iterator[_Row]:
        """(operation, kind, number, rounded bytes, pool, wanted address)."""
        sequence = self._sequence
        wanted: Iterator[int] = repeat(-1)
        if self._want is not None:
            made = sequence.kind == Op.alloc
            addresses = np.full(len(sequence), -1)
            addresses[made] = self._want[sequence.id[made]]
            wanted = iter(addresses.tolist())
        kinds, numbers = sequence.kind.tolist(), sequence.id.tolist()
        return zip(range(len(kinds)), kinds, numbers, self._pools.sizes, self._pools.of_op, wanted)

    def _loop(self, rows: Iterator[_Row], choose: _Choice | None) -> int | None:
        ranges, place, held = self._ranges, self._place, self._held
        free, starts, ends, heads, least = ranges.free, ranges.starts, ranges.ends, ranges.heads, ranges.least
        unsplit = ranges.unsplit
        for op, kind, number, size, pool, wanted in rows:
            mine = free[pool]
            if kind == 1:
                if size := held[number]:
                    at = place[number]
                    end = at + size
                    if (block := starts.get(end)) is not None and end not in heads:
                        del starts[end], mine[bisect_left(mine, block)]
                        end += block >> SHIFT
                    if (block := ends.get(at)) is not None and at not in heads:
                        del ends[at], mine[bisect_left(mine, block)]
                        at = block & MASK
                    starts[at] = ends[end] = block = end - at << SHIFT | at
                    insort(mine, block)
            elif kind == 0:
                i = bisect_left(mine, size << SHIFT)
                if choose:
                    i = choose(mine, i, size)
                if i == len(mine):
                    if (at := ranges.grow(op, size, pool)) < 0:
                        if self._unserved(op, number, size, pool, wanted):
                            return op
                        continue
                    i = bisect_left(mine, starts[at])
                block = mine.pop(i)
                at, whole = block & MASK, block >> SHIFT
                del starts[at]
                if whole - size >= least[pool] and size < unsplit:
                    starts[at + size] = ends[at + whole] = block = whole - size << SHIFT | at + size
                    insort(mine, block)
                    whole = size
                else:
                    del ends[at + whole]
                place[number], held[number] = at, whole
                if at != wanted and wanted >= 0:
                    self._correct(op, number, size, pool, wanted)
            elif self._rare(op, kind, number, size, pool):
                return op
        return None

    def _chooser(self) -> _Choice | None:
        """What looks beyond the best fit, where a setting asks for it."""
        special = self._config.expandable_segments or self._ranges.expandable or self._ranges.limit < UNLIMITED
        return self._choose if special else None

    def _choose(self, mine: list[int], i: int, size: int) -> int:
        ranges, limit = self._ranges, self._ranges.limit
        if i < len(mine) and ranges.expandable:
            enabled = self._config.expandable_segments
            if not enabled or (mine[i] & MASK) + (mine[i] >> SHIFT) in ranges.expandable.size:
                i = ranges.expandable.choose(mine, i, enabled)
        if i == len(mine):
            return i
        whole = mine[i] >> SHIFT
        oversize = whole >= limit if size < limit else whole >= size + self._config.non_split_rounding_bytes
        return len(mine) if oversize else i

    def _unserved(self, op: int, number: int, size: int, pool: int, wanted: int) -> bool:
        """There is no memory: the end of a simulated run, a difference from a recorded one."""
        if not self._memory.recorded:
            self._failures.append(op)
            return True
        if wanted >= 0:
            self._correct(op, number, size, pool, wanted)
        return False

    def _correct(self, op: int, number: int, size: int, pool: int, wanted: int) -> None:
        assert isinstance(self._memory, RecordedMemory)
        self._follower.correct(op, number, size, pool, wanted, self._memory.rest(op))

    def _rare(self, op: int, kind: int, number: int, size: int, pool: int) -> bool:
        """Emptying the cache, and recorded OOMs; True ends the replay."""
        if isinstance(self._memory, RecordedMemory):
            moves = self._memory.rest(op)
            if kind == Op.failed:
                mine = self._ranges.free[pool]
                self._follower.failed(op, size, self._choose(mine, bisect_left(mine, size << SHIFT), size) < len(mine))
            else:
                self._memory.matched += self._follower.release(op, moves)
            return False
        if kind == Op.empty_cache:
            self._ranges.release_all(op)
        return kind == Op.failed and not self._serve(op, number, size, pool)

    def _serve(self, op: int, number: int, size: int, pool: int) -> bool:
        """An allocation outside the loop."""
        ranges = self._ranges
        mine = ranges.free[pool]
        i = self._choose(mine, bisect_left(mine, size << SHIFT), size)
        at = mine[i] & MASK if i < len(mine) else ranges.grow(op, size, pool)
        if at < 0:
            self._failures.append(op)
            return False
        end = ranges.remove(at, pool)
        if end - at - size >= ranges.least[pool] and size < ranges.unsplit:
            ranges.insert(at + size, end, pool)
            end = at + size
        self._place[number], self._held[number] = at, end - at
        return True
