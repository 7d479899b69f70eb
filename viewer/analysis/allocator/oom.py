"""An allocation that ran out of memory, explained, and which single change would have let it pass."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import MarkKind

from ...look.units import bytes_text
from .config import Config, parse
from .fragmentation import Fragmentation, fragmentation, free_blocks
from .memory import MOST
from .recorded import Recorded
from .replay import first_operations, replay, state_at
from .rules import ROUND_LARGE, SMALL_SIZE, rounded, segment_bytes
from .sequence import Op, Sequence, State
from .verified import unverified
from .what_if import WhatIf, afresh

CHANGES = (
    "expandable_segments:True", "expandable_segments:False", "max_split_size_mb:128", "max_split_size_mb:512",
    "roundup_power2_divisions:8", "garbage_collection_threshold:0.8",
)  # fmt: skip
"""Settings tried one by one, those in force left out."""
EMPTIED = "torch.cuda.empty_cache() right before it"


@dataclass(frozen=True)
class Change:
    """One change, and what came of it in a replay up to the failed allocation."""

    what: str
    passes: bool
    peak_reserved_bytes: int
    unverified: tuple[str, ...] = ()
    more_bytes: int | None = None
    """Capacity added, where that is the change."""


@dataclass(frozen=True)
class Oom:
    """One failed allocation. The state is the one at that moment, not the file's end state."""

    event: int
    """Row of the device's events; -1 where it happens before the first event."""
    number: int
    """Row of `run.allocations`; -1 for a failure that is itself in the recording."""
    stack: int
    requested_bytes: int
    asked_bytes: int
    """What cudaMalloc was asked for."""
    reserved_bytes: int
    capacity_bytes: int | None
    """What the allocator could reserve; None unknown."""
    free_bytes: int
    """Free inside the reserved memory."""
    usable_free_bytes: int
    """Of it in the pool and stream of the request."""
    largest_free_bytes: int
    """The largest free block there."""
    device_free_bytes: int | None
    """Free on the device, where the recording says."""
    memory: Fragmentation
    changes: tuple[Change, ...]


def recorded_ooms(known: Recorded) -> list[Oom]:
    """The OOM events of a recording, each with the state that the trace gives for its moment."""
    return [_recorded(known, op) for op in np.flatnonzero(known.sequence.kind == Op.failed).tolist()]


def predicted_oom(known: Recorded, done: WhatIf) -> Oom | None:
    """Where a what-if ran out of memory."""
    op = done.replay.oom
    if op is None:
        return None
    played = done.replay
    return _explained(known, played.sequence, op, played.config, played.outcome.end, played.capacity, None)


def _recorded(known: Recorded, op: int) -> Oom:
    state = state_at(known, op)
    free = _device_free(known, int(known.sequence.event[op]))
    capacity = None if free is None else state.reserved_bytes + free
    return _explained(known, known.sequence, op, known.config, state, capacity, free)


def _explained(
    known: Recorded, played: Sequence, op: int, config: Config, state: State, capacity: int | None, free: int | None
) -> Oom:
    event, number = int(played.event[op]), int(played.id[op])
    own = number < len(known.run.allocations)
    stack = int(known.run.allocations.stack[number]) if own else int(known.run.events.stack[event])
    size = int(rounded(played.bytes[op : op + 1], config)[0])
    row, _, blocks = free_blocks(state)
    mine = (state.stream == played.stream[op]) & (state.is_small == (size <= SMALL_SIZE))
    usable = blocks[mine[row] & (state.pool[row] == played.pool[op])]
    return Oom(
        event=event, number=number if own else -1, stack=stack, requested_bytes=int(played.bytes[op]),
        asked_bytes=size if config.expandable_segments else segment_bytes(size, config),
        reserved_bytes=state.reserved_bytes, capacity_bytes=capacity, free_bytes=int(blocks.sum()),
        usable_free_bytes=int(usable.sum()), largest_free_bytes=int(usable.max(initial=0)), device_free_bytes=free,
        memory=fragmentation(state, config), changes=_changes(known, played, op, config, capacity),
    )  # fmt: skip


def _device_free(known: Recorded, event: int) -> int | None:
    """Bytes free on the device at a recorded OOM; only its mark tells."""
    recording, row = known.run.recording, int(known.run.events.index[event])
    marks = recording.marks
    for mark in np.flatnonzero((marks.kind == MarkKind.oom) & (marks.event == row)).tolist():
        found = re.search(r"([0-9,]+) bytes free", recording.strings[int(marks.text[mark])])
        if found:
            return int(found.group(1).replace(",", ""))
    return None


def _changes(known: Recorded, played: Sequence, op: int, config: Config, capacity: int | None) -> tuple[Change, ...]:
    """Each candidate replayed up to the failed allocation, from an empty allocator."""
    if capacity is None:
        return ()
    event = int(played.event[op])
    whole = played if known.state.reserved_bytes == 0 or (played.event < 0).any() else afresh(known)
    until = int(np.flatnonzero(whole.id == played.id[op])[0]) + 1
    part = first_operations(whole, until)
    out = []
    for text in CHANGES:
        changed = parse(text, config)
        if changed != config:
            out.append(_tried(known, text, part, changed, capacity))
    out.append(_tried(known, EMPTIED, part.with_empty_cache(event) if event >= 0 else part, config, capacity))
    needed = _needed(part, config, capacity)
    if needed is not None:
        more, peak = needed
        out.append(Change(f"{bytes_text(more)} more for the allocator", True, peak, more_bytes=more))
    return tuple(out)


def _tried(known: Recorded, what: str, part: Sequence, config: Config, capacity: int) -> Change:
    done = replay(part, config, capacity)
    return Change(what, done.oom is None, done.peak_reserved_bytes, unverified(known, config))


def _needed(part: Sequence, config: Config, capacity: int) -> tuple[int, int] | None:
    """The least that more capacity would have to be, to 2 MiB, and the most reserved then; None beyond all machines.

    By bisection, since what is given back on the way depends on the capacity.
    """
    low, high = 0, 1
    while (done := replay(part, config, capacity + high * ROUND_LARGE)).oom is not None:
        low, high = high, 2 * high
        if high * ROUND_LARGE > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        tried = replay(part, config, capacity + middle * ROUND_LARGE)
        if tried.oom is None:
            high, done = middle, tried
        else:
            low = middle
    return high * ROUND_LARGE, done.peak_reserved_bytes
