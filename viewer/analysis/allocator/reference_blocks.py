"""Blocks and pools of the reference allocator: linked neighbours, sorted lists of what is free."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field


@dataclass(eq=False)
class Block:
    """A part of a range, between `prev` and `next`."""

    address: int
    size: int
    stream: int
    pool: Pool
    allocated: bool = False
    mapped: bool = True
    base: int = -1
    """First address of its expandable segment, -1 for none."""
    prev: Block | None = None
    next: Block | None = None
    born: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        """torch's order of free blocks."""
        return self.stream % (1 << 64), self.size, self.address

    @property
    def is_split(self) -> bool:
        """Whether it is less than its range."""
        return self.prev is not None or self.next is not None


@dataclass(eq=False)
class Pool:
    """Free blocks of one size class, all streams."""

    private: int
    is_small: bool
    blocks: list[tuple[tuple[int, int, int], Block]] = field(default_factory=list)
    holes: list[tuple[tuple[int, int], Block]] = field(default_factory=list)
    searches: int = 0

    def add(self, block: Block) -> None:
        """Free and mapped, or a hole."""
        if block.mapped:
            block.born = self.searches
            insort(self.blocks, (block.key, block), key=lambda entry: entry[0])
        else:
            insort(self.holes, (block.key[::2], block), key=lambda entry: entry[0])

    def drop(self, block: Block) -> None:
        """No longer free, or no longer a hole."""
        if block.mapped:
            del self.blocks[bisect_left(self.blocks, block.key, key=lambda entry: entry[0])]
        else:
            del self.holes[bisect_left(self.holes, block.key[::2], key=lambda entry: entry[0])]


def grown(block: Block) -> int:
    """The size of a free block with the hole behind it."""
    return block.size + (block.next.size if block.next is not None and not block.next.mapped else 0)
