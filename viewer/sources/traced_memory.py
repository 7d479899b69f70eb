"""Builds the recording of a trace that has memory events but no allocator's end state."""

from __future__ import annotations

from typing import Any

from memstrata.capture.format import schema
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Device, Meta, Recording, build
from memstrata.capture.format.schema import NONE, Action, StorageKind

_MAX = (1 << 62) - 1


class TracedMemory:
    """Collects allocations and frees, in any order, and known storages."""

    def __init__(self) -> None:
        self.strings = StringTable()
        self.stacks = StackTable(self.strings)
        self._events: list[tuple[int, Action, int, int, int, int, int, int]] = []
        self._known: list[tuple[int, int, int, int, int]] = []
        self._devices: dict[tuple[str, int], int] = {}

    def device(self, name: str, ordinal: int) -> int:
        """The row of a device."""
        return self._devices.setdefault((name, ordinal), len(self._devices))

    def event(
        self, time: int, size: int, address: int, device: int, *, stack: int = NONE, thread: int = NONE, text: str = ""
    ) -> None:
        """An allocation of `size` bytes at `time` (Unix ns), or the free of as many if it is negative."""
        if not (0 <= address <= _MAX and abs(size) <= _MAX and NONE <= time <= _MAX):
            raise ValueError("a memory event has an impossible number")
        action = Action.alloc if size > 0 else Action.free_completed
        note = self.strings.intern(text) if text else NONE
        self._events.append((time, action, address, abs(size), device, stack, thread, note))

    def known(self, kind: StorageKind, device: int, address: int, size: int, end_time: int) -> None:
        """A storage that was there before the first event; `end_time` as in the schema."""
        self._known.append((kind, device, address, size, end_time))

    def recording(self, problems: list[Problem], marks: list[tuple[int, str]]) -> Recording:
        """The recording; `marks` are (Unix ns, text)."""
        events = sorted(self._events, key=lambda event: event[0])
        columns: list[Any] = [*zip(*events)] or [()] * 8
        time, action, address, size, device, stack, thread, note = columns
        none = [NONE] * len(events)
        start = events[0][0] if events else 0
        known = [(k, d, a, n, self.strings.intern(""), NONE, start, e) for k, d, a, n, e in self._known]
        shown = [(schema.MarkKind.annotation, t, NONE, self.strings.intern(text), float("nan")) for t, text in marks]
        tables: dict[str, schema.Table] = {
            "events": schema.from_columns(
                schema.Events, action=action, device=device, address=address, bytes=size, time=time, stack=stack,
                stream=[0] * len(events), thread=thread, metadata=note, compile_context=none,
            ),
            "known_storages": schema.from_rows(schema.KnownStorages, known),
            "marks": schema.from_rows(schema.Marks, sorted(shown, key=lambda mark: mark[1])),
        }  # fmt: skip
        frames, tree = self.stacks.freeze()
        devices = tuple(Device(name, ordinal) for name, ordinal in self._devices)
        meta = Meta(kind="snapshot", source="profiler", devices=devices, problems=tuple(problems))
        return build(meta, self.strings, frames=frames, stacks=tree, **tables)
