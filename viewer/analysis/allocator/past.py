"""The allocator before the first event: the end state, rolled back by the trace.

Which ranges there were follows exactly. So do the blocks, except one thing: an old block of the large pool that the
trace frees may be larger than its request by up to the largest remainder that is not split off. Blocks and free
blocks of that pool are larger than that, so the next address at which anything is seen to begin while the block
lives is its end. Where nothing is seen to begin there, it is taken to be no larger than its request.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import I64, Action

from ...model.endstate import DEFAULT_POOL
from ...model.run import Run
from .config import LARGE_SEGMENT, Config
from .rules import SMALL_SEGMENT, SMALL_SIZE, least_remainder, rounded
from .sequence import State, empty_state

LAST_ADDRESS = 1 << 57
"""No machine addresses more; a file that does contradicts itself."""
_MOVES = (Action.segment_alloc, Action.segment_free, Action.segment_map, Action.segment_unmap)

_Key = tuple[int, int, bool]
"""(stream, private pool, small)."""


@dataclass(frozen=True)
class _Range:
    address: int
    bytes: int
    stream: int
    pool: int
    is_small: bool

    @property
    def key(self) -> _Key:
        """Ranges of one expandable segment have it in common."""
        return self.stream, self.pool, self.is_small


def start_state(run: Run, config: Config) -> State:
    """The state before the first event; empty where no allocator reports one."""
    if run.reserved is None:
        return empty_state()
    native, expandable = _end_ranges(run)
    mapped = _Mapped(run, expandable)
    for event in np.flatnonzero(np.isin(run.events.action, _MOVES)).tolist()[::-1]:
        _undo(run, event, native, mapped)
    ranges = [(r, -1) for r in native.values()] + mapped.ranges()
    ranges = [pair for pair in ranges if pair[0].address + pair[0].bytes <= LAST_ADDRESS]
    ranges.sort(key=lambda pair: pair[0].address)
    return _with_blocks(run, config, ranges)


def _end_ranges(run: Run) -> tuple[dict[int, _Range], list[_Range]]:
    segments = run.recording.allocator_segments
    mine = np.flatnonzero(segments.device == run.device_row)
    mine = mine[np.argsort(segments.address[mine], kind="stable")]
    native: dict[int, _Range] = {}
    expandable = []
    for row, pool in zip(mine.tolist(), pool_numbers(run).tolist()):
        address, size = int(segments.address[row]), int(segments.bytes[row])
        made = _Range(address, size, int(segments.stream[row]), pool, bool(segments.is_small[row]))
        if segments.is_expandable[row]:
            expandable.append(made)
        else:
            native[address] = made
    return native, expandable


def pool_numbers(run: Run) -> I64:
    """Private pool of each allocator segment of the device in address order, numbered from 1; 0 for the default."""
    segments = run.recording.allocator_segments
    mine = np.flatnonzero(segments.device == run.device_row)
    mine = mine[np.argsort(segments.address[mine], kind="stable")]
    ids = zip(segments.pool_owner[mine].tolist(), segments.pool_id[mine].tolist())
    numbers = {key: i for i, key in enumerate(pool_ids(run))}
    return np.array([numbers[key] for key in ids], np.int64)


def pool_ids(run: Run) -> list[tuple[int, int]]:
    """(owner, id) of the pool with each number; the first is the default pool, (0, 0)."""
    segments = run.recording.allocator_segments
    mine = segments.device == run.device_row
    found = set(zip(segments.pool_owner[mine].tolist(), segments.pool_id[mine].tolist()))
    return [DEFAULT_POOL, *sorted(found - {DEFAULT_POOL})]


def _undo(run: Run, event: int, native: dict[int, _Range], mapped: _Mapped) -> None:
    events = run.events
    address, size, stream = int(events.address[event]), int(events.bytes[event]), int(events.stream[event])
    action = events.action[event]
    if action == Action.segment_alloc:
        native.pop(address, None)
    elif action == Action.segment_free:
        native[address] = _Range(address, size, stream, 0, size == SMALL_SEGMENT)
    elif action == Action.segment_map:
        mapped.remove(address, address + size)
    else:
        mapped.add(address, address + size, stream)


class _Mapped:
    """Mapped intervals of expandable segments. Map and unmap ranges need not match: interval arithmetic.

    The small pool maps single pages of 2 MiB, the large one multiples of at least 10 MiB; there is one segment for
    a stream, pool and size class at a time, gone once nothing of it is mapped.
    """

    def __init__(self, run: Run, ends: list[_Range]) -> None:
        self._run = run
        self._intervals: list[tuple[int, int, _Key]] = sorted((r.address, r.address + r.bytes, r.key) for r in ends)

    def remove(self, start: int, end: int) -> None:
        """What was mapped by an event was not mapped before it."""
        kept = []
        for a, b, key in self._intervals:
            kept += [(a, min(b, start), key)] if a < start else []
            kept += [(max(a, end), b, key)] if b > end else []
        self._intervals = kept

    def add(self, start: int, end: int, stream: int) -> None:
        """What was unmapped by an event was mapped before it."""
        touching = [key for a, b, key in self._intervals if key[0] == stream and (b == start or a == end)]
        key = touching[0] if touching else (stream, 0, self._is_small(start, end))
        insort(self._intervals, (start, end, key))

    def _is_small(self, start: int, end: int) -> bool:
        """By the allocations seen there; without any by the size."""
        a = self._run.allocations
        inside = (a.address >= start) & (a.address < end)
        return bool((a.bytes[inside] <= SMALL_SIZE).any()) if inside.any() else (end - start) % LARGE_SEGMENT != 0

    def ranges(self) -> list[tuple[_Range, int]]:
        """The intervals, neighbours of one kind joined, with the first address of their expandable segment."""
        joined: list[_Range] = []
        for a, b, key in self._intervals:
            last = joined[-1] if joined else None
            if last and last.address + last.bytes == a and last.key == key:
                a = joined.pop().address
            joined.append(_Range(a, b - a, *key))
        base = {key: self._base(key, [r for r in joined if r.key == key]) for key in {r.key for r in joined}}
        return [(r, base[r.key]) for r in joined]

    def _base(self, key: _Key, mine: list[_Range]) -> int:
        """The lowest address ever mapped in the segment: it may grow again below what is mapped at the start."""
        lowest, mapped = mine[0].address, sum(r.bytes for r in mine)
        events = self._run.events
        maps = np.isin(events.action, (Action.segment_map, Action.segment_unmap)) & (events.stream == key[0])
        for event in np.flatnonzero(maps).tolist():
            address, size = int(events.address[event]), int(events.bytes[event])
            if events.action[event] == Action.segment_map:
                if (size == SMALL_SEGMENT) == key[2]:
                    lowest, mapped = min(lowest, address), mapped + size
            elif self._is_small(address, address + size) == key[2]:
                mapped -= size
            if mapped <= 0:
                break
        return lowest


def _with_blocks(run: Run, config: Config, ranges: list[tuple[_Range, int]]) -> State:
    a = run.allocations
    old = np.flatnonzero(a.before & (a.address != 0))
    sizes = rounded(a.bytes[old], config)
    sizes = _known_sizes(run, old, sizes)
    table = np.array([(r.address, r.bytes, r.stream, r.pool, r.is_small, base) for r, base in ranges], np.int64)
    table = table.reshape(-1, 6)
    state = State(
        address=table[:, 0], bytes=table[:, 1], stream=table[:, 2], pool=table[:, 3].astype(np.int32),
        is_small=table[:, 4].astype(np.bool_), base=table[:, 5],
        block_id=old, block_address=a.address[old], block_bytes=sizes,
    )  # fmt: skip
    return _with_tails(run, config, state)


def _known_sizes(run: Run, old: I64, sizes: I64) -> I64:
    """Blocks that are still there at the end have the size that the end state gives."""
    recording, a = run.recording, run.allocations
    blocks = recording.blocks
    mine = np.flatnonzero((recording.allocator_segments.device == run.device_row)[blocks.segment])
    mine = mine[np.argsort(blocks.address[mine], kind="stable")]
    if not len(mine):
        return sizes
    at = np.minimum(np.searchsorted(blocks.address[mine], a.address[old]), len(mine) - 1)
    there = (blocks.address[mine][at] == a.address[old]) & (a.end[old] > run.n_events)
    return np.where(there, blocks.bytes[mine][at], sizes)


def _with_tails(run: Run, config: Config, state: State) -> State:
    """Grows old blocks of the large pool up to the next address seen to begin."""
    a = run.allocations
    if not len(state.address):
        return state
    order = np.argsort(a.address, kind="stable")
    begins, starts = a.address[order], a.start[order]
    home = np.maximum(np.searchsorted(state.address, state.block_address, "right") - 1, 0)
    freed = a.end[state.block_id] <= run.n_events
    sizes = state.block_bytes.copy()
    for row in np.flatnonzero(freed & ~state.is_small[home] & (state.base[home] < 0)).tolist():
        end = int(state.block_address[row] + sizes[row])
        unsplit = config.max_split_bytes is not None and sizes[row] >= config.max_split_bytes
        unsplit = unsplit and not config.expandable_segments
        most = config.non_split_rounding_bytes if unsplit else least_remainder(False, config) - 1
        stop = int(state.address[home[row]] + state.bytes[home[row]])
        low, high = np.searchsorted(begins, [end, end + most], "left")
        alive = begins[low : high + 1][starts[low : high + 1] < a.end[state.block_id[row]]]
        following = min(int(alive[0]) if len(alive) else stop, stop)
        if 0 < following - end <= most:
            sizes[row] += following - end
    return State(
        state.address, state.bytes, state.stream, state.pool, state.is_small, state.base,
        state.block_id, state.block_address, sizes,
    )  # fmt: skip
