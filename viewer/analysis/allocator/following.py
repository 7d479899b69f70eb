"""Where a replay differs from the recording: say so, and go on from what was recorded."""

from __future__ import annotations

from memstrata.capture.format.schema import Action

from .ranges import MASK, SHIFT, Ranges
from .sequence import Mismatch, Move


class Follower:
    """Keeps a replay on the recorded track, so that one difference does not make all later ones."""

    def __init__(self, ranges: Ranges, place: list[int], held: list[int]) -> None:
        self._ranges, self._place, self._held = ranges, place, held
        self.mismatches: list[Mismatch] = []

    def _differs(self, op: int, what: str) -> None:
        self.mismatches.append(Mismatch(op, what))

    def correct(self, op: int, number: int, size: int, pool: int, wanted: int, moves: list[Move]) -> None:
        """Moves an allocation to the recorded address, in the recorded ranges."""
        got, ranges = self._place[number], self._ranges
        held = self._held[number] if got >= 0 else 0
        if held:
            ranges.merge(got, got + held, pool)
        for move in moves:
            self._apply(move, pool)
        end = self._free_end(wanted)
        self._differs(op, self._why(got, size, wanted, moves, end))
        self._place[number], self._held[number] = wanted, 0
        if end < wanted + size or ranges.owner[ranges.head_of(wanted)] != pool:
            return  # nothing is free there: the block stays unknown
        if end - wanted - size < ranges.least[pool]:
            size = end - wanted
        if ranges.carve(wanted, size):
            self._held[number] = size

    def _why(self, got: int, size: int, wanted: int, moves: list[Move], end: int) -> str:
        if moves:
            return "the recording asks for new memory where a free block fits" if got >= 0 else "new memory differs"
        if end < wanted + size:
            return "the recorded place is not free in the replay"
        return "another free block fits better" if got >= 0 else "no free block fits and no new memory was recorded"

    def _apply(self, move: Move, pool: int) -> None:
        ranges = self._ranges
        end = move.address + move.bytes
        if move.action == Action.segment_alloc and move.bytes and ranges.make_room(move.address, end):
            ranges.add_range(move.op, move.address, move.bytes, pool)
        elif move.action == Action.segment_map:
            if not ranges.expandable.holds(move.address):
                ranges.expandable.new_segment(move.address, pool)
            ranges.expandable.force_map(move.op, move.address, move.address + move.bytes, pool)

    def _free_end(self, address: int) -> int:
        """End of the free block that holds an address; the address itself if none does."""
        ranges = self._ranges
        for block in ranges.free[ranges.owner.get(ranges.head_of(address), 0)]:
            at, size = block & MASK, block >> SHIFT
            if at <= address < at + size:
                return at + size
        return address

    def failed(self, op: int, size: int, fits: bool) -> None:
        """A recorded OOM: no free block may fit."""
        if fits:
            self._differs(op, "the recording ran out of memory where a free block fits")

    def release(self, op: int, moves: list[Move]) -> int:
        """Gives back what the recording gives back; returns how many of its events were foreseen."""
        ranges = self._ranges
        for move in moves:
            if move.action in (Action.segment_alloc, Action.segment_map):
                self._apply(move, ranges.owner.get(ranges.head_of(move.address), 0))
        wanted = [m for m in moves if m.action in (Action.segment_free, Action.segment_unmap)]
        foreseen = self._foreseen()
        right = sum((move.address, move.bytes) in foreseen for move in wanted)
        if right < len(wanted):
            self._differs(op, "the recording gives back memory that is not free in the replay")
        elif right < len(foreseen):
            self._differs(op, "the recording keeps memory that emptying the cache would give back")
        elif [(m.address, m.bytes) for m in wanted] != list(foreseen):
            self._differs(op, "memory was given back in another order")
        for move in wanted:
            self._give_back(move)
        return right

    def _foreseen(self) -> dict[tuple[int, int], None]:
        """What emptying the cache would give back, in order."""
        ranges = self._ranges
        out: dict[tuple[int, int], None] = {}
        for _, pools in ranges.release_order():
            blocks = [(block, pool) for pool in pools for block in ranges.free[pool]]
            out |= {(b & MASK, b >> SHIFT): None for b, _ in blocks if ranges.is_whole(b)}
            for block, pool in blocks:
                if ranges.expandable.holds(block & MASK):
                    first, last = ranges.expandable.pages_of(block & MASK, block >> SHIFT, pool)
                    out |= {(first, last - first): None} if first < last else {}
        return out

    def _give_back(self, move: Move) -> None:
        ranges = self._ranges
        block = ranges.starts.get(move.address)
        head = ranges.head_of(move.address)
        if block is not None and ranges.is_whole(block):
            ranges.drop_range(move.op, move.address, ranges.owner[head])
        elif move.action == Action.segment_unmap and head >= 0:
            at = next((b & MASK for b in ranges.free[ranges.owner[head]] if _inside(b, move)), None)
            if at is not None:
                ranges.expandable.unmap(move.op, at, move.address, move.address + move.bytes, ranges.owner[head])


def _inside(block: int, move: Move) -> bool:
    at = block & MASK
    return at <= move.address and move.address + move.bytes <= at + (block >> SHIFT)
