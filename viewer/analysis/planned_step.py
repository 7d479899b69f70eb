"""A measured step under a checkpoint plan, as the allocator would see it: every allocation in its new order.

The planner adds bytes up; an allocator needs the single allocations. What a plan drops is freed where the planner says,
and its segment runs again in the order in which it ran: temporaries are made and freed again, what backward needs stays
until it is released.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.plan import Plan, Ranges
from memstrata.capture.format.schema import I64

from .allocator.config import STOCK, Config
from .allocator.replay import Replay, replay
from .allocator.sequence import Op, Sequence, sequence
from .place import place_of
from .planner import Planner
from .segment_effect import SegmentLives, segment_lives
from .step_facts import StepFacts

_RECOMPUTED, _MEASURED = 0, 1
"""At one position what is made again comes before what the measured event does."""


@dataclass(frozen=True)
class Verdict:
    """Whether a plan fits on a GPU. All of it is an estimate: kernels and sizes are those that were measured."""

    plan: Plan
    replay: Replay
    capacity: int | None
    place: str
    """Where memory ran out, or where most was reserved."""

    @property
    def fits(self) -> bool:
        """Whether no allocation failed."""
        return self.replay.oom is None

    @property
    def reserved_peak_bytes(self) -> int:
        """The most that was reserved, up to where it failed."""
        return self.replay.peak_reserved_bytes

    @property
    def spare_bytes(self) -> int | None:
        """What is left of the capacity; None without one."""
        return None if self.capacity is None else self.capacity - self.reserved_peak_bytes


def verdict(planner: Planner, plan: Plan | Ranges, capacity: int | None, config: Config = STOCK) -> Verdict:
    """The plan played through torch's allocator. Raises ValueError, one sentence, for a plan of other layers and for
    selective checkpoints."""
    if planner.keep:
        raise ValueError("the allocator is asked about whole segments, not about selective checkpoints")
    ranges = planner.ranges_of(plan) if isinstance(plan, Plan) else plan
    done = replay(planned_sequence(planner.facts, ranges), config, capacity)
    row = done.oom if done.oom is not None else max(done.peak_row - 1, 0)
    event = int(done.sequence.event[row]) if len(done.sequence) else 0
    place = place_of(planner.run, min(max(event + 1, 0), planner.run.n_events)).text
    return Verdict(planner.plan_of(ranges), done, capacity, place)


def planned_sequence(facts: StepFacts, ranges: Ranges) -> Sequence:
    """The operations of the step under the plan, in order."""
    allocations = facts.run.allocations
    end = allocations.end.astype(np.int64).copy()
    lives = [life for first, last in ranges for life in segment_lives(facts, first, last)]
    for life in lives:
        end[life.held] = np.maximum(end[life.held], life.held_until)
    for life in lives:
        end[life.dropped] = np.minimum(end[life.dropped], life.dropped_at)
    rows = np.arange(len(allocations), dtype=np.int64)
    tables = [_operations(rows, rows, allocations.start.astype(np.int64), end, _MEASURED)]
    count = len(allocations)
    for life in lives:
        tables.append(_again(facts, life, count))
        count += len(life.born)
    return _sequence(facts, np.concatenate(tables), count)


def _operations(rows: I64, ids: I64, start: I64, end: I64, when: int) -> I64:
    """Rows of (position, when, order, kind, id, allocation): one for each beginning and each end."""
    n = len(rows)
    begin = np.stack([start, np.full(n, when), start, np.full(n, Op.alloc), ids, rows], axis=1)
    stop = np.stack([end, np.full(n, when), end, np.full(n, Op.free), ids, rows], axis=1)
    return np.concatenate([begin, stop])


def _again(facts: StepFacts, life: SegmentLives, first_id: int) -> I64:
    """The segment run once more at one position, in the order of its forward."""
    allocations, rows = facts.run.allocations, life.born
    ids = np.arange(first_id, first_id + len(rows), dtype=np.int64)
    table = _operations(rows, ids, allocations.start[rows].astype(np.int64), allocations.end[rows].astype(np.int64), 0)
    begins, ends = table[: len(rows)], table[len(rows) :]
    begins[:, 0] = ends[:, 0] = life.recompute
    place = np.searchsorted(life.dropped, rows)
    place = np.minimum(place, max(len(life.dropped) - 1, 0))
    kept = life.dropped[place] == rows if len(life.dropped) else np.zeros(len(rows), np.bool_)
    ends[kept, 0] = np.maximum(life.released[place[kept]], life.recompute)
    ends[kept, 1] = _MEASURED
    ends[kept, 2] = ends[kept, 0]
    cut = ~kept & (ends[:, 2] > life.stopped)  # what the checkpoint's early stop ends goes with it
    ends[cut, 2] = life.stopped + 1
    return table


def _sequence(facts: StepFacts, table: I64, count: int) -> Sequence:
    """Frees before allocations at the same moment; what outlives the step is never freed."""
    table = table[(table[:, 3] == Op.alloc) | (table[:, 0] <= facts.run.n_events)]
    order = np.lexsort((table[:, 4], table[:, 3] == Op.alloc, table[:, 2], table[:, 1], table[:, 0]))
    table = table[order]
    allocations = facts.run.allocations
    row = table[:, 5]
    return sequence(
        table[:, 3], table[:, 4], allocations.bytes[row], allocations.stream[row], 0,
        np.maximum.accumulate(table[:, 0] - 1), count,
    )  # fmt: skip
