"""Chrome traces of torch.profiler with `profile_memory=True`: their `[memory]` events, and what ran around each.

An entry `[memory]` has `Bytes` (negative for a free), `Addr`, `Device Type` (0 the CPU, 1 CUDA) and `Device Id`; `ts`
is in microseconds since `baseTimeNanoseconds`, or since 1970 where that is absent.
"""

from __future__ import annotations

import re
from typing import Any

from memstrata.capture.format.interning import StackTable
from memstrata.capture.format.paths import short_path
from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Severity

from .traced_memory import TracedMemory

_DEVICES = {0: "cpu", 1: "cuda", 6: "hip", 9: "xla", 12: "xpu", 13: "mps", 20: "npu"}
"""c10's device types, as far as memory is reported for them."""
_SPANS = frozenset({"cpu_op", "python_function", "user_annotation"})
_PYTHON = re.compile(r"^(?P<file>.+)\((?P<line>\d{1,9})\): (?P<name>.+)$")
_MAX_DEPTH = 1000
_NO_PROJECT = "\0"
_NO_STATE = Problem(
    "no_end_state", Severity.info,
    "A profiler trace tells what was allocated and freed while it ran, not what had been there before.",
)  # fmt: skip

Key = tuple[Any, Any]
"""Process and thread, as the trace calls them; None for what is neither a number nor a text."""
Memory = tuple[float, int, int, int, int]
"""(time in us, device type, device number, bytes, address)"""


class Trace:
    """Collects the entries of one trace that matter here."""

    def __init__(self) -> None:
        self.memory: list[tuple[Key, Memory]] = []
        self._spans: dict[Key, list[tuple[float, float, str, str]]] = {}
        self._annotations: list[tuple[float, str]] = []

    def add(self, entry: Any) -> None:
        """One entry of `traceEvents`."""
        if type(entry) is not dict:
            raise ValueError("an event is not a record")
        kind, name, time = entry.get("cat"), entry.get("name"), entry.get("ts")
        thread = (_plain(entry.get("pid")), _plain(entry.get("tid")))
        if name == "[memory]" and type(entry.get("args")) is dict:
            self.memory.append((thread, _memory(_number(time), entry["args"])))
        elif kind in _SPANS and entry.get("ph") == "X" and type(name) is str:
            duration = _number(entry.get("dur", 0))
            self._spans.setdefault(thread, []).append((_number(time), duration, str(kind), name))
            if kind == "user_annotation":
                self._annotations.append((_number(time), name))

    def recording(self, about: dict[str, Any]) -> Recording:
        """The recording; `about` is what the trace says beside its events."""
        base = about.get("baseTimeNanoseconds", 0)
        base = base if type(base) is int and 0 <= base < 1 << 62 else 0
        made = TracedMemory()
        by_thread: dict[Key, list[Memory]] = {}
        for thread, event in self.memory:
            by_thread.setdefault(thread, []).append(event)
        for thread, events in by_thread.items():
            self._thread(made, thread, events, base)
        marks = [(_nanoseconds(time, base), name) for time, name in self._annotations]
        return made.recording([_NO_STATE], marks)

    def _thread(self, made: TracedMemory, thread: Key, events: list[Memory], base: int) -> None:
        number = thread[1] if type(thread[1]) is int and 0 <= thread[1] < 1 << 62 else NONE
        walk = _Stacks(made.stacks, self._spans.get(thread, []))
        for time, kind, ordinal, size, address in sorted(events, key=lambda event: event[0]):
            name = _DEVICES.get(kind, f"device type {kind}")
            device = made.device(name if name == "cpu" else f"{name}:{ordinal}", ordinal)
            if size:
                made.event(_nanoseconds(time, base), size, address, device, stack=walk.at(time), thread=number)


class _Stacks:
    """What was running on one thread, asked in order of time."""

    def __init__(self, stacks: StackTable, spans: list[tuple[float, float, str, str]]) -> None:
        self._stacks = stacks
        self._spans = sorted(spans, key=lambda span: (span[0], -span[1]))
        self._next = 0
        self._open: list[tuple[float, int]] = []  # (end, stack)

    def at(self, time: float) -> int:
        """The stack at this time, whose innermost frame is the innermost operator or function."""
        while self._next < len(self._spans) and self._spans[self._next][0] <= time:
            start, duration, kind, name = self._spans[self._next]
            self._next += 1
            self._close(start)
            parent = self._open[-1][1] if self._open else NONE
            if len(self._open) < _MAX_DEPTH:
                self._open.append((start + duration, self._stacks.push(parent, self._frame(kind, name))))
        self._close(time)
        return self._open[-1][1] if self._open else NONE

    def _close(self, time: float) -> None:
        while self._open and self._open[-1][0] < time:
            self._open.pop()

    def _frame(self, kind: str, name: str) -> int:
        found = _PYTHON.match(name) if kind == "python_function" else None
        if found is None:
            return self._stacks.frame(name, "", 0)
        return self._stacks.frame(
            found["name"], short_path(found["file"], _NO_PROJECT), min(int(found["line"]), 2**31 - 1)
        )


def _memory(time: float, args: dict[str, Any]) -> Memory:
    kind, ordinal = args.get("Device Type", 0), args.get("Device Id", 0)
    if type(kind) is not int or type(ordinal) is not int or ordinal >= 1 << 20 or not 0 <= kind < 1 << 8:
        raise ValueError("a memory event has an impossible device")
    size, address = args.get("Bytes"), args.get("Addr", 0)
    if type(size) is not int or type(address) is not int:
        raise ValueError("a memory event has no size or no address")
    return time, kind, max(ordinal, 0), size, address


def _plain(value: Any) -> int | str | None:
    return value if type(value) in (int, str) else None


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < 1 << 62:
        raise ValueError("an event has no time")
    return float(value)


def _nanoseconds(time: float, base: int) -> int:
    return max(round(time * 1000) + base, 0)
