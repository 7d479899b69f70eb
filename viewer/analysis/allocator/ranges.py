"""Free blocks as integers, and all that happens rarely: new ranges, emptying the cache, starting from a state."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

import numpy as np

from memstrata.capture.format.schema import I64, Action

from .config import Config
from .expandable import Expandable
from .memory import Memory
from .rules import UNLIMITED, least_remainder, segment_bytes
from .sequence import Move, State
from .tables import Pools

SHIFT = 64
MASK = (1 << SHIFT) - 1


class Ranges:
    """The allocator's memory.

    A free block is one integer, `size << SHIFT | address`, so that the order of integers is torch's order (size, then
    address) in the list of one pool; the same integer stands in `starts` under its first address and in `ends` under
    its end, which is all that coalescing needs. Ranges that happen to touch are told apart by `heads`.
    """

    def __init__(self, config: Config, memory: Memory, pools: Pools, allowed: int | None, virtual: int) -> None:
        self.config, self.memory, self.pools = config, memory, pools
        self.allowed = allowed
        """Bytes that a memory fraction lets the allocator reserve."""
        self.free: list[list[int]] = [[] for _ in pools.keys]
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.heads: dict[int, int] = {}
        """First address of each range of cudaMalloc: its bytes; of each expandable segment: 0."""
        self.order: list[int] = []
        """`heads`, sorted."""
        self.owner: dict[int, int] = {}
        """The pool of each head."""
        self.reserved = 0
        self.moves: list[Move] = []
        self.least = [least_remainder(key.is_small, config) for key in pools.keys]
        self.limit = config.max_split_bytes or UNLIMITED
        """Blocks of this size or more serve requests of about their size only."""
        self.unsplit = UNLIMITED if config.expandable_segments else self.limit
        """Requests of this size or more take a block whole."""
        self.expandable = Expandable(self, virtual)

    # free blocks -----------------------------------------------------------------------------------------------

    def insert(self, at: int, end: int, pool: int) -> None:
        """A free block that touches no other."""
        block = end - at << SHIFT | at
        insort(self.free[pool], block)
        self.starts[at] = self.ends[end] = block

    def remove(self, at: int, pool: int) -> int:
        """Takes the free block at this address out; returns its end."""
        block = self.starts.pop(at)
        mine = self.free[pool]
        del mine[bisect_left(mine, block)]
        end = at + (block >> SHIFT)
        del self.ends[end]
        return end

    def merge(self, at: int, end: int, pool: int) -> None:
        """A free block that grows together with its neighbours."""
        if end in self.starts and end not in self.heads:
            end = self.remove(end, pool)
        if at in self.ends and at not in self.heads:
            at = self.ends[at] & MASK
            self.remove(at, pool)
        self.insert(at, end, pool)

    def head_of(self, address: int) -> int:
        """The first address of the range or expandable segment that holds an address; -1 if none does."""
        i = bisect_right(self.order, address)
        return self.order[i - 1] if i else -1

    def is_whole(self, block: int) -> bool:
        """Whether a free block is a whole range of cudaMalloc."""
        return self.heads.get(block & MASK) == block >> SHIFT

    # ranges ----------------------------------------------------------------------------------------------------

    def add_head(self, address: int, size: int, pool: int) -> None:
        """A new range of cudaMalloc, or (size 0) a new expandable segment."""
        self.heads[address] = size
        self.owner[address] = pool
        insort(self.order, address)

    def drop_head(self, address: int) -> None:
        """The range is gone."""
        del self.heads[address], self.owner[address]
        del self.order[bisect_left(self.order, address)]

    def moved(self, op: int, action: Action, address: int, size: int, pool: int) -> None:
        """Notes a change of the reserved memory."""
        grew = action in (Action.segment_alloc, Action.segment_map)
        self.reserved += size if grew else -size
        self.moves.append(Move(op, action, address, size, self.pools.keys[pool].stream))
        if not grew:
            self.memory.give_back(size)

    def add_range(self, op: int, address: int, size: int, pool: int) -> None:
        """A range that cudaMalloc returned, all free."""
        self.add_head(address, size, pool)
        self.moved(op, Action.segment_alloc, address, size, pool)
        self.insert(address, address + size, pool)

    def drop_range(self, op: int, address: int, pool: int) -> None:
        """Gives a range back that is one free block."""
        end = self.remove(address, pool)
        self.drop_head(address)
        self.moved(op, Action.segment_free, address, end - address, pool)

    def obtain(self, op: int, size: int, pool: int) -> int:
        """The address of a free block of at least this size in new memory; -1 if there is none."""
        ask = segment_bytes(size, self.config)
        if self.allowed is not None and self.reserved + ask > self.allowed:
            return -1
        if self.config.expandable_segments:
            return self.expandable.grow(op, size, pool)
        address = self.memory.malloc(op, ask, self.pools.keys[pool].stream)
        if address < 0 or not self.make_room(address, address + ask):
            return -1
        self.add_range(op, address, ask, pool)
        return address

    def grow(self, op: int, size: int, pool: int) -> int:
        """`obtain`, and where it fails once more after giving back some cached blocks, then all of them."""
        address = self.obtain(op, size, pool)
        if address >= 0 or self.memory.recorded:
            return address
        if self.release_some(op, size, pool):
            address = self.obtain(op, size, pool)
        if address < 0:
            self.release_all(op)
            address = self.obtain(op, size, pool)
        return address

    # emptying the cache ----------------------------------------------------------------------------------------

    def release_some(self, op: int, size: int, pool: int) -> bool:
        """With a largest size for splitting: gives back the smallest unsplit block that would do, or several."""
        limit = self.config.max_split_bytes
        if limit is None:
            return False
        target, mine = max(size, limit), self.free[pool]
        i = bisect_left(mine, target << SHIFT)
        chosen, released = mine[i : i + 1], 0
        while not chosen[released:] and i and released < target and mine[i - 1] >> SHIFT >= limit:
            i -= 1
            chosen = [*chosen, mine[i]]
            released += mine[i] >> SHIFT
        chosen = [block for block in chosen if self.is_whole(block)]
        for block in chosen:
            self.drop_range(op, block & MASK, pool)
        return sum(block >> SHIFT for block in chosen) >= target

    def release_all(self, op: int) -> None:
        """Gives back every free range, and every free page of expandable segments, of the default pool."""
        for _, pools in self.release_order():
            blocks = [(block, pool) for pool in pools for block in self.free[pool]]
            for block, pool in blocks:
                if self.is_whole(block):
                    self.drop_range(op, block & MASK, pool)
            for block, pool in blocks:
                if self.expandable.holds(block & MASK):
                    self.expandable.release(op, block & MASK, pool)

    def release_order(self) -> list[tuple[bool, list[int]]]:
        """The pools that are emptied together: large, then small; by stream in each."""
        numbers = sorted((key.order, number) for key, number in self.pools.number.items() if key.private == 0)
        return [(small, [n for order, n in numbers if order[1] == small]) for small in (False, True)]

    # a state ---------------------------------------------------------------------------------------------------

    def load(self, state: State) -> list[int]:
        """Takes a state over; returns the rows of its blocks that lie in no range, or overlap."""
        blocks = np.argsort(state.block_address, kind="stable").tolist()
        addresses, sizes = state.block_address.tolist(), state.block_bytes.tolist()
        lost: list[int] = []
        next_block = 0
        for row in np.argsort(state.address, kind="stable").tolist():
            at, pool = int(state.address[row]), self.pools.of_range[row]
            end = at + int(state.bytes[row])
            if not self._load_range(at, end, int(state.base[row]), pool):
                continue  # overlaps another: the file contradicts itself
            while next_block < len(blocks) and addresses[blocks[next_block]] < end:
                block = blocks[next_block]
                next_block += 1
                inside = at <= addresses[block] < addresses[block] + sizes[block] <= end
                if not inside or self.pools.of_block[block] != pool:
                    lost.append(block)
                    continue
                if at < addresses[block]:
                    self._note_free(at, addresses[block], pool)
                at = addresses[block] + sizes[block]
            if at < end:
                self._note_free(at, end, pool)
        for mine in self.free:
            mine.sort()
        return [*lost, *blocks[next_block:]]

    def _load_range(self, at: int, end: int, base: int, pool: int) -> bool:
        if base >= 0 and at < end:
            fits = self.expandable.add_range(base, at, end, pool)
        elif fits := base < 0 and at < end and self.make_room(at, end):
            self.add_head(at, end - at, pool)
        self.reserved += end - at if fits else 0
        return fits

    def _note_free(self, at: int, end: int, pool: int) -> None:
        """`insert` without order, for many at once."""
        self.starts[at] = self.ends[end] = block = end - at << SHIFT | at
        self.free[pool].append(block)

    def make_room(self, at: int, end: int) -> bool:
        """Whether nothing is at these addresses; the unused end of an expandable segment gives way."""
        head, above = self.head_of(at), bisect_right(self.order, at)
        if above < len(self.order) and self.order[above] < end:
            return False
        if head < 0 or self.heads[head]:
            return head < 0 or head + self.heads[head] <= at
        return self.expandable.end_before(head, at)

    def carve(self, at: int, size: int) -> bool:
        """Cuts a block out of the free block around it; False if there is no such block."""
        head = self.head_of(at)
        pool = self.owner.get(head, -1)
        found = None
        if pool >= 0:
            mine = self.free[pool]
            found = next((b & MASK for b in mine if b & MASK <= at and at + size <= (b & MASK) + (b >> SHIFT)), None)
        if found is None:
            return False
        end = self.remove(found, pool)
        if found < at:
            self.insert(found, at, pool)
        if at + size < end:
            self.insert(at + size, end, pool)
        return True

    def state(self, alive: I64, place: I64, held: I64) -> State:
        """The state now; `alive` are the numbers of the allocations that hold a block."""
        ranges = [(at, size, -1, self.owner[at]) for at, size in self.heads.items() if size]
        ranges += self.expandable.mapped()
        table = np.array(sorted(ranges), np.int64).reshape(-1, 4)
        keys = [self.pools.keys[pool] for pool in table[:, 3].tolist()]
        return State(
            address=table[:, 0], bytes=table[:, 1], base=table[:, 2],
            stream=np.array([key.stream for key in keys], np.int64),
            pool=np.array([key.private for key in keys], np.int32),
            is_small=np.array([key.is_small for key in keys], np.bool_),
            block_id=alive, block_address=place[alive], block_bytes=held[alive],
        )  # fmt: skip
