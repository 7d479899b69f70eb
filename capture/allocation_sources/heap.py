"""The end state of memory without an allocator's segments: one segment that stands for the whole heap."""

from __future__ import annotations

from ..format import schema
from ..format.schema import NONE, BlockState


def heap_tables(alive: dict[int, tuple[int, int]]) -> dict[str, schema.Table]:
    """The tables `allocator_segments` and `blocks` of what is alive at the end: address to (bytes, stack)."""
    total = sum(size for size, _ in alive.values())
    segment = (0, 0, total, total, total, 0, 0, 0, False, False, NONE)
    blocks = [(0, a, size, size, BlockState.active_allocated, stack) for a, (size, stack) in sorted(alive.items())]
    return {
        "allocator_segments": schema.from_rows(schema.AllocatorSegments, [segment] if alive else []),
        "blocks": schema.from_rows(schema.Blocks, blocks),
    }
