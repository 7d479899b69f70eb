"""One step cut out of a memory history that may reach further back, and what the history lost of it. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ..format import schema
from ..format.schema import B1, I64, NONE, Action, MarkKind
from .cuda_history import Moment


@dataclass(frozen=True)
class Cut:
    """The step's events and marks; `lost` gives, by device row, (allocations in the history, allocations made)."""

    events: schema.Events
    marks: schema.Marks
    lost: dict[int, tuple[int, int]]


def cut(events: schema.Events, marks: schema.Marks, first: Moment, last: Moment, ordinals: list[int]) -> Cut:
    """What happened from `first` to `last`, the moment of the snapshot; `ordinals` gives each device row's number.

    The clock of the history is not quite that of the host, so time alone could drop the step's first events. How many
    allocations were made since says exactly which one was the first; time decides between its neighbours only.
    """
    keep = np.zeros(len(events), np.bool_)
    lost = {}
    for row, ordinal in enumerate(ordinals):
        here = np.flatnonzero(events.device == row)
        made = _made_between(first, last, ordinal)
        allocations = np.flatnonzero(events.action[here] == Action.alloc)
        if made is not None and made > len(allocations):
            lost[row] = (len(allocations), made)
        keep[here[_begin(events.time[here], allocations, first.time, made) :]] = True
    kept = schema.select(events, keep)
    return Cut(kept, _marks(marks, keep, first.time), lost)


def _made_between(first: Moment, last: Moment, ordinal: int) -> int | None:
    """How many allocations were made, None if nobody knows: the counters can be reset."""
    if ordinal not in first.made or ordinal not in last.made or last.made[ordinal] < first.made[ordinal]:
        return None
    return last.made[ordinal] - first.made[ordinal]


def _begin(time: I64, allocations: I64, start: int, made: int | None) -> int:
    """The first event of a device that belongs to the step; its clock has whole microseconds."""
    by_time = int(np.argmax(np.append(time >= start - start % 1000, True))) if _has_times(time) else 0
    if made is None:
        return by_time
    before = max(0, len(allocations) - made)
    earliest = int(allocations[before - 1]) + 1 if before else 0
    latest = int(allocations[before]) if before < len(allocations) else len(time)
    return min(max(by_time, earliest), latest)


def _has_times(time: I64) -> bool:
    return len(time) > 0 and int(time.min()) != NONE


def _marks(marks: schema.Marks, keep: B1, start: int) -> schema.Marks:
    """Marks keep standing before their event; those of an event go with it, the others by time."""
    position = np.append(np.cumsum(keep) - keep, keep.sum())
    bound = np.isin(marks.kind, (MarkKind.oom, MarkKind.snapshot)) & (marks.event >= 0) & (marks.event < len(keep))
    of_event = np.append(keep, False)[np.where(bound, marks.event, len(keep))]
    kept = np.where(bound, of_event, (marks.time == NONE) | (marks.time >= start - start % 1000))
    moved = np.where(marks.event == NONE, NONE, position[np.clip(marks.event, 0, len(keep))])
    return schema.select(dataclasses.replace(marks, event=moved.astype(np.int64)), kept)
