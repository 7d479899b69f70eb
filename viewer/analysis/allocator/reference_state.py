"""States in and out of the reference allocator: chains of linked blocks from columns, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .rules import page_bytes
from .sequence import State

if TYPE_CHECKING:
    from .reference import ReferenceAllocator
    from .reference_blocks import Block


def load(allocator: ReferenceAllocator, state: State) -> None:
    """Builds the chains of every range and expandable segment, and the live blocks by number."""
    segments: dict[int, list[int]] = {}
    for row in np.argsort(state.address, kind="stable").tolist():
        base = int(state.base[row])
        segments.setdefault(base if base >= 0 else -1 - row, []).append(row)
    for base, rows in segments.items():
        _segment(allocator, state, max(base, -1), rows)


def _segment(allocator: ReferenceAllocator, state: State, base: int, rows: list[int]) -> None:
    pool = allocator.pool(int(state.pool[rows[0]]), bool(state.is_small[rows[0]]))
    stream = int(state.stream[rows[0]])
    parts: list[tuple[int, int, bool, int]] = []
    at = base
    for row in rows:
        start = int(state.address[row])
        if base >= 0 and at < start:
            parts.append((at, start, False, -1))
        at = start + int(state.bytes[row])
        parts += _mapped(state, start, at)
        allocator.reserved += int(state.bytes[row])
    if base >= 0:
        page = page_bytes(pool.is_small, allocator.config)
        parts.append((at, base + -(-allocator.virtual // page) * page, False, -1))
    previous: Block | None = None
    for start, end, mapped, number in parts:
        previous = allocator.append(previous, start, end, stream, pool, mapped, base, number)


def _mapped(state: State, start: int, end: int) -> list[tuple[int, int, bool, int]]:
    """(first address, end, mapped, number or -1) of the blocks in a mapped range, free ones included."""
    inside = np.flatnonzero((state.block_address >= start) & (state.block_address < end))
    inside = inside[np.argsort(state.block_address[inside], kind="stable")]
    parts: list[tuple[int, int, bool, int]] = []
    at = start
    for row in inside.tolist():
        address, size = int(state.block_address[row]), int(state.block_bytes[row])
        if address < at or address + size > end:
            continue  # overlaps: the file contradicts itself
        if at < address:
            parts.append((at, address, True, -1))
        parts.append((address, address + size, True, int(state.block_id[row])))
        at = address + size
    if at < end:
        parts.append((at, end, True, -1))
    return parts


def state_of(heads: set[Block], live: dict[int, Block]) -> State:
    """The state of all chains."""
    rows = []
    for head in sorted(heads, key=lambda block: block.address):
        block: Block | None = head
        start = -1
        while block is not None:
            if block.mapped and start < 0:
                start = block.address
            end = block.address + block.size
            if block.mapped and (block.next is None or not block.next.mapped):
                rows.append((start, end - start, block.stream, block.pool.private, block.pool.is_small, block.base))
                start = -1
            block = block.next
    table = np.array(rows, np.int64).reshape(-1, 6)
    numbers = sorted(live)
    return State(
        address=table[:, 0], bytes=table[:, 1], stream=table[:, 2], pool=table[:, 3].astype(np.int32),
        is_small=table[:, 4].astype(np.bool_), base=table[:, 5], block_id=np.array(numbers, np.int64),
        block_address=np.array([live[n].address for n in numbers], np.int64),
        block_bytes=np.array([live[n].size for n in numbers], np.int64),
    )  # fmt: skip
