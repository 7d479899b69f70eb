"""Allocations: which event made each, which freed it, and what was there before the first event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I64, NONE, Action, Severity

from . import baseline
from .allocations import Allocations, joined, picked, rows
from .events import DeviceEvents, device_events, moves
from .ordering import ascending, following

__all__ = ["Allocations", "pair"]


def pair(
    recording: Recording, device_row: int, events: DeviceEvents | None = None
) -> tuple[Allocations, tuple[Problem, ...]]:
    """The allocations of one device, and what could not be explained. `events` are those of the device, if at hand.

    `free_completed` frees; `free_requested` does not. A free of an address that is not alive belongs to an allocation
    older than the first event. Active blocks of the end state that no event made are as old. Where the same
    allocation has a larger size when it is freed or at the end, the difference becomes a row without address, so that
    the start is the end state minus the net of the trace, and the rows always sum to the curve.
    """
    events = device_events(recording, device_row) if events is None else events
    made = _from_events(events)
    before = [made.orphans]
    ends = baseline.end_blocks(recording, device_row)
    if ends is None:
        before.append(_known_rows(recording, device_row, events, made))
        return joined([*before, made.traced]), _problems(made, before, events, 0, 0, recording)
    end_bytes = _end_bytes(ends, made)
    before += [_unexplained_blocks(ends, made, len(events)), *_excess(end_bytes, made)]
    differing = int(((made.freed_bytes != made.traced.bytes) | (end_bytes != made.traced.bytes)).sum())
    missing = int((~np.isin(made.traced.address[made.alive], ends.address)).sum())
    return joined([*before, made.traced]), _problems(made, before, events, differing, missing, recording)


@dataclass(frozen=True, eq=False)
class _Made:
    """What the events alone tell."""

    traced: Allocations
    """Rows made by an event, in the order of these."""
    orphans: Allocations
    """Rows that an event freed and none made, by address."""
    freed_bytes: I64
    """Size given by the event that freed each traced row; its own size if none did."""
    lost_frees: int
    alive: I64
    """Traced rows alive at the end."""


def _from_events(events: DeviceEvents) -> _Made:
    n, there = len(events), events.address != 0
    is_alloc = (events.action == Action.alloc) & there
    is_free = (events.action == Action.free_completed) & there
    kept = np.flatnonzero(is_alloc | is_free)
    made = np.flatnonzero(is_alloc)
    after = following(events.address[kept], kept, n)[made]
    freed = np.append(is_free, False)[after]
    by = np.where(freed, after, made)  # an event to read from, where it is the wrong one it is masked
    traced = rows(
        len(made), address=events.address[made], bytes=events.bytes[made], start=made + 1, end=after + 1,
        stack=events.stack[made], free_stack=np.where(freed, events.stack[by], NONE),
        stream=picked(events.stream, made), thread=picked(events.thread, made), before=False,
    )  # fmt: skip
    is_free[by[freed]] = False
    orphans = _orphans(events, np.flatnonzero(is_free))
    lost = int(((after < n) & ~freed).sum())
    return _Made(traced, orphans, events.bytes[by], lost, alive=np.flatnonzero(after == n))


def _orphans(events: DeviceEvents, lone: I64) -> Allocations:
    """What these events freed and no event made, by address."""
    lone = lone[ascending(events.address[lone])]
    return rows(
        len(lone), address=events.address[lone], bytes=events.bytes[lone], start=0, end=lone + 1,
        free_stack=events.stack[lone], stream=events.stream[lone], before=True,
    )  # fmt: skip


def _unexplained_blocks(ends: baseline.EndBlocks, made: _Made, n: int) -> Allocations:
    old = np.flatnonzero(~np.isin(ends.address, made.traced.address[made.alive]))
    return rows(
        len(old), address=ends.address[old], bytes=ends.bytes[old], start=0, end=n + 1, stack=ends.stack[old],
        stream=ends.stream[old], before=True,
    )  # fmt: skip


def _end_bytes(ends: baseline.EndBlocks, made: _Made) -> I64:
    """The size that the end state gives to each traced row; its own size if it is not alive or not there."""
    out = made.traced.bytes.copy()
    if not len(ends.address):
        return out
    order = np.argsort(ends.address, kind="stable")
    address, looked_up = ends.address[order], made.traced.address[made.alive]
    place = np.minimum(np.searchsorted(address, looked_up), len(address) - 1)
    there = address[place] == looked_up
    out[made.alive[there]] = ends.bytes[order][place[there]]
    return out


def _excess(end_bytes: I64, made: _Made) -> list[Allocations]:
    """Bytes by which a free or the end state exceeds the allocation: they must have been there all along."""
    parts = []
    for later in (made.freed_bytes, end_bytes):
        more = np.flatnonzero(later > made.traced.bytes)
        size = later[more] - made.traced.bytes[more]
        parts.append(rows(len(more), address=0, bytes=size, start=0, end=made.traced.end[more], before=True))
    return parts


def _known_rows(recording: Recording, device_row: int, events: DeviceEvents, made: _Made) -> Allocations:
    lives = joined([made.orphans, made.traced])
    found = baseline.known_storages_without_event(recording, device_row, events, lives)
    columns = {"address": found.address, "bytes": found.bytes, "start": found.start, "end": found.end}
    return rows(len(found.address), **columns, before=found.start == 0)


_SENTENCES = (
    ("frees_without_allocation", Severity.info,
     "Frees of memory whose allocation is not in the file: recording started late, or its buffer overflowed."),
    ("lost_frees", Severity.warning,
     "Addresses were allocated again without a free in between: some events are missing."),
    ("sizes_differ", Severity.warning,
     "The same allocation has different sizes when it is made, freed or at the end: the file contradicts itself."),
    ("end_state_differs", Severity.warning,
     "Allocations that the events leave alive are not among the blocks of the end state."),
)  # fmt: skip


def _problems(
    made: _Made, before: list[Allocations], events: DeviceEvents, differing: int, missing: int, recording: Recording
) -> tuple[Problem, ...]:
    # A recorded step has a past and knows it; of a snapshot one may think that it shows everything.
    late = recording.meta.kind == "snapshot" and moves(events) > 1
    counts = (len(made.orphans) if late else 0, made.lost_frees, differing, missing)
    out = [Problem(*what, count) for what, count in zip(_SENTENCES, counts) if count]
    old = sum(int((part.address != 0).sum()) for part in before)
    if late and old:
        text = f"{old:,} allocations came before the first kept event; where they were made is not in the file."
        out.insert(0, Problem("before_first_event", Severity.info, text, old))
    return tuple(out)
