"""The allocator once more, plainly: linked blocks in sorted lists, rule by rule as torch's source goes.

What the fast replay is checked against, and what plays sequences under a garbage collection threshold, which needs
the age of every cached block. It shares sizes and records with the fast one, and none of its bookkeeping.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from memstrata.capture.format.schema import Action

from .config import Config
from .memory import VIRTUAL, Memory
from .reference_blocks import Block, Pool, grown
from .reference_state import load, state_of
from .rules import SMALL_SIZE, UNLIMITED, least_remainder, page_bytes, rounded, segment_bytes
from .sequence import Move, Op, Outcome, Sequence, State


class ReferenceAllocator:
    """One replay, with the same inputs as the fast one and no recorded addresses to follow."""

    def __init__(
        self, sequence: Sequence, config: Config, memory: Memory, state: State,
        allowed: int | None = None, virtual: int = VIRTUAL,
    ) -> None:  # fmt: skip
        self._sequence, self.config, self._memory = sequence, config, memory
        self._allowed, self.virtual = allowed, virtual
        self._pools: dict[tuple[int, bool], Pool] = {}
        self._live: dict[int, Block] = {}
        self._place = np.full(sequence.count, -1, np.int64)
        self._held = np.zeros(sequence.count, np.int64)
        self._heads: set[Block] = set()
        """The first block of every range and expandable segment."""
        self.reserved = 0
        self._moves: list[Move] = []
        self._failures: list[int] = []
        load(self, state)

    def run(self) -> Outcome:
        """Plays the whole sequence; ends at the first OOM where cudaMalloc is simulated."""
        stopped = None
        sizes = rounded(self._sequence.bytes, self.config).tolist()
        rows = zip(*(getattr(self._sequence, name).tolist() for name in ("kind", "id", "stream", "pool")))
        for op, ((kind, number, stream, private), size) in enumerate(zip(rows, sizes)):
            if not self._step(op, kind, number, size, stream, private):
                stopped = op
                break
        end = state_of(self._heads, self._live)
        return Outcome(self._place, self._held, self._moves, self._failures, end, stopped)

    def _step(self, op: int, kind: int, number: int, size: int, stream: int, private: int) -> bool:
        recorded = self._memory.recorded
        if kind == Op.free:
            if number in self._live:
                self._free(self._live.pop(number))
        elif kind == Op.alloc or (kind == Op.failed and not recorded):
            block = self._malloc(op, size, stream, self.pool(private, size <= SMALL_SIZE))
            if block is None:
                if not recorded:
                    self._failures.append(op)
                return recorded
            self._live[number] = block
            self._place[number], self._held[number] = block.address, block.size
        elif kind == Op.empty_cache or (kind == Op.retry and recorded):
            self._release_cached(op)
        return True

    def pool(self, private: int, is_small: bool) -> Pool:
        """The pool of one size class."""
        return self._pools.setdefault((private, is_small), Pool(private, is_small))

    def append(
        self,
        previous: Block | None,
        start: int,
        end: int,
        stream: int,
        pool: Pool,
        mapped: bool,
        base: int,
        number: int,
    ) -> Block:
        """One more block of a chain, held by allocation `number` (-1: free)."""
        block = Block(start, end - start, stream, pool, number >= 0, mapped, base, previous)
        if previous is None:
            self._heads.add(block)
        else:
            previous.next = block
        if number >= 0:
            self._live[number] = block
            self._place[number], self._held[number] = block.address, block.size
        else:
            pool.add(block)
        return block

    # malloc ----------------------------------------------------------------------------------------------------

    def _malloc(self, op: int, size: int, stream: int, pool: Pool) -> Block | None:
        block = self._get_free_block(size, stream, pool)
        if block is None:
            if self._collects:
                self._collect(op)
            block = self._alloc_block(op, size, stream, pool)
            if block is None and not self._memory.recorded:
                if self._release_available(op, size, stream, pool):
                    block = self._alloc_block(op, size, stream, pool)
                if block is None:
                    self._release_cached(op)
                    block = self._alloc_block(op, size, stream, pool)
        return None if block is None else self._cut(block, size)

    @property
    def _collects(self) -> bool:
        return self._allowed is not None and self.config.garbage_collection_threshold > 0

    @property
    def _limit(self) -> int:
        return self.config.max_split_bytes or UNLIMITED

    def _cut(self, block: Block, size: int) -> Block:
        """The block, split where enough remains."""
        pool, remaining = block.pool, block.size - size
        splits = self.config.expandable_segments or size < self._limit
        if splits and remaining >= least_remainder(pool.is_small, self.config):
            rest = Block(block.address + size, remaining, block.stream, pool, base=block.base)
            rest.prev, rest.next = block, block.next
            if rest.next is not None:
                rest.next.prev = rest
            block.next, block.size = rest, size
            pool.add(rest)
        block.allocated = True
        return block

    def _get_free_block(self, size: int, stream: int, pool: Pool) -> Block | None:
        if self._collects:
            pool.searches += 1
        i = bisect_left(pool.blocks, (stream % (1 << 64), size, -1), key=lambda entry: entry[0])

        def at(place: int) -> Block | None:
            block = pool.blocks[place][1] if place < len(pool.blocks) else None
            return block if block is not None and block.stream == stream else None

        block = at(i)
        if block is not None and block.base >= 0:
            if self.config.expandable_segments:
                following = at(i + 1)
                while block.base >= 0 and following is not None and grown(following) < grown(block):
                    i, block = i + 1, following
                    following = at(i + 1)
            else:
                while block is not None and block.base >= 0:
                    i += 1
                    block = at(i)
        if block is None:
            return None
        if size < self._limit <= block.size:
            return None
        if size >= self._limit and block.size >= size + self.config.non_split_rounding_bytes:
            return None
        pool.drop(block)
        return block

    def _alloc_block(self, op: int, size: int, stream: int, pool: Pool) -> Block | None:
        ask = segment_bytes(size, self.config)
        if self._allowed is not None and self.reserved + ask > self._allowed:
            return None
        if self.config.expandable_segments:
            return self._expand(op, size, stream, pool)
        address = self._memory.malloc(op, ask, stream)
        if address < 0:
            return None
        block = Block(address, ask, stream, pool)
        self._heads.add(block)
        self._moved(op, Action.segment_alloc, block.address, ask, stream)
        return block

    def _moved(self, op: int, action: Action, address: int, size: int, stream: int) -> None:
        grew = action in (Action.segment_alloc, Action.segment_map)
        self.reserved += size if grew else -size
        self._moves.append(Move(op, action, address, size, stream))
        if not grew:
            self._memory.give_back(size)

    # free ------------------------------------------------------------------------------------------------------

    def _free(self, block: Block) -> None:
        block.allocated = False
        self._absorb(block, block.prev)
        self._absorb(block, block.next)
        block.pool.add(block)

    def _absorb(self, block: Block, other: Block | None) -> None:
        """Merges a neighbour into a block, if it is as free and as mapped."""
        if other is None or other.allocated or other.mapped != block.mapped:
            return
        other.pool.drop(other)
        if block.prev is other:
            block.address, block.prev = other.address, other.prev
            if block.prev is not None:
                block.prev.next = block
            if other in self._heads:
                self._heads.remove(other)
                self._heads.add(block)
        else:
            block.next = other.next
            if block.next is not None:
                block.next.prev = block
        block.size += other.size

    # giving back -----------------------------------------------------------------------------------------------

    def _release(self, op: int, block: Block) -> None:
        block.pool.drop(block)
        self._heads.discard(block)
        self._moved(op, Action.segment_free, block.address, block.size, block.stream)

    def _release_cached(self, op: int) -> None:
        for is_small in (False, True):
            pool = self.pool(0, is_small)
            blocks = [block for _, block in pool.blocks]
            for block in blocks:
                if block.base < 0 and not block.is_split:
                    self._release(op, block)
            for block in blocks:
                if block.base >= 0:
                    self._unmap(op, block)

    def _release_available(self, op: int, size: int, stream: int, pool: Pool) -> bool:
        if self.config.max_split_bytes is None:
            return False
        target = max(size, self._limit)
        mine = [block for _, block in pool.blocks if block.stream == stream and block.size >= self._limit]
        larger = [block for block in mine if block.size >= target]
        chosen, released = larger[:1], sum(block.size for block in larger[:1])
        while mine and not larger and released < target:
            chosen.append(mine.pop())
            released += chosen[-1].size
        whole = [block for block in chosen if block.base < 0 and not block.is_split]
        for block in whole:
            self._release(op, block)
        return sum(block.size for block in whole) >= target

    def _collect(self, op: int) -> None:
        """Gives back cached blocks that were passed over more often than the average, until enough is free."""
        assert self._allowed is not None
        threshold = int(self.config.garbage_collection_threshold * float(self._allowed))
        target, reclaimed = self.reserved - threshold, 0
        pool = self.pool(0, False)
        freeable = [block for _, block in pool.blocks if not block.is_split and block.base < 0]
        age = sum(pool.searches - block.born for block in freeable)
        while freeable and reclaimed < target:
            average = age / len(freeable)
            old = [block for block in freeable if pool.searches - block.born >= average]
            for block in old:
                age -= pool.searches - block.born
                reclaimed += block.size
                self._release(op, block)
            if not old:
                break
            freeable = [block for block in freeable if block not in old]

    # expandable segments ---------------------------------------------------------------------------------------

    def _expand(self, op: int, size: int, stream: int, pool: Pool) -> Block | None:
        candidate = self._find_expandable(op, size, stream, pool)
        if candidate is None or (not candidate.mapped and not self._map(op, candidate, min(candidate.size, size))):
            return None
        while candidate.size < size:
            hole = candidate.next
            if hole is None or not self._map(op, hole, min(size - candidate.size, hole.size)):
                return None
            candidate = hole
        pool.drop(candidate)
        return candidate

    def _find_expandable(self, op: int, size: int, stream: int, pool: Pool) -> Block | None:
        for _, hole in pool.holes:
            if hole.stream != stream:
                continue
            first = hole.prev if hole.prev is not None and not hole.prev.allocated else hole
            total, block = 0, first
            while block is not None and not block.allocated and total < size:
                total += block.size
                block = block.next  # type: ignore[assignment]
            if total >= size:
                return first
        base = self._memory.reserve(op, self.virtual)
        return None if base < 0 else self._new_segment(base, stream, pool)

    def _new_segment(self, base: int, stream: int, pool: Pool) -> Block:
        page = page_bytes(pool.is_small, self.config)
        virtual = -(-self.virtual // page) * page
        hole = Block(base, virtual, stream, pool, mapped=False, base=base)
        self._heads.add(hole)
        pool.add(hole)
        return hole

    def _map(self, op: int, hole: Block, size: int) -> bool:
        page = page_bytes(hole.pool.is_small, self.config)
        end = hole.base + -(-(hole.address + size - hole.base) // page) * page
        size = end - hole.address
        address = hole.address
        if not self._memory.map(op, address, size):
            return False
        self._split_hole(hole, size)
        self._moved(op, Action.segment_map, address, size, hole.stream)
        self._absorb(hole, hole.prev)
        self._absorb(hole, hole.next)
        hole.pool.add(hole)
        return True

    def _split_hole(self, hole: Block, size: int) -> None:
        """The first `size` bytes of a hole become mapped."""
        hole.pool.drop(hole)
        if size < hole.size:
            rest = Block(hole.address + size, hole.size - size, hole.stream, hole.pool, mapped=False, base=hole.base)
            rest.prev, rest.next = hole, hole.next
            if rest.next is not None:
                rest.next.prev = rest
            hole.next, hole.size = rest, size
            hole.pool.add(rest)
        hole.mapped = True

    def _unmap(self, op: int, block: Block) -> None:
        page, pool = page_bytes(block.pool.is_small, self.config), block.pool
        first = block.base + -(-(block.address - block.base) // page) * page
        last = block.base + (block.address + block.size - block.base) // page * page
        if first >= last:
            return
        pool.drop(block)
        self._split_free(block, first, last)
        block.mapped = False
        self._absorb(block, block.prev)
        self._absorb(block, block.next)
        pool.add(block)
        self._moved(op, Action.segment_unmap, first, last - first, block.stream)
        if not block.is_split:
            pool.drop(block)
            self._heads.discard(block)

    def _split_free(self, block: Block, first: int, last: int) -> None:
        """Leaves what is before and behind `first .. last` free on its own."""
        if block.address < first:
            before = Block(block.address, first - block.address, block.stream, block.pool, base=block.base)
            before.prev, before.next, block.prev = block.prev, block, before
            if before.prev is not None:
                before.prev.next = before
            if block in self._heads:
                self._heads.remove(block)
                self._heads.add(before)
            block.pool.add(before)
        end = block.address + block.size
        if last < end:
            after = Block(last, end - last, block.stream, block.pool, base=block.base)
            after.prev, after.next, block.next = block, block.next, after
            if after.next is not None:
                after.next.prev = after
            block.pool.add(after)
        block.address, block.size = first, last - first
