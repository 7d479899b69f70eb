"""A device of a recording as a replay sees it: the operations, the state before the first, the recorded answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import B1, I64, Action

from ...model.run import Run
from .config import Config, from_settings
from .past import pool_numbers, start_state
from .sequence import Move, Op, Sequence, State, sequence

GIVING_BACK = (Action.segment_free, Action.segment_unmap)
GROWING = (Action.segment_alloc, Action.segment_map)


@dataclass(frozen=True, eq=False)
class Recorded:
    """`sequence` numbers allocations by their row in `run.allocations`; further numbers are recorded OOMs."""

    run: Run
    config: Config
    """The settings in force, as far as the file says."""
    sequence: Sequence
    state: State
    """Before the first operation."""
    moves: tuple[Move, ...]
    """Recorded changes of the reserved memory, by operation."""
    want: I64
    """Recorded address of each allocation, -1 where it has none."""
    from_start: bool
    """Nothing was reserved before the first event."""


def recorded(run: Run) -> Recorded:
    """The operations of a device, for any kind of file. Frees are where they were completed."""
    config = from_settings(run.recording.meta.allocator_settings)
    rows = _Rows(run)
    n = len(run.allocations)
    want = np.concatenate([run.allocations.address, np.full(rows.failures, -1)])
    state = start_state(run, config)
    return Recorded(
        run=run, config=config, sequence=rows.sequence(), state=state, moves=rows.moves(),
        want=np.where(want > 0, want, -1).astype(np.int64), from_start=not len(state.address) and n > 0,
    )  # fmt: skip


class _Rows:
    """Collects (event, kind, number) of every operation in order."""

    def __init__(self, run: Run) -> None:
        self._run, self._events = run, run.events
        a, n = run.allocations, run.n_events
        made, freed = np.flatnonzero(a.start > 0), np.flatnonzero(a.end <= n)
        failed = np.flatnonzero(self._events.action == Action.oom)
        self._bursts = _bursts(np.isin(self._events.action, GIVING_BACK), self._boundaries())
        self.failures = len(failed)
        numbers = len(a) + np.arange(len(failed))
        # (kind, event, number, rank): at one event a free comes first, since the address is used again; the free of
        # a failed request comes right after it.
        parts = [
            (Op.alloc, a.start[made] - 1, made, 1),
            (Op.free, a.end[freed] - 1, freed, 0),
            (Op.failed, failed, numbers, 1),
            (Op.free, failed, numbers, 2),
            (Op.empty_cache, self._bursts, np.full(len(self._bursts), -1), 0),
        ]
        lengths = [len(part[1]) for part in parts]
        kind = np.repeat([int(part[0]) for part in parts], lengths)
        rank = np.repeat([part[3] for part in parts], lengths)
        event = np.concatenate([part[1] for part in parts])
        number = np.concatenate([part[2] for part in parts])
        order = np.lexsort((rank, event))
        self._kind, self._event, self._number = kind[order], event[order], number[order]

    def _boundaries(self) -> B1:
        """Events that end a burst of memory given back."""
        bounds = (Action.alloc, Action.free_completed, Action.oom, *GROWING)
        ends: B1 = np.isin(self._events.action, bounds)
        return ends

    def sequence(self) -> Sequence:
        """The operations."""
        a, events = self._run.allocations, self._events
        failed = np.flatnonzero(events.action == Action.oom)
        bytes_ = np.append(np.concatenate([a.bytes, events.bytes[failed]]), 0)  # -1 finds the last: no bytes
        stream = np.append(np.concatenate([a.stream, events.stream[failed]]), 0)
        address = np.append(np.concatenate([a.address, np.zeros(len(failed), np.int64)]), 0)
        kind = self._kind.copy()
        kind[kind == Op.empty_cache] = np.where(self._retries(), Op.retry, Op.empty_cache)
        pool = _private_pools(self._run, address)[self._number]
        count = len(a) + self.failures
        return sequence(kind, self._number, bytes_[self._number], stream[self._number], pool, self._event, count)

    def _retries(self) -> B1:
        """Which bursts came out of an allocation that failed at first: they have the stack of what follows."""
        events = self._events
        after = np.isin(events.action, (Action.alloc, Action.oom, *GROWING))
        follows = np.flatnonzero(after)
        at = np.searchsorted(follows, self._bursts)
        out = np.zeros(len(self._bursts), np.bool_)
        for row, (burst, place) in enumerate(zip(self._bursts.tolist(), at.tolist())):
            if place == len(follows):
                continue
            nearest = int(follows[place])
            needs = events.action[nearest] != Action.alloc
            known = events.stack[burst] >= 0 and events.stack[nearest] >= 0
            out[row] = needs and (not known or events.stack[burst] == events.stack[nearest])
        return out

    def moves(self) -> tuple[Move, ...]:
        """Recorded changes of the reserved memory: growth belongs to the next operation, the rest to its burst."""
        events, out = self._events, []
        doing = self._kind != Op.free
        ops, at = np.flatnonzero(doing), self._event[doing]
        where = np.flatnonzero(np.isin(events.action, (*GROWING, *GIVING_BACK)))
        gives = np.isin(events.action[where], GIVING_BACK)
        place = np.where(gives, np.searchsorted(at, where, "right") - 1, np.searchsorted(at, where, "left"))
        for event, row in zip(where.tolist(), place.tolist()):
            if row < len(ops):  # else it belongs to an operation that the file does not show
                action, stream = Action(int(events.action[event])), int(events.stream[event])
                address, size = int(events.address[event]), int(events.bytes[event])
                out.append(Move(int(ops[row]), action, address, size, stream))
        return tuple(out)


def _bursts(giving: B1, boundary: B1) -> I64:
    """First events of runs of memory given back, with nothing but notes in between."""
    acting = np.flatnonzero(giving | boundary)
    gives = giving[acting]
    first: I64 = acting[gives & ~np.append(False, gives[:-1])[: len(gives)]]
    return first


def _private_pools(run: Run, addresses: I64) -> I64:
    """Number of the private pool that holds each address at the end of the trace; 0 for the default one."""
    segments = run.recording.allocator_segments
    mine = np.flatnonzero(segments.device == run.device_row)
    mine = mine[np.argsort(segments.address[mine], kind="stable")]
    out = np.zeros(len(addresses), np.int64)
    if not len(mine):
        return out
    at = np.maximum(np.searchsorted(segments.address[mine], addresses, "right") - 1, 0)
    inside = addresses - segments.address[mine][at]
    held = (inside >= 0) & (inside < segments.bytes[mine][at])
    out[held] = pool_numbers(run)[at[held]]
    return out
