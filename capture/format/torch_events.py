"""The traces of torch's snapshots: events, and the moments that are marks."""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain
from typing import Any

import numpy as np

from . import plain_values as plain
from . import schema
from .interning import StringTable
from .plain_values import Row, Rows, Run
from .schema import B1, I32, I64, NONE, Action, MarkKind
from .torch_stacks import StackReader

ACTIONS: dict[str, Action] = {action.name: action for action in Action if action != Action.unknown}
"""torch's action texts."""

EVENT_FIELDS = plain.Fields(
    "action", ("addr", "size", "stream", "time_us", "device_free"), ("action", "user_metadata", "compile_context")
)
"""What is read of an event, beside its frames."""

_PLACED = (Action.alloc, Action.free_requested, Action.free_completed, Action.segment_alloc, Action.segment_free,
           Action.segment_map, Action.segment_unmap)  # fmt: skip
"""Actions that must have an address and a size."""

_IS_PLACED = np.isin(np.arange(256), _PLACED)
_LAST_TIME_US = (1 << 62) // 1000
_MAX_ANNOTATIONS = 1 << 20


class EventReader:
    """Reads the traces of one snapshot, and counts the actions that it does not know."""

    def __init__(self, strings: StringTable, stacks: StackReader, limit: float) -> None:
        self._strings = strings
        self._stacks = stacks
        self._limit = limit
        self._free_at_oom: dict[int, int] = {}
        self.unknown_actions: Counter[str] = Counter()

    def traces(self, value: Any) -> list[list[Row | Run]]:
        """The events of each device."""
        if type(value) not in (list, tuple):
            raise ValueError("'device_traces' is not a list")
        out, count = [], 0
        for trace in value:
            out.append(plain.entries(trace, "the trace of a device"))
            count += plain.count(out[-1])
            if count > self._limit:
                raise ValueError("it repeats its events more often than a file of its size can hold")
        plain.listed_once(list(chain.from_iterable(out)) if len(out) > 1 else out[0] if out else [], "events")
        return out

    def events(self, traces: list[list[Row | Run]], rows: dict[int, int]) -> schema.Events:
        """The events of all devices, merged by time where they have one, each device's in its own order."""
        lengths = [plain.count(trace) for trace in traces]
        flat = Rows(list(chain.from_iterable(traces)))
        if not len(flat):
            return schema.empty(schema.Events)
        action = plain.members(flat, "action", ACTIONS, Action.unknown, self.unknown_actions)
        placed = _IS_PLACED[action]
        columns: dict[str, Any] = {
            "action": action,
            "device": np.repeat(np.array([rows.get(i, NONE) for i in range(len(traces))], np.int32), lengths),
            "address": _checked(flat.whole_numbers("addr", -1, "an event"), placed, "addr"),
            "bytes": _checked(flat.whole_numbers("size", -1, "an event"), placed, "size"),
            "time": _nanoseconds(flat),
            "stack": flat.by_frames(self._stacks.rows, lambda events: plain.column(events, "frames")),
            "stream": flat.pointers("stream", "an event"),
            "thread": np.full(len(flat), NONE),
            "metadata": self._texts(flat, "user_metadata", absent=""),
            "compile_context": self._texts(flat, "compile_context", absent="N/A"),
        }
        order = _merged(columns["time"], lengths)
        if order is not None:
            columns = {name: column[order] for name, column in columns.items()}
        for row in np.flatnonzero(columns["action"] == Action.oom).tolist():
            self._free_at_oom[row] = flat.number(row if order is None else int(order[row]), "device_free")
        return schema.from_columns(schema.Events, **columns)

    def _texts(self, flat: Rows, key: str, absent: str) -> I32:
        numbers, texts = flat.texts(key)
        seen = np.zeros(len(texts) + 1, np.bool_)
        seen[numbers] = True
        interned = [self._strings.intern(t) if s and t not in ("", absent) else NONE for t, s in zip(texts, seen)]
        return np.array([*interned, NONE], np.int32)[numbers]

    def marks(self, events: schema.Events, annotations: Any) -> schema.Marks:
        """Out-of-memory errors, snapshots taken, and annotations such as `Optimizer.step#AdamW.step`."""
        out = [self._oom(events, row, free) for row, free in self._free_at_oom.items()]
        for row in np.flatnonzero(events.action == Action.snapshot).tolist():
            out.append(self._mark(MarkKind.snapshot, int(events.time[row]), row, "snapshot taken"))
        times = np.maximum.accumulate(events.time) if len(events) and int(events.time.min()) >= 0 else None
        notes = annotations[:_MAX_ANNOTATIONS] if type(annotations) is list else []
        if Run in set(map(type, notes)):
            raise ValueError("its annotations are events")
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


def _nanoseconds(events: Rows) -> I64:
    time = events.whole_numbers("time_us", NONE, "an event")
    if len(time) and int(time.max()) >= _LAST_TIME_US:
        raise ValueError("'time_us' of an event is too large")
    unknown = time < 0
    time *= 1000
    time[unknown] = NONE
    return time


def _merged(time: I64, lengths: list[int]) -> I64 | None:
    """The order of all events: by time, but never against the order within one device. None if it is that of `time`."""
    if len(time) == 0 or sum(map(bool, lengths)) < 2 or int(time.min()) < 0:
        return None
    ends = np.cumsum(lengths)
    steady = [np.maximum.accumulate(time[end - n : end]) for n, end in zip(lengths, ends.tolist()) if n]
    return np.argsort(np.concatenate(steady), kind="stable").astype(np.int64)


def _checked(values: I64, needed: B1, name: str) -> I64:
    if (needed & (values < 0)).any():
        raise ValueError(f"{name!r} of an event is missing or negative")
    return np.maximum(values, 0, out=values)
