"""Expandable segments: address space that is mapped page by page. A hole is a part that is not mapped."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from memstrata.capture.format.schema import Action

from .rules import page_bytes

if TYPE_CHECKING:
    from .ranges import Ranges


class Expandable:
    """The holes of all expandable segments. `virtual` is the address space of a new one."""

    def __init__(self, ranges: Ranges, virtual: int) -> None:
        self._ranges, self._virtual = ranges, virtual
        self.holes: dict[int, list[int]] = {}
        """First addresses by pool, sorted."""
        self.size: dict[int, int] = {}
        self._by_end: dict[int, int] = {}
        self.stop: dict[int, int] = {}
        """End of the address space of each segment, by its first address."""

    def __bool__(self) -> bool:
        return bool(self.size)

    # holes -----------------------------------------------------------------------------------------------------

    def add_range(self, base: int, address: int, end: int, pool: int) -> bool:
        """A mapped range at the start of a replay; False if something else is there."""
        known = self._ranges.heads.get(base) == 0 or self.new_segment(base, pool)
        return known and self._fill(address, end, pool)

    def _fill(self, at: int, end: int, pool: int) -> bool:
        """Takes a part out of the hole around it; False if there is no such hole."""
        holes = self.holes.get(pool, [])
        place = bisect_left(holes, at + 1)
        hole = holes[place - 1] if place else at + 1
        stop = hole + self.size.get(hole, 0)
        if not hole <= at < end <= stop:
            return False
        self._drop(hole, pool)
        if hole < at:
            self._add(hole, at, pool)
        if end < stop:
            self._add(end, stop, pool)
        return True

    def new_segment(self, base: int, pool: int) -> bool:
        """An expandable segment of which nothing is mapped; False if something else is there."""
        page, order = self._page(pool), self._ranges.order
        above = bisect_left(order, base + 1)
        stop = base + -(-self._virtual // page) * page
        stop = min(stop, order[above]) if above < len(order) else stop
        if not self._ranges.make_room(base, stop):
            return False
        self._ranges.add_head(base, 0, pool)
        self.stop[base] = stop
        self._add(base, stop, pool)
        return True

    def end_before(self, base: int, at: int) -> bool:
        """Ends a segment at an address behind everything mapped in it; False if something is mapped there."""
        if self.stop[base] <= at:
            return True
        last = self._by_end.get(self.stop[base], at + 1)
        if not base < at or not last <= at:
            return False
        pool = self._ranges.owner[base]
        self._drop(last, pool)
        if last < at:
            self._add(last, at, pool)
        self.stop[base] = at
        return True

    def holds(self, address: int) -> bool:
        """Whether an address lies in an expandable segment."""
        head = self._ranges.head_of(address)
        return head >= 0 and not self._ranges.heads[head] and address < self.stop[head]

    def _page(self, pool: int) -> int:
        return page_bytes(self._ranges.pools.keys[pool].is_small, self._ranges.config)

    def _add(self, at: int, end: int, pool: int) -> None:
        insort(self.holes.setdefault(pool, []), at)
        self.size[at] = end - at
        self._by_end[end] = at

    def _drop(self, at: int, pool: int) -> None:
        holes = self.holes[pool]
        del holes[bisect_left(holes, at)]
        del self._by_end[at + self.size.pop(at)]

    # best fit --------------------------------------------------------------------------------------------------

    def choose(self, mine: list[int], i: int, enabled: bool) -> int:
        """Which free block is taken where the `i`-th is the smallest that fits.

        A block in front of a hole counts with what it can grow to. Where expandable segments were switched off,
        their blocks are passed over.
        """
        shift, mask = 64, (1 << 64) - 1
        if not self.holds(mine[i] & mask):
            return i
        if not enabled:
            i += 1
            while i < len(mine) and self.holds(mine[i] & mask):
                i += 1
            return i
        while i + 1 < len(mine) and self.holds(mine[i] & mask):
            size, following = mine[i] >> shift, mine[i + 1] >> shift
            grown = size + self.size.get((mine[i] & mask) + size, 0)
            if following + self.size.get((mine[i + 1] & mask) + following, 0) >= grown:
                break
            i += 1
        return i

    # growing ---------------------------------------------------------------------------------------------------

    def grow(self, op: int, size: int, pool: int) -> int:
        """The address of a free block of at least this size, made by mapping; -1 if memory ran out on the way."""
        at = self._candidate(size, pool)
        if at < 0:
            at = self._ranges.memory.reserve(op, self._virtual)
            if at < 0 or not self.new_segment(at, pool):
                return -1
        starts = self._ranges.starts
        have = starts.get(at, 0) >> 64
        while have < size:
            hole = at + have
            if hole not in self.size or not self.map(op, hole, min(size - have, self.size[hole]), pool):
                return -1
            have = starts[at] >> 64
        return at

    def _candidate(self, size: int, pool: int) -> int:
        """The lowest address from which free blocks and holes of one segment reach far enough."""
        ranges = self._ranges
        for hole in self.holes.get(pool, ()):
            before = ranges.ends.get(hole) if hole not in ranges.heads else None
            at = hole if before is None else before & ((1 << 64) - 1)
            if self._reach(at, size) >= size:
                return at
        return -1

    def _reach(self, at: int, size: int) -> int:
        ranges, total = self._ranges, 0
        while total < size:
            here = at + total
            if total and here in ranges.heads:
                break
            step = self.size.get(here) or ranges.starts.get(here, 0) >> 64
            if not step:
                break
            total += step
        return total

    def map(self, op: int, hole: int, size: int, pool: int) -> bool:
        """Maps whole pages from the start of a hole on; False if there is no memory."""
        page, base = self._page(pool), self._ranges.head_of(hole)
        end = base + -(-(hole + size - base) // page) * page
        if not self._ranges.memory.map(op, hole, end - hole):
            return False
        return self.force_map(op, hole, end, pool)

    def force_map(self, op: int, at: int, end: int, pool: int) -> bool:
        """A part of a hole becomes mapped and free; False if there is no such hole."""
        if not self._fill(at, end, pool):
            return False
        self._ranges.moved(op, Action.segment_map, at, end - at, pool)
        self._ranges.merge(at, end, pool)
        return True

    # shrinking -------------------------------------------------------------------------------------------------

    def pages_of(self, at: int, size: int, pool: int) -> tuple[int, int]:
        """First address and end of the whole pages inside a free block; equal if there is none."""
        page, base = self._page(pool), self._ranges.head_of(at)
        first = base + -(-(at - base) // page) * page
        last = base + (at + size - base) // page * page
        return first, max(first, last)

    def release(self, op: int, at: int, pool: int) -> None:
        """Unmaps the whole pages of a free block."""
        first, last = self.pages_of(at, self._ranges.starts[at] >> 64, pool)
        if first < last:
            self.unmap(op, at, first, last, pool)

    def unmap(self, op: int, at: int, first: int, last: int, pool: int) -> None:
        """Unmaps a part of the free block at an address; a segment of which nothing is left goes."""
        ranges = self._ranges
        end = ranges.remove(at, pool)
        if at < first:
            ranges.insert(at, first, pool)
        if last < end:
            ranges.insert(last, end, pool)
        ranges.moved(op, Action.segment_unmap, first, last - first, pool)
        if last in self.size and last not in ranges.heads:
            stop = last + self.size[last]
            self._drop(last, pool)
            last = stop
        if first in self._by_end and first not in ranges.heads:
            first = self._by_end[first]
            self._drop(first, pool)
        if self.stop.get(first) == last:
            del self.stop[first]
            ranges.drop_head(first)
        else:
            self._add(first, last, pool)

    def mapped(self) -> list[tuple[int, int, int, int]]:
        """(address, bytes, base, pool) of each mapped range."""
        ranges, out = self._ranges, []
        for base in (head for head, size in ranges.heads.items() if not size):
            pool = ranges.owner[base]
            stop, at = self.stop[base], base
            for hole in [*(h for h in self.holes.get(pool, ()) if base <= h < stop), stop]:
                if at < hole:
                    out.append((at, hole - at, base, pool))
                at = hole + self.size.get(hole, 0)
        return out
