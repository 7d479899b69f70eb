"""Who answers cudaMalloc: a GPU of a given size, or the recording."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from memstrata.capture.format.schema import Action

from .config import MIB
from .sequence import Move

FIRST_ADDRESS = 0x7F00_0000_0000
GAP = 2 * MIB
"""Left between simulated ranges, so that none touch."""
MOST = 1 << 56
"""More than any machine has: keeps made-up sizes inside 64 bits."""
VIRTUAL = 1 << 42
"""Address space of an expandable segment where the size of the GPU is not known."""


class Memory(Protocol):
    """What a replay asks of the driver. Addresses of -1 mean that there is no memory."""

    recorded: bool
    """The answers are the recorded ones: a failure is a difference, not a reason to empty the cache."""

    def malloc(self, op: int, size: int, stream: int) -> int:
        """The address of a new range."""

    def reserve(self, op: int, virtual: int) -> int:
        """The first address of a new expandable segment; nothing is mapped yet."""

    def map(self, op: int, address: int, size: int) -> bool:
        """Whether memory could be mapped there."""

    def give_back(self, size: int) -> None:
        """A range was freed or unmapped."""


class SimulatedMemory:
    """A GPU on which the allocator may reserve `capacity` bytes (None: any amount); `used` of them are taken."""

    recorded = False

    def __init__(self, capacity: int | None = None, used: int = 0, first_address: int = FIRST_ADDRESS) -> None:
        self.capacity = MOST if capacity is None else min(capacity, MOST)
        self.used = used
        self._next = first_address

    def malloc(self, op: int, size: int, stream: int) -> int:
        """The next address, as long as the capacity holds it."""
        if not self._fits(size):
            return -1
        return self.reserve(op, size)

    def reserve(self, op: int, virtual: int) -> int:
        """The next free address space."""
        address = self._next
        self._next += -(-virtual // GAP) * GAP + GAP
        return address

    def map(self, op: int, address: int, size: int) -> bool:
        """Whether the capacity holds it."""
        return self._fits(size)

    def give_back(self, size: int) -> None:
        """Room for later ones."""
        self.used -= size

    def _fits(self, size: int) -> bool:
        if self.used + size > self.capacity:
            return False
        self.used += size
        return True


class RecordedMemory:
    """The ranges that the recording shows for each operation, in order."""

    recorded = True

    def __init__(self, moves: Iterable[Move]) -> None:
        self._waiting: dict[int, list[Move]] = {}
        self.total = 0
        self.matched = 0
        """Events that the replay asked for at the operation, in the order and with the size recorded."""
        for move in moves:
            self._waiting.setdefault(move.op, []).append(move)
            self.total += 1

    def malloc(self, op: int, size: int, stream: int) -> int:
        """The recorded address, if the recording shows a range of this size here."""
        move = self._next(op, Action.segment_alloc)
        if move is None or move.bytes != size or move.stream != stream:
            return -1
        self._take(op)
        return move.address

    def reserve(self, op: int, virtual: int) -> int:
        """Where the recording maps next."""
        move = self._next(op, Action.segment_map)
        return -1 if move is None else move.address

    def map(self, op: int, address: int, size: int) -> bool:
        """Whether the recording maps exactly this."""
        move = self._next(op, Action.segment_map)
        if move is None or move.address != address or move.bytes != size:
            return False
        self._take(op)
        return True

    def give_back(self, size: int) -> None:
        """Recorded answers have no capacity."""

    def rest(self, op: int) -> list[Move]:
        """What the recording shows for this operation and the replay did not ask for."""
        return self._waiting.pop(op, [])

    def _next(self, op: int, action: Action) -> Move | None:
        waiting = self._waiting.get(op)
        return waiting[0] if waiting and waiting[0].action == action else None

    def _take(self, op: int) -> None:
        self.matched += 1
        waiting = self._waiting[op]
        del waiting[0]
        if not waiting:
            del self._waiting[op]
