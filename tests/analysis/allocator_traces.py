"""Traces as a GPU would write them: a sequence played by the reference allocator, every event of it, and its end."""

from __future__ import annotations

import random

import numpy as np

from memstrata.capture.format import schema
from memstrata.capture.format.interning import StringTable
from memstrata.capture.format.recording import Device, Meta, build
from memstrata.capture.format.schema import Action, BlockState
from memstrata.viewer.analysis.allocator.config import STOCK
from memstrata.viewer.analysis.allocator.memory import SimulatedMemory
from memstrata.viewer.analysis.allocator.reference import ReferenceAllocator
from memstrata.viewer.analysis.allocator.sequence import Op, empty_state, sequence
from memstrata.viewer.model.run import Run

MIB = 1 << 20
GIB = 1 << 30
SIZES = (1, 512, 513, 5000, 300 * 1024, MIB, MIB + 1, 3 * MIB, 9 * MIB, 10 * MIB, 11 * MIB, 21 * MIB, 50 * MIB)


class Script:
    """Operations written by hand: `alloc` returns the number of the allocation."""

    def __init__(self):
        self.rows = []
        self.count = 0

    def alloc(self, size, stream=0, pool=0):
        self.rows.append((Op.alloc, self.count, size, stream, pool))
        self.count += 1
        return self.count - 1

    def free(self, *numbers):
        self.rows += [(Op.free, number, 0, 0, 0) for number in numbers]
        return self

    def empty_cache(self):
        self.rows.append((Op.empty_cache, -1, 0, 0, 0))
        return self

    def sequence(self):
        kind, number, size, stream, pool = zip(*self.rows)
        return sequence(kind, number, size, stream, pool)


def random_sequence(seed, length, pools=(0, 0, 0, 1), streams=(0, 0, 0, 7, -5)):
    """Allocations of a few sizes and variations of them, half of them freed, the cache emptied now and then."""
    rng = random.Random(seed)
    sizes = rng.sample(SIZES, 6)
    script, live = Script(), []
    for _ in range(length):
        drawn = rng.random()
        if drawn < 0.02:
            script.empty_cache()
        elif drawn < 0.5 and live:
            script.free(live.pop(rng.randrange(len(live))))
        else:
            size = rng.choice(sizes) + rng.choice((0, 0, 0, 100, 4096, 200_000))
            live.append(script.alloc(size, rng.choice(streams), rng.choice(pools)))
    return script.sequence() if script.rows else Script().empty_cache().sequence()


def traced(played, config=STOCK, capacity=None, skip=0):
    """The run of a trace without its first `skip` events, as a snapshot taken at the end would show it."""
    outcome = ReferenceAllocator(played, config, SimulatedMemory(capacity), empty_state()).run()
    rows = _events(played, outcome)[skip:]
    strings = StringTable()
    meta = Meta(
        kind="snapshot", source="snapshot", devices=(Device("cuda:0", 0),), has_reserved=True, has_time=False,
        allocator_settings={"PYTORCH_CUDA_ALLOC_CONF": config.text},
    )  # fmt: skip
    segments, blocks = _end(played, outcome.end)
    events = [(int(a), 0, address, size, -1, -1, stream, -1, -1, -1) for a, address, size, stream in rows]
    return Run(build(
        meta, strings, events=schema.from_rows(schema.Events, events),
        allocator_segments=schema.from_rows(schema.AllocatorSegments, segments),
        blocks=schema.from_rows(schema.Blocks, blocks),
    ))  # fmt: skip


def _events(played, outcome):
    """(action, address, bytes, stream) in order; a range comes before the allocation that needed it."""
    moves = {}
    for move in outcome.moves:
        moves.setdefault(move.op, []).append((move.action, move.address, move.bytes, move.stream))
    made = {int(n): row for row, n in enumerate(played.id) if played.kind[row] == Op.alloc}
    rows = []
    for op in range(len(played) if outcome.stopped_at is None else outcome.stopped_at):
        rows += moves.get(op, [])
        number = int(played.id[op])
        address = int(outcome.address[number]) if number >= 0 else -1
        if played.kind[op] == Op.alloc:
            rows.append((Action.alloc, address, int(played.bytes[op]), int(played.stream[op])))
        elif played.kind[op] == Op.free:
            size, stream = int(played.bytes[made[number]]), int(played.stream[made[number]])
            rows += [(a, address, size, stream) for a in (Action.free_requested, Action.free_completed)]
    return rows


def _end(played, end):
    requested = dict(zip(played.id[played.kind == Op.alloc].tolist(), played.bytes[played.kind == Op.alloc].tolist()))
    segments, blocks = [], []
    for row, (address, size) in enumerate(zip(end.address.tolist(), end.bytes.tolist())):
        inside = np.flatnonzero((end.block_address >= address) & (end.block_address < address + size))
        inside = inside[np.argsort(end.block_address[inside])]
        held = int(end.block_bytes[inside].sum())
        segments.append((0, address, size, held, held, int(end.stream[row]), 0, int(end.pool[row]),
                         bool(end.is_small[row]), end.base[row] >= 0, -1))  # fmt: skip
        at = address
        for block in inside.tolist():
            start, length = int(end.block_address[block]), int(end.block_bytes[block])
            if at < start:
                blocks.append((row, at, start - at, start - at, BlockState.inactive, -1))
            asked = requested[int(end.block_id[block])]
            blocks.append((row, start, length, asked, BlockState.active_allocated, -1))
            at = start + length
        if at < address + size:
            blocks.append((row, at, address + size - at, address + size - at, BlockState.inactive, -1))
    return segments, blocks
