"""Replays: of a recording against what it recorded, and of any sequence under any settings and capacity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from memstrata.capture.format.schema import I64, Action

from ...model.run import Run
from ...model.said import Said, quiet
from .config import STOCK, Config
from .fast import FastAllocator
from .memory import FIRST_ADDRESS, GAP, VIRTUAL, Memory, RecordedMemory, SimulatedMemory
from .recorded import Recorded, recorded
from .reference import ReferenceAllocator
from .sequence import Move, Op, Outcome, Sequence, State, empty_state


@dataclass(frozen=True, eq=False)
class Replay:
    """A sequence played under some settings. Curves have one value before the first operation and one after each."""

    sequence: Sequence
    config: Config
    capacity: int | None
    """Bytes the allocator may reserve; None: any amount."""
    start: State
    outcome: Outcome

    @cached_property
    def reserved(self) -> I64:
        """Reserved bytes; where an operation gives back before it takes, the value after it."""
        return _curve(self.start.reserved_bytes, _moves_by_op(self.outcome.moves, len(self)))

    @cached_property
    def allocated(self) -> I64:
        """Bytes of blocks in use, rounding included."""
        s, held = self.sequence, self.outcome.held
        step = np.zeros(len(self), np.int64)
        made = (s.kind == Op.alloc) | (s.kind == Op.failed)
        step[made] = held[s.id[made]]
        freed = s.kind == Op.free
        step[freed] = -held[s.id[freed]]
        if self.outcome.stopped_at is not None:
            step[self.outcome.stopped_at :] = 0
        return _curve(int(self.start.block_bytes.sum()), step)

    @property
    def peak_reserved_bytes(self) -> int:
        """The most that was reserved at once, also within an operation."""
        now = most = self.start.reserved_bytes
        for move in self.outcome.moves:
            now += _signed(move)
            most = max(most, now)
        return most

    @cached_property
    def peak_row(self) -> int:
        """The first place in the curves with the most reserved bytes."""
        return int(np.argmax(self.reserved))

    @property
    def oom(self) -> int | None:
        """The operation at which memory ran out."""
        return self.outcome.failures[0] if self.outcome.failures else None

    @cached_property
    def fragmentation(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Share of the reserved bytes that is in no block, along the curves; 0 where nothing is reserved."""
        out = np.zeros(len(self.reserved))
        np.divide(self.reserved - self.allocated, self.reserved, out=out, where=self.reserved > 0)
        return out

    def at_position(self, positions: I64) -> I64:
        """Where in the curves each position of the device's events is."""
        return np.searchsorted(np.maximum.accumulate(self.sequence.event), positions, "left").astype(np.int64)

    def __len__(self) -> int:
        return len(self.sequence)


def replay(
    sequence: Sequence, config: Config = STOCK, capacity: int | None = None, start: State | None = None,
    said: Said = quiet,
) -> Replay:  # fmt: skip
    """What the allocator would do with a sequence on a GPU where it may reserve `capacity` bytes.

    Addresses of new ranges are made up in rising order, so ties between equally large free blocks may fall
    otherwise than on a GPU. Ends at the first allocation that runs out of memory.
    """
    state = empty_state() if start is None else start
    allowed = _allowed(config, capacity)
    memory = SimulatedMemory(capacity, state.reserved_bytes, _first_address(state))
    virtual = VIRTUAL if capacity is None else capacity + capacity // 8
    outcome = _play(sequence, config, memory, state, allowed, virtual, said)
    return Replay(sequence, config, capacity, state, outcome)


def _play(
    sequence: Sequence, config: Config, memory: Memory, state: State, allowed: int | None, virtual: int, said: Said
) -> Outcome:
    if config.garbage_collection_threshold and allowed is not None:
        return ReferenceAllocator(sequence, config, memory, state, allowed, virtual).run()
    return FastAllocator(sequence, config, memory, state, None, allowed, virtual, said).run()


def _allowed(config: Config, capacity: int | None) -> int | None:
    """Bytes that a memory fraction allows. A threshold without one is taken to mean all of the capacity."""
    if capacity is None:
        return None
    if config.memory_fraction is not None:
        return int(config.memory_fraction * capacity)
    return capacity if config.garbage_collection_threshold else None


def _first_address(state: State) -> int:
    end = int((state.address + state.bytes).max(initial=0))
    beyond = int(state.base.max(initial=-1)) + VIRTUAL
    return max(FIRST_ADDRESS, -(-max(end, beyond) // GAP) * GAP + GAP)


@dataclass(frozen=True, eq=False)
class Verification:
    """A recording replayed with its own cudaMalloc answers, compared address by address."""

    recorded: Recorded
    replay: Replay
    allocations: int
    exact_matches: int
    """Allocations whose replayed address is the recorded one. After a difference the replay goes on from the record."""
    segment_events: int
    segment_matches: int
    """Allocator segment events that the replay foresaw: which, when and how large."""
    first_mismatch: dict[str, object] | None
    """The event, and why."""

    @property
    def exact(self) -> bool:
        """Everything that was recorded came out of the replay."""
        return self.first_mismatch is None and self.segment_matches == self.segment_events


def verify(run: Run, said: Said = quiet) -> Verification:
    """Replays a device of a file with the recorded answers of cudaMalloc."""
    known = recorded(run)
    memory = RecordedMemory(known.moves)
    allocator = FastAllocator(known.sequence, known.config, memory, known.state, want=known.want, said=said)
    outcome = allocator.run()
    kinds = known.sequence.kind
    differing = np.array([m.op for m in outcome.mismatches], np.int64)
    wrong = np.unique(differing[kinds[differing] == Op.alloc])
    made = int((kinds == Op.alloc).sum())
    first = None
    if outcome.mismatches:
        op, what = outcome.mismatches[0].op, outcome.mismatches[0].what
        first = {"event": int(known.sequence.event[op]), "why": what}
    played = Replay(known.sequence, known.config, None, known.state, outcome)
    return Verification(known, played, made, made - len(wrong), memory.total, memory.matched, first)


def state_at(known: Recorded, op: int, said: Said = quiet) -> State:
    """The state of a recording after its first `op` operations, in recorded addresses."""
    memory = RecordedMemory(move for move in known.moves if move.op < op)
    part = first_operations(known.sequence, op)
    return FastAllocator(part, known.config, memory, known.state, want=known.want, said=said).run().end


def first_operations(sequence: Sequence, count: int) -> Sequence:
    """The first operations of a sequence; the numbers of allocations stay."""
    columns = {name: getattr(sequence, name)[:count] for name in ("kind", "id", "bytes", "stream", "pool", "event")}
    return replace(sequence, **columns)


def _signed(move: Move) -> int:
    return move.bytes if move.action in (Action.segment_alloc, Action.segment_map) else -move.bytes


def _moves_by_op(moves: list[Move], count: int) -> I64:
    step = np.zeros(count, np.int64)
    for move in moves:
        step[min(move.op, count - 1)] += _signed(move)
    return step


def _curve(start: int, steps: I64) -> I64:
    return np.concatenate([[0], np.cumsum(steps)]) + start
