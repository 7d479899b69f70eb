"""Allocator segments and blocks of torch's snapshots: the end state."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

import numpy as np

from . import plain_values as plain
from . import schema
from .plain_values import Row, Rows
from .schema import B1, I64, NONE, BlockState
from .torch_stacks import StackReader

BLOCK_STATES: dict[str, BlockState] = {
    "inactive": BlockState.inactive,
    "active_allocated": BlockState.active_allocated,
    "active_pending_free": BlockState.active_pending_free,
    "active_awaiting_free": BlockState.active_pending_free,
}
"""torch's block state texts."""

BLOCK_FIELDS = plain.Fields("state", ("address", "size", "requested_size"), ("state",))
"""What is read of a block, beside its frames."""


class BlockReader:
    """Reads the segments of one snapshot, and counts the block states that it does not know."""

    def __init__(self, stacks: StackReader, limit: float) -> None:
        self._stacks = stacks
        self._limit = limit
        self.unknown_states: Counter[str] = Counter()

    def tables(self, segments: list[Row], rows: dict[int, int]) -> tuple[schema.AllocatorSegments, schema.Blocks]:
        """The two tables; `rows` gives the device row of each of torch's device numbers."""
        if not segments:
            return schema.empty(schema.AllocatorSegments), schema.empty(schema.Blocks)
        blocks = self._blocks(segments)
        return self._segments(segments, rows, blocks), blocks

    def _blocks(self, segments: list[Row]) -> schema.Blocks:
        blocks, owner = self._flat(segments)
        no_address, no_request = blocks.missing("address"), blocks.missing("requested_size")
        sizes = blocks.sizes("size", None, "a block")
        address = blocks.sizes("address", 0, "a block")
        requested = blocks.sizes("requested_size", 0, "a block")
        return schema.from_columns(
            schema.Blocks,
            segment=owner,
            address=np.where(no_address, _running(sizes, owner, segments), address) if no_address.any() else address,
            bytes=sizes,
            requested_bytes=np.where(no_request, sizes, requested),
            state=plain.members(blocks, "state", BLOCK_STATES, BlockState.unknown, self.unknown_states),
            stack=blocks.by_frames(self._stacks.rows, _frames),
        )

    def _flat(self, segments: list[Row]) -> tuple[Rows, I64]:
        """(blocks, row of the segment of each)."""
        lists = plain.column(segments, "blocks", [])
        parts, counts = plain.all_entries(lists, "blocks", "the blocks of a segment", self._limit)
        plain.listed_once(segments, "segments")
        plain.listed_once(parts, "blocks")
        return Rows(parts), np.repeat(np.arange(len(segments), dtype=np.int64), counts)

    def _segments(self, segments: list[Row], rows: dict[int, int], blocks: schema.Blocks) -> schema.AllocatorSegments:
        allocated = blocks.state == BlockState.active_allocated
        active = allocated | (blocks.state == BlockState.active_pending_free)
        pools = _pools(plain.column(segments, "segment_pool_id", (0, 0)))
        device = plain.sizes(segments, "device", 0, "a segment")
        return schema.from_columns(
            schema.AllocatorSegments,
            device=list(map(rows.__getitem__, device.tolist())),
            address=plain.sizes(segments, "address", 0, "a segment"),
            bytes=plain.sizes(segments, "total_size", None, "a segment"),
            allocated_bytes=_summed(blocks, allocated, len(segments)),
            active_bytes=_summed(blocks, active, len(segments)),
            stream=plain.pointers(segments, "stream", "a segment"),
            pool_owner=pools[:, 0],
            pool_id=pools[:, 1],
            is_small=[kind == "small" for kind in plain.column(segments, "segment_type")],
            is_expandable=[value is True for value in plain.column(segments, "is_expandable")],
            stack=self._stacks.column(segments),
        )


def _running(sizes: I64, owner: I64, segments: list[Row]) -> I64:
    """The address of each block if the blocks of a segment follow each other without a gap."""
    out, at, last = [], 0, NONE
    for size, segment in zip(sizes.tolist(), owner.tolist()):
        if segment != last:
            at, last = plain.number(segments[segment], "address"), segment
        out.append(min(at, (1 << 63) - 1))
        at += size
    return np.array(out, np.int64)


def _frames(blocks: list[Row]) -> list[Any]:
    """The frames of each block, where there are any."""
    return [frames or _present(block).get("frames") for frames, block in zip(plain.column(blocks, "frames"), blocks)]


def _present(block: Row) -> Row:
    """torch 2.0 keeps what is in a block in its `history`, the present allocation first."""
    history = block.get("history")
    return history[0] if type(history) is list and history and type(history[0]) is dict else {}


def _pools(values: list[Any]) -> I64:
    """(owner, number) of the pool of each segment."""
    flat = list(chain.from_iterable(values)) if set(map(type, values)) <= {tuple} else []
    if len(flat) != 2 * len(values) or set(map(len, values)) != {2} or set(map(type, flat)) != {int}:
        return np.array([_pool(value) for value in values], np.int64).reshape(-1, 2)
    try:
        return np.array(flat, np.int64).reshape(-1, 2)
    except OverflowError:
        return np.array([_pool(value) for value in values], np.int64).reshape(-1, 2)


def _pool(pool: Any) -> tuple[int, int]:
    if type(pool) not in (tuple, list) or len(pool) != 2:
        return 0, 0
    entry = {"owner": pool[0], "id": pool[1]}
    return plain.number(entry, "owner"), plain.number(entry, "id")


def _summed(blocks: schema.Blocks, mask: B1, n_segments: int) -> I64:
    out = np.zeros(n_segments, np.int64)
    np.add.at(out, blocks.segment[mask], blocks.bytes[mask])
    return out
