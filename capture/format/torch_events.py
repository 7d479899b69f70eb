"""The traces of torch's snapshots: events, and the moments that are marks."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from . import plain_values as plain
from . import schema
from .interning import StringTable
from .plain_values import Row
from .schema import B1, I32, I64, NONE, Action, MarkKind
from .torch_stacks import StackReader

ACTIONS: dict[str, Action] = {action.name: action for action in Action if action != Action.unknown}
"""torch's action texts."""

_PLACED = (Action.alloc, Action.free_requested, Action.free_completed, Action.segment_alloc, Action.segment_free,
           Action.segment_map, Action.segment_unmap)  # fmt: skip
"""Actions that must have an address and a size."""

_LAST_TIME_US = (1 << 63) // 1000
_MAX_ANNOTATIONS = 1 << 20


class EventReader:
    """Reads the traces of one snapshot, and counts the actions that it does not know."""

    def __init__(self, strings: StringTable, stacks: StackReader, limit: float) -> None:
        self._strings = strings
        self._stacks = stacks
        self._limit = limit
        self._free_at_oom: dict[int, int] = {}
        self.unknown_actions: Counter[str] = Counter()

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
        lengths = [len(trace) for trace in traces]
        flat = [event for trace in traces for event in trace]
        action = np.array(
            [plain.member(event, "action", ACTIONS, Action.unknown, self.unknown_actions) for event in flat], np.uint8
        )
        placed = np.isin(action, _PLACED)
        columns: dict[str, Any] = {
            "action": action,
            "device": np.repeat([rows.get(i, NONE) for i in range(len(traces))], lengths),
            "address": _checked(plain.whole_numbers(flat, "addr", -1, "an event"), placed, "addr"),
            "bytes": _checked(plain.whole_numbers(flat, "size", -1, "an event"), placed, "size"),
            "time": _nanoseconds(flat),
            "stack": np.array(self._stacks.column(flat), np.int32),
            "stream": plain.pointers(flat, "stream", "an event"),
            "thread": np.full(len(flat), NONE),
            "metadata": self._texts(flat, "user_metadata", absent=""),
            "compile_context": self._texts(flat, "compile_context", absent="N/A"),
        }
        order = _merged(columns["time"], lengths)
        for row in np.flatnonzero(action[order] == Action.oom).tolist():
            self._free_at_oom[row] = plain.number(flat[int(order[row])], "device_free", NONE)
        return schema.from_columns(schema.Events, **{name: column[order] for name, column in columns.items()})

    def _texts(self, flat: list[Row], key: str, absent: str) -> I32:
        texts = (plain.text(event, key) if key in event else "" for event in flat)
        return np.array([self._strings.intern(t) if t not in ("", absent) else NONE for t in texts], np.int32)

    def marks(self, events: schema.Events, annotations: Any) -> schema.Marks:
        """Out-of-memory errors, snapshots taken, and annotations such as `Optimizer.step#AdamW.step`."""
        out = [self._oom(events, row, free) for row, free in self._free_at_oom.items()]
        for row in np.flatnonzero(events.action == Action.snapshot).tolist():
            out.append(self._mark(MarkKind.snapshot, int(events.time[row]), row, "snapshot taken"))
        times = np.maximum.accumulate(events.time) if len(events) and int(events.time.min()) >= 0 else None
        notes = annotations[:_MAX_ANNOTATIONS] if type(annotations) is list else []
        out += [self._annotation(note, times) for note in notes if type(note) is dict]
        return schema.from_rows(schema.Marks, sorted(out, key=lambda mark: (mark[2], mark[1])))

    def _oom(self, events: schema.Events, row: int, free: int) -> tuple[Any, ...]:
        asked = int(events.bytes[row])
        known = f", {free:,} bytes free on the device" if free != NONE else ""
        text = f"out of memory: {asked:,} bytes asked for{known}"
        return self._mark(MarkKind.oom, int(events.time[row]), row, text, float(asked))

    def _annotation(self, note: Row, times: I64 | None) -> tuple[Any, ...]:
        time = plain.number(note, "time_us", NONE)
        time = time * 1000 if 0 <= time < _LAST_TIME_US else NONE
        event = int(np.searchsorted(times, time)) if time != NONE and times is not None else NONE
        stage = {"START": " begins", "END": " ends"}.get(plain.text(note, "stage"), "")
        return self._mark(MarkKind.annotation, time, event, plain.text(note, "name") + stage)

    def _mark(self, kind: MarkKind, time: int, event: int, text: str, value: float = math.nan) -> tuple[Any, ...]:
        return kind, time, event, self._strings.intern(text), value


def _nanoseconds(events: list[Row]) -> I64:
    time = plain.whole_numbers(events, "time_us", NONE, "an event")
    if len(time) and int(time.max()) >= _LAST_TIME_US:
        raise ValueError("'time_us' of an event is too large")
    return np.where(time < 0, NONE, time * 1000)


def _merged(time: I64, lengths: list[int]) -> I64:
    """The order of all events: by time, but never against the order within one device."""
    if len(time) == 0 or int(time.min()) < 0 or sum(map(bool, lengths)) < 2:
        return np.arange(len(time), dtype=np.int64)
    ends = np.cumsum(lengths)
    steady = [np.maximum.accumulate(time[end - n : end]) for n, end in zip(lengths, ends.tolist()) if n]
    return np.argsort(np.concatenate(steady), kind="stable").astype(np.int64)


def _checked(values: I64, needed: B1, name: str) -> I64:
    if (values[needed] < 0).any():
        raise ValueError(f"{name!r} of an event is missing or negative")
    return np.maximum(values, 0)
