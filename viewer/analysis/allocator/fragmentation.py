"""Where reserved memory is that nothing uses, and which allocation keeps it from coming back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import I64

from .config import Config
from .rules import page_bytes
from .sequence import State

MOSTLY = 0.5
"""A range is mostly free from this share on."""


@dataclass(frozen=True)
class Pinned:
    """A mostly free range (or page of an expandable segment) and what is alive in it."""

    address: int
    bytes: int
    free_bytes: int
    is_small: bool
    is_page: bool
    """A page of an expandable segment: what comes back there comes page by page."""
    pins: tuple[int, ...]
    """Numbers of the allocations alive in it, largest first."""

    @property
    def returned_bytes(self) -> int:
        """What would come back without its pins."""
        return self.bytes


@dataclass(frozen=True)
class Fragmentation:
    """The reserved memory of one moment by what it is good for. The parts sum to `reserved_bytes`."""

    reserved_bytes: int
    allocated_bytes: int
    """In blocks, rounding included."""
    returnable_bytes: int
    """In ranges and pages that are free as a whole: emptying the cache gives them back."""
    private_bytes: int
    """The same in private pools, which keep them for themselves (CUDA graphs)."""
    pinned_bytes: int
    """Free, in ranges and pages that something alive keeps."""
    largest_free_bytes: int
    """The largest single free block."""
    pinned: tuple[Pinned, ...]
    """Mostly free ranges, by free bytes."""

    @property
    def share(self) -> float:
        """Free bytes / reserved bytes."""
        return 1.0 - self.allocated_bytes / self.reserved_bytes if self.reserved_bytes else 0.0

    def by_pin(self) -> list[tuple[int, int, int]]:
        """(allocation, ranges, bytes that come back without it alone), by bytes: sole pins of mostly free ranges."""
        out: dict[int, list[int]] = {}
        for part in self.pinned:
            if len(part.pins) == 1:
                out.setdefault(part.pins[0], []).append(part.returned_bytes)
        rows = [(number, len(sizes), sum(sizes)) for number, sizes in out.items()]
        return sorted(rows, key=lambda row: (-row[2], row[0]))


def fragmentation(state: State, config: Config) -> Fragmentation:
    """The state of one moment taken apart."""
    start, size, small, page, private = _units(state, config)
    order = np.argsort(state.block_address, kind="stable")
    first, last = state.block_address[order], (state.block_address + state.block_bytes)[order]
    used = _covered(first, last, start + size) - _covered(first, last, start)
    whole = used == 0
    mostly = np.flatnonzero(~whole & (size - used >= MOSTLY * size))
    mostly = mostly[np.argsort(-(size - used)[mostly], kind="stable")]
    pinned = []
    for unit in mostly.tolist():
        low = int(np.searchsorted(last, start[unit], "right"))
        high = int(np.searchsorted(first, start[unit] + size[unit], "left"))
        rows = order[low:high]
        rows = rows[np.argsort(-state.block_bytes[rows], kind="stable")]
        pinned.append(Pinned(
            int(start[unit]), int(size[unit]), int(size[unit] - used[unit]), bool(small[unit]), bool(page[unit]),
            tuple(state.block_id[rows].tolist())))  # fmt: skip
    return Fragmentation(
        reserved_bytes=state.reserved_bytes, allocated_bytes=int(used.sum()),
        returnable_bytes=int(size[whole & (private == 0)].sum()), private_bytes=int(size[whole & (private != 0)].sum()),
        pinned_bytes=int((size - used)[~whole].sum()), largest_free_bytes=largest_free(state), pinned=tuple(pinned),
    )  # fmt: skip


def _units(state: State, config: Config) -> tuple[I64, I64, I64, I64, I64]:
    """(first address, bytes, small, page, private pool) of what comes back as one: a range, or a page of one."""
    rows = []
    for row in range(len(state.address)):
        at, size, small = int(state.address[row]), int(state.bytes[row]), bool(state.is_small[row])
        expandable = state.base[row] >= 0
        step = page_bytes(small, config) if expandable else max(size, 1)
        pool = int(state.pool[row])
        rows += [(a, min(step, at + size - a), small, expandable, pool) for a in range(at, at + size, step)]
    table = np.array(sorted(rows), np.int64).reshape(-1, 5)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4]


def _covered(first: I64, last: I64, at: I64) -> I64:
    """Bytes of the blocks (sorted, without overlap) that lie below each address."""
    sums = np.concatenate([[0], np.cumsum(last - first)])
    place = np.searchsorted(first, at, "right")
    if not len(first):
        return np.zeros(len(at), np.int64)
    beyond = np.where(place > 0, np.maximum(last[np.maximum(place - 1, 0)] - at, 0), 0)
    out: I64 = sums[place] - beyond
    return out


def free_blocks(state: State) -> tuple[I64, I64, I64]:
    """(row of the range, first address, bytes) of every free block."""
    order = np.argsort(state.block_address, kind="stable")
    first, last = state.block_address[order], (state.block_address + state.block_bytes)[order]
    rows = []
    for row in range(len(state.address)):
        at, end = int(state.address[row]), int(state.address[row] + state.bytes[row])
        low, high = np.searchsorted(first, [at, end], "left").tolist()
        edges = [at, *np.stack([first[low:high], last[low:high]], 1).reshape(-1).tolist(), end]
        rows += [(row, a, b - a) for a, b in zip(edges[::2], edges[1::2]) if a < b]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def largest_free(state: State) -> int:
    """Bytes of the largest free block of any pool and stream."""
    return int(free_blocks(state)[2].max(initial=0))
