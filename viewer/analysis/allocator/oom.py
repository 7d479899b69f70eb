"""An allocation that ran out of memory, explained."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import I64, Category, MarkKind

from ...model.run import Run
from ...model.said import Said, quiet
from .config import Config
from .fragmentation import Fragmentation, fragmentation, free_blocks
from .recorded import Recorded
from .remedies import Change, of_recording, of_what_if
from .replay import state_at
from .rules import SMALL_SIZE, rounded, segment_bytes
from .sequence import Op, Sequence, State
from .what_if import WhatIf


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
    alive: tuple[tuple[str, int], ...]
    """(category, bytes asked for) of what lay in the reserved memory, largest first."""
    begins_with_bytes: int | None
    """Where it happens before the first event: bytes asked for by everything that is alive then."""
    changes: tuple[Change, ...]
    """With a predicted one the whole trace is replayed, with a recorded one what comes before it."""

    @property
    def needed_bytes(self) -> int | None:
        """The least capacity found with which everything passes that was replayed; None beyond all machines."""
        more = self.changes[-1].more_bytes if self.changes else None
        return None if more is None or self.capacity_bytes is None else self.capacity_bytes + more


def recorded_ooms(known: Recorded, said: Said = quiet) -> list[Oom]:
    """The OOM events of a recording, each with the state that the trace gives for its moment."""
    found = np.flatnonzero(known.sequence.kind == Op.failed).tolist()
    return [
        _recorded(known, op, lambda part, number=number: said((number + part) / len(found)))  # type: ignore[misc]
        for number, op in enumerate(found)
    ]


def predicted_oom(known: Recorded, done: WhatIf, said: Said = quiet) -> Oom | None:
    """Where a what-if ran out of memory."""
    op = done.replay.oom
    if op is None:
        return None
    played = done.replay
    event = int(played.sequence.event[op])
    end = played.outcome.end
    placed = end.block_id[end.block_id < len(known.run.allocations)]
    changes = of_what_if(known, done, event, said)
    return _explained(known, played.sequence, op, played.config, end, placed, played.capacity, None, changes)


def _recorded(known: Recorded, op: int, said: Said) -> Oom:
    state, event = state_at(known, op), int(known.sequence.event[op])
    free = _device_free(known, event)
    capacity = None if free is None else state.reserved_bytes + free
    alive = known.run.allocations.alive(event)
    changes = of_recording(known, op, capacity, said)
    return _explained(known, known.sequence, op, known.config, state, alive, capacity, free, changes)


def _categories(run: Run, numbers: I64) -> tuple[tuple[str, int], ...]:
    sums = np.zeros(len(Category), np.int64)
    np.add.at(sums, run.attribution.category[numbers], run.allocations.bytes[numbers])
    return tuple((Category(row).label, int(sums[row])) for row in np.argsort(-sums, kind="stable") if sums[row])


def _explained(
    known: Recorded, played: Sequence, op: int, config: Config, state: State, alive: I64, capacity: int | None,
    free: int | None, changes: tuple[Change, ...],
) -> Oom:  # fmt: skip
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
        memory=fragmentation(state, config), alive=_categories(known.run, alive),
        begins_with_bytes=known.run.baseline_bytes if event < 0 else None, changes=changes,
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
