"""What torch's memory snapshots mean: actions, block states and version quirks, for recorder and viewer alike.

A snapshot is the dict of `torch.cuda.memory._snapshot()` (or, in old files, the bare list of its segments). Across
torch 2.0 to 2.12: events have `time_us` from 2.2; `frames` may be absent or empty; `oom` has `device_free` and no
`addr`; blocks of 2.0 have `history` and no `address`; a pending free is called `active_pending_free` or
`active_awaiting_free`; every entry not read here may come and go.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import plain_values as plain
from . import schema
from .interning import StackTable, StringTable
from .paths import short_path
from .plain_values import Row
from .problems import Problem
from .recording import Device
from .schema import I64, NONE, Action, BlockState, MarkKind, Severity

ACTIONS: dict[str, Action] = {action.name: action for action in Action if action != Action.unknown}
"""torch's action texts."""

BLOCK_STATES: dict[str, BlockState] = {
    "inactive": BlockState.inactive,
    "active_allocated": BlockState.active_allocated,
    "active_pending_free": BlockState.active_pending_free,
    "active_awaiting_free": BlockState.active_pending_free,
}
"""torch's block state texts."""

_NO_PROJECT = "\0"
"""No path starts with this, so a user's files keep their full path."""

_PLACED = {Action.alloc, Action.free_requested, Action.free_completed, Action.segment_alloc, Action.segment_free,
           Action.segment_map, Action.segment_unmap}  # fmt: skip
"""Actions that must have an address and a size."""


@dataclass
class TorchRecords:
    """The rows of a snapshot. `tables` holds events, allocator_segments, blocks and marks."""

    devices: tuple[Device, ...]
    tables: dict[str, schema.Table]
    settings: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    has_time: bool = True


def is_snapshot(value: Any) -> bool:
    """Whether an object looks like a torch memory snapshot at all."""
    if type(value) is list:
        return all(type(entry) is dict and "blocks" in entry for entry in value)
    return type(value) is dict and ("segments" in value or "device_traces" in value)


def read_snapshot(
    snapshot: dict[str, Any] | list[Any],
    strings: StringTable,
    stacks: StackTable,
    project: str | None = None,
    limit: int | None = None,
) -> TorchRecords:
    """The rows of a snapshot; stacks and strings are interned into the tables given.

    With `project`, files below that folder are stored relative to it. `limit` bounds the number of events and of
    blocks: an honest file spends more than a byte on each, a made-up one can repeat one entry without end. Raises
    ValueError with the cause, as half a sentence, if an entry has a wrong type or an impossible value.
    """
    whole = snapshot if isinstance(snapshot, dict) else {"segments": snapshot}
    reader = _Reader(strings, stacks, project or _NO_PROJECT, math.inf if limit is None else limit)
    segments = plain.dicts(whole.get("segments", []), "the list of segments")
    traces = reader.traces(whole.get("device_traces", []))
    ordinals = _ordinals(segments, traces)
    rows = {ordinal: row for row, ordinal in enumerate(ordinals)}
    tables: dict[str, schema.Table] = {}
    tables["allocator_segments"], tables["blocks"] = reader.end_state(segments, rows)
    events = reader.events(traces, rows)
    tables["events"] = events
    annotations = whole.get("external_annotations", [])
    tables["marks"] = reader.marks(events, annotations if type(annotations) is list else [])
    settings = plain.settings(whole.get("allocator_settings"))
    has_time = bool((events.time >= 0).all())
    problems = reader.problems(settings, whole, has_time)
    names = tuple(Device(f"{reader.kind}:{ordinal}", ordinal) for ordinal in ordinals)
    return TorchRecords(names, tables, settings, problems, has_time)


def _ordinals(segments: list[Row], traces: list[list[Row]]) -> list[int]:
    """torch's numbers of the devices that have a segment or an event."""
    used = set(plain.sizes(segments, "device", 0, "a segment").tolist())
    used |= {number for number, trace in enumerate(traces) if trace}
    if used and max(used) > 1 << 20:
        raise ValueError("a segment has an impossible device number")
    return sorted(used)


class _Reader:
    """Reads one snapshot, and remembers what it had to leave out."""

    def __init__(self, strings: StringTable, stacks: StackTable, project: str, limit: float) -> None:
        self._strings = strings
        self._stacks = stacks
        self._project = project
        self._limit = limit
        self._frame_rows: dict[int, int] = {}
        self._stack_rows: dict[int, int] = {}
        self._unknown_actions: Counter[str] = Counter()
        self._unknown_states: Counter[str] = Counter()
        self._oom: dict[int, int] = {}
        self.kind = "cuda"

    def stack(self, frames: Any) -> int:
        """The row of stacks of a list of frames, innermost first as torch gives them; -1 for none.

        Lists and dicts of frames are shared a thousandfold, so both are looked up by identity: the snapshot keeps
        them alive.
        """
        if not frames:
            return NONE
        row = self._stack_rows.get(id(frames))
        if row is None:
            chain = [self._frame_rows.get(id(frame)) for frame in plain.dicts(frames, "a stack")]
            known = [self._frame(frame) if at is None else at for at, frame in zip(chain, frames)]
            row = self._stack_rows[id(frames)] = self._stacks.stack(reversed(known))
        return row

    def _frame(self, frame: Row) -> int:
        file = plain.text(frame, "filename")
        if "torch_npu" in file:
            self.kind = "npu"
        line = plain.number(frame, "line")
        line = line if 0 <= line < 1 << 31 else 0
        row = self._stacks.frame(plain.text(frame, "name"), short_path(file, self._project), line)
        self._frame_rows[id(frame)] = row
        return row

    def _stack_column(self, rows: list[Row]) -> list[int]:
        return [self.stack(row.get("frames")) for row in rows]

    def end_state(self, segments: list[Row], rows: dict[int, int]) -> tuple[schema.AllocatorSegments, schema.Blocks]:
        """Allocator segments and their blocks."""
        blocks, owner, running = self._blocks_of(segments)
        history = [_oldest(block) for block in blocks]
        sizes = plain.sizes(blocks, "size", None, "a block")
        states = [self._state(block) for block in blocks]
        table = schema.from_columns(
            schema.Blocks,
            segment=owner,
            address=np.where(_missing(blocks, "address"), running, plain.sizes(blocks, "address", 0, "a block")),
            bytes=sizes,
            requested_bytes=np.where(
                _missing(blocks, "requested_size"), sizes, plain.sizes(blocks, "requested_size", 0, "a block")
            ),
            state=states,
            stack=[self.stack(block.get("frames") or old.get("frames")) for block, old in zip(blocks, history)],
        )
        return self._segments(segments, rows, table), table

    def _blocks_of(self, segments: list[Row]) -> tuple[list[Row], list[int], list[int]]:
        """(blocks, row of the segment of each, address by the sizes of those before it)."""
        blocks: list[Row] = []
        owner: list[int] = []
        running: list[int] = []
        for row, segment in enumerate(segments):
            own = plain.dicts(segment.get("blocks", []), "the blocks of a segment")
            if len(blocks) + len(own) > self._limit:
                raise ValueError("it repeats its blocks more often than a file of its size can hold")
            address = plain.number(segment, "address")
            for block in own:
                running.append(min(address, (1 << 63) - 1))
                address += max(plain.number(block, "size"), 0)
            blocks += own
            owner += [row] * len(own)
        return blocks, owner, running

    def _state(self, block: Row) -> BlockState:
        name = plain.text(block, "state", "(none)")
        state = BLOCK_STATES.get(name)
        if state is None:
            self._unknown_states[name] += 1
            return BlockState.unknown
        return state

    def _segments(self, segments: list[Row], rows: dict[int, int], blocks: schema.Blocks) -> schema.AllocatorSegments:
        allocated = blocks.state == BlockState.active_allocated
        active = allocated | (blocks.state == BlockState.active_pending_free)
        pools = [_pool(segment) for segment in segments]
        return schema.from_columns(
            schema.AllocatorSegments,
            device=[rows[plain.number(segment, "device")] for segment in segments],
            address=plain.sizes(segments, "address", 0, "a segment"),
            bytes=plain.sizes(segments, "total_size", None, "a segment"),
            allocated_bytes=_summed(blocks, allocated, len(segments)),
            active_bytes=_summed(blocks, active, len(segments)),
            stream=plain.pointers(segments, "stream", "a segment"),
            pool_owner=[pool[0] for pool in pools],
            pool_id=[pool[1] for pool in pools],
            is_small=[plain.text(segment, "segment_type") == "small" for segment in segments],
            is_expandable=[segment.get("is_expandable") is True for segment in segments],
            stack=self._stack_column(segments),
        )

    def traces(self, value: Any) -> list[list[Row]]:
        """The events of each device."""
        if type(value) not in (list, tuple):
            raise ValueError("'device_traces' is not a list")
        out, count = [], 0
        for trace in value:
            out.append(plain.dicts(trace, "the trace of a device"))
            count += len(out[-1])
            if count > self._limit:
                raise ValueError("it repeats its events more often than a file of its size can hold")
        return out

    def events(self, traces: list[list[Row]], rows: dict[int, int]) -> schema.Events:
        """The events of all devices, merged by time where they have one, each device's in its own order."""
        flat = [event for trace in traces for event in trace]
        device = np.repeat([rows.get(i, NONE) for i in range(len(traces))], [len(trace) for trace in traces])
        action = np.array([self._action(event) for event in flat], np.uint8)
        time = _nanoseconds(flat)
        order = _merged(time, [len(trace) for trace in traces])
        placed = np.isin(action, sorted(_PLACED))
        address = _checked(plain.whole_numbers(flat, "addr", -1, "an event"), placed, "addr")
        size = _checked(plain.whole_numbers(flat, "size", -1, "an event"), placed, "size")
        for row in np.flatnonzero(action[order] == Action.oom).tolist():
            self._oom[row] = plain.number(flat[int(order[row])], "device_free", NONE)
        columns = {
            "action": action, "device": device, "address": address, "bytes": size, "time": time,
            "stack": np.array(self._stack_column(flat), np.int32),
            "stream": plain.pointers(flat, "stream", "an event"), "thread": np.full(len(flat), NONE),
        }  # fmt: skip
        return schema.from_columns(schema.Events, **{name: column[order] for name, column in columns.items()})

    def _action(self, event: Row) -> Action:
        name = plain.text(event, "action", "(none)")
        action = ACTIONS.get(name)
        if action is None:
            self._unknown_actions[name] += 1
            return Action.unknown
        return action

    def marks(self, events: schema.Events, annotations: list[Any]) -> schema.Marks:
        """Out-of-memory errors, snapshots taken, and annotations such as `Optimizer.step#AdamW.step`."""
        out: list[tuple[Any, ...]] = []
        for row, free in self._oom.items():
            known = f", {free:,} bytes free on the device" if free != NONE else ""
            text = f"out of memory: {int(events.bytes[row]):,} bytes asked for{known}"
            out.append(self._mark(MarkKind.oom, int(events.time[row]), row, text, float(events.bytes[row])))
        for row in np.flatnonzero(events.action == Action.snapshot).tolist():
            out.append(self._mark(MarkKind.snapshot, int(events.time[row]), row, "snapshot taken", math.nan))
        timed = np.maximum.accumulate(events.time) if len(events) and int(events.time.min()) >= 0 else None
        for note in annotations[: 1 << 20]:
            if type(note) is dict:
                out.append(self._annotation(note, timed))
        return schema.from_rows(schema.Marks, sorted(out, key=lambda mark: (mark[2], mark[1])))

    def _annotation(self, note: Row, times: I64 | None) -> tuple[Any, ...]:
        time = plain.number(note, "time_us", NONE)
        time = time * 1000 if 0 <= time < (1 << 63) // 1000 else NONE
        known = time != NONE and times is not None
        event = int(np.searchsorted(times, time)) if known and times is not None else NONE
        stage = {"START": " begins", "END": " ends"}.get(plain.text(note, "stage"), "")
        return self._mark(MarkKind.annotation, time, event, plain.text(note, "name") + stage, math.nan)

    def _mark(self, kind: MarkKind, time: int, event: int, text: str, value: float) -> tuple[Any, ...]:
        return kind, time, event, self._strings.intern(text), value

    def problems(self, settings: dict[str, Any], whole: dict[str, Any], has_time: bool) -> list[Problem]:
        """What a reader of the picture must know."""
        out = []
        if settings.get("trace_alloc_overflowed") is True or whole.get("trace_alloc_overflowed") is True:
            text = "The ring buffer of the memory history overflowed: the oldest events are lost."
            out.append(Problem("trace_overflowed", Severity.warning, text))
        for code, what, seen in (
            ("unknown_action", "Events with an action", self._unknown_actions),
            ("unknown_block_state", "Blocks with a state", self._unknown_states),
        ):
            if seen:
                text = f"{what} this version does not know were left out: {_listed(seen)}."
                out.append(Problem(code, Severity.warning, text, seen.total()))
        if not has_time:
            out.append(Problem("no_time", Severity.info, "The events carry no times: only their order is shown."))
        return out


def _nanoseconds(events: list[Row]) -> I64:
    time = plain.whole_numbers(events, "time_us", NONE, "an event")
    if len(time) and int(time.max()) >= (1 << 63) // 1000:
        raise ValueError("'time_us' of an event is too large")
    return np.where(time < 0, NONE, time * 1000)


def _merged(time: I64, lengths: list[int]) -> I64:
    """The order of all events: by time, but never against the order within one device."""
    if len(time) == 0 or int(time.min()) < 0 or sum(map(bool, lengths)) < 2:
        return np.arange(len(time), dtype=np.int64)
    ends = np.cumsum(lengths)
    steady = [np.maximum.accumulate(time[end - n : end]) for n, end in zip(lengths, ends.tolist()) if n]
    return np.argsort(np.concatenate(steady), kind="stable").astype(np.int64)


def _checked(values: I64, needed: schema.B1, name: str) -> I64:
    if (values[needed] < 0).any():
        raise ValueError(f"{name!r} of an event is missing or negative")
    return np.maximum(values, 0)


def _missing(rows: list[Row], key: str) -> schema.B1:
    return np.array([key not in row for row in rows], np.bool_)


def _oldest(block: Row) -> Row:
    """torch 2.0 keeps the stack of a block in `history`, the present allocation first."""
    history = block.get("history")
    return history[0] if type(history) is list and history and type(history[0]) is dict else {}


def _pool(segment: Row) -> tuple[int, int]:
    pool = segment.get("segment_pool_id", (0, 0))
    if type(pool) not in (tuple, list) or len(pool) != 2:
        return 0, 0
    entry = {"owner": pool[0], "id": pool[1]}
    return plain.number(entry, "owner"), plain.number(entry, "id")


def _summed(blocks: schema.Blocks, mask: schema.B1, n_segments: int) -> I64:
    out = np.zeros(n_segments, np.int64)
    np.add.at(out, blocks.segment[mask], blocks.bytes[mask])
    return out


def _listed(seen: Counter[str]) -> str:
    names = [name if len(name) <= 40 else name[:37] + "..." for name, _ in seen.most_common(3)]
    return ", ".join(names) + (", ..." if len(seen) > 3 else "")
