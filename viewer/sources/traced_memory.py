"""Builds the recording of a trace that has memory events but no allocator's end state."""

from __future__ import annotations

from typing import Any

import numpy as np

from memstrata.capture.format import schema
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Device, Meta, Recording, build
from memstrata.capture.format.schema import I64, NONE, Action

from .progress import Progress

MAX_NUMBER = (1 << 62) - 1
"""The largest time, size and address."""
_EVENT = {"time": np.int64, "size": np.int64, "address": np.int64, "device": np.int32, "stack": np.int32,
          "thread": np.int64, "note": np.int32}  # fmt: skip


class TracedMemory:
    """Collects allocations and frees, in any order, and known storages: columns, or one value for all rows."""

    def __init__(self) -> None:
        self.strings = StringTable()
        self.stacks = StackTable(self.strings)
        self._events: list[dict[str, Any]] = []
        self._known: list[tuple[I64, I64, I64, I64, I64]] = []
        self._devices: dict[tuple[str, int], int] = {}

    def device(self, name: str, ordinal: int) -> int:
        """The row of a device."""
        return self._devices.setdefault((name, ordinal), len(self._devices))

    def events(
        self,
        *,
        time: I64,
        size: I64,
        address: I64,
        device: Any,
        stack: Any = NONE,
        thread: Any = NONE,
        note: Any = NONE,
    ) -> None:
        """Allocations of `size` bytes at `time` (Unix ns), or frees of as many where it is negative.

        `note` is the number of a text. Raises ValueError for a number that none of these can be.
        """
        for column, least in ((time, NONE), (size, -MAX_NUMBER), (address, 0)):
            if len(column) and not (least <= int(column.min()) and int(column.max()) <= MAX_NUMBER):
                raise ValueError("a memory event has an impossible number")
        given = {"time": time, "size": size, "address": address, "device": device, "stack": stack, "thread": thread,
                 "note": note}  # fmt: skip
        self._events.append({n: np.broadcast_to(np.asarray(c, _EVENT[n]), len(time)) for n, c in given.items()})

    def known(self, kind: I64, device: int, address: I64, size: I64, end_time: I64) -> None:
        """Storages that were there before the first event; `end_time` as in the schema."""
        if len(address):
            self._known.append((kind, np.full(len(address), device), address, size, end_time))

    def recording(self, problems: list[Problem], marks: list[tuple[int, str]], progress: Progress) -> Recording:
        """The recording; `marks` are (Unix ns, text)."""
        events = self._in_order(progress)
        start = int(events.time[0]) if len(events) else 0
        shown = [(schema.MarkKind.annotation, t, NONE, self.strings.intern(text), float("nan")) for t, text in marks]
        marked = schema.from_rows(schema.Marks, sorted(shown, key=lambda mark: mark[1]))
        tables: dict[str, schema.Table] = {
            "events": events, "known_storages": self._storages(start), "marks": marked,
        }  # fmt: skip
        progress("Building tables", 0.9)
        frames, tree = self.stacks.freeze()
        devices = tuple(Device(name, ordinal) for name, ordinal in self._devices)
        meta = Meta(kind="snapshot", source="profiler", devices=devices, problems=tuple(problems))
        return build(meta, self.strings, frames=frames, stacks=tree, **tables)

    def _in_order(self, progress: Progress) -> schema.Events:
        """All events by time; those of one time as they came."""
        order = np.argsort(self._column("time"), kind="stable")
        progress("Building tables", 0.8)
        columns = {}
        for name in _EVENT:
            columns[name] = self._column(name)[order]
            for part in self._events:
                del part[name]
        size, note = columns.pop("size"), columns.pop("note")
        action = np.where(size > 0, Action.alloc, Action.free_completed)
        none = np.full(len(size), NONE, np.int32)
        return schema.from_columns(
            schema.Events, action=action, bytes=np.abs(size), stream=np.zeros(len(size), np.int64), metadata=note,
            compile_context=none, **columns,
        )  # fmt: skip

    def _column(self, name: str) -> Any:
        parts = [part[name] for part in self._events]
        return np.concatenate(parts) if parts else np.empty(0, _EVENT[name])

    def _storages(self, start: int) -> schema.KnownStorages:
        if not self._known:
            return schema.empty(schema.KnownStorages)
        kind, device, address, size, end_time = map(np.concatenate, zip(*self._known))
        same = np.ones(len(address), np.int64)
        return schema.from_columns(
            schema.KnownStorages, kind=kind, device=device, address=address, bytes=size, end_time=end_time,
            name=same * self.strings.intern(""), module=same * NONE, start_time=same * start,
        )  # fmt: skip
