"""Chrome traces of torch.profiler with `profile_memory=True`: their `[memory]` events, and what ran around each.

An entry `[memory]` has `Bytes` (negative for a free), `Addr`, `Device Type` (0 the CPU, 1 CUDA) and `Device Id`; `ts`
is in microseconds since `baseTimeNanoseconds`, or since 1970 where that is absent.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from memstrata.capture.format.interning import StackTable
from memstrata.capture.format.paths import short_path
from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I64, NONE, Severity

from .progress import Progress
from .traced_memory import MAX_NUMBER, TracedMemory

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
_TIME, _KIND, _ORDINAL, _SIZE, _ADDRESS = range(5)
MAX_THREADS = 1 << 16
MAX_SPANS = 8_000_000
"""Operators and functions of one file; a made-up one could hold hundreds of millions."""
_MAX_ANNOTATIONS = 1 << 20
_EACH = 4096


class _Thread:
    """What one thread did, in columns."""

    def __init__(self) -> None:
        self.memory: tuple[array[Any], ...] = (array("d"), array("h"), array("l"), array("q"), array("q"))
        """(time in us, device type, device number, bytes, address)"""
        self.spans: tuple[array[Any], ...] = (array("d"), array("d"), array("l"))
        """(time in us, duration in us, number of the name)"""


class Trace:
    """Collects the entries of one trace that matter here: some 50 bytes for each."""

    def __init__(self) -> None:
        self.count = 0
        """How many memory events there are."""
        self._spans = 0
        self._threads: dict[Key, _Thread] = {}
        self._names: dict[tuple[str, str], int] = {}
        self._annotations: list[tuple[float, str]] = []

    def add(self, entry: Any) -> None:
        """One entry of `traceEvents`."""
        if type(entry) is not dict:
            raise ValueError("an event is not a record")
        kind, name = entry.get("cat"), entry.get("name")
        if name == "[memory]" and type(entry.get("args")) is dict:
            event = _memory(_number(entry.get("ts")), entry["args"])
            for column, value in zip(self._thread_of(entry).memory, event):
                column.append(value)
            self.count += 1
        elif type(kind) is str and kind in _SPANS and entry.get("ph") == "X" and type(name) is str:
            self._span(entry, kind, name)

    def _span(self, entry: dict[str, Any], kind: str, name: str) -> None:
        time, duration = _number(entry.get("ts")), _number(entry.get("dur", 0))
        times, durations, names = self._thread_of(entry).spans
        times.append(time)
        durations.append(duration)
        names.append(self._names.setdefault((kind, name), len(self._names)))
        self._spans += 1
        if kind == "user_annotation":
            self._annotations.append((time, name))
        if self._spans > MAX_SPANS or len(self._annotations) > _MAX_ANNOTATIONS:
            raise ValueError("it holds more operators than a step can have")

    def _thread_of(self, entry: dict[str, Any]) -> _Thread:
        key = (_plain(entry.get("pid")), _plain(entry.get("tid")))
        found = self._threads.get(key)
        if found is None:
            if len(self._threads) == MAX_THREADS:
                raise ValueError("it names more threads than a process can have")
            found = self._threads[key] = _Thread()
        return found

    def recording(self, about: dict[str, Any], progress: Progress) -> Recording:
        """The recording; `about` is what the trace says beside its events."""
        base = about.get("baseTimeNanoseconds", 0)
        base = base if type(base) is int and 0 <= base < 1 << 62 else 0
        made = TracedMemory()
        frames = _Frames(made.stacks, list(self._names))
        done = 0
        for key, thread in self._threads.items():
            number = key[1] if type(key[1]) is int and 0 <= key[1] < 1 << 62 else NONE
            if thread.memory[_TIME]:
                _fill(made, thread, number, base, frames, _Share(progress, done, self.count))
                done += len(thread.memory[_TIME])
        times = _nanoseconds(np.array([time for time, _ in self._annotations], np.float64), base)
        marks = list(zip(times.tolist(), (name for _, name in self._annotations)))
        return made.recording([_NO_STATE], marks, progress)


@dataclass
class _Share:
    """Progress of one thread, which has a share of all events."""

    progress: Progress
    done: int
    count: int

    def __call__(self, more: int = 0) -> None:
        """So many more events are done; without, only whether to go on is asked."""
        self.done += more
        self.progress("Building tables", 0.7 * self.done / self.count)


def _fill(made: TracedMemory, thread: _Thread, number: int, base: int, frames: _Frames, share: _Share) -> None:
    """The memory events of one thread, each with what was running then."""
    time, kind, ordinal, size, address = (np.frombuffer(column, column.typecode) for column in thread.memory)
    order = np.argsort(time, kind="stable")
    order = order[size[order] != 0]
    walk = _Stacks(made.stacks, thread.spans, frames, share)
    stacks = array("l")
    for at in range(0, len(order), _EACH):
        some = time[order[at : at + _EACH]].tolist()
        stacks.extend(map(walk.at, some))
        share(len(some))
    made.events(
        time=_nanoseconds(time[order], base), size=size[order], address=address[order],
        device=_devices(made, kind[order], ordinal[order]), stack=np.array(stacks, np.int32), thread=number,
    )  # fmt: skip


def _devices(made: TracedMemory, kind: Any, ordinal: Any) -> Any:
    """The row of each event's device; they are numbered as they occur."""
    both, first, which = np.unique(kind.astype(np.int64) << 32 | ordinal, return_index=True, return_inverse=True)
    rows = np.zeros(len(both), np.int32)
    for i in np.argsort(first).tolist():
        number = int(kind[first[i]])
        name = _DEVICES.get(number, f"device type {number}")
        rows[i] = made.device(name if name == "cpu" else f"{name}:{ordinal[first[i]]}", int(ordinal[first[i]]))
    return rows[which]


class _Stacks:
    """What was running on one thread, asked in order of time."""

    def __init__(self, stacks: StackTable, spans: tuple[Any, ...], frames: _Frames, share: _Share) -> None:
        self._stacks, self._frames, self._share = stacks, frames, share
        self._columns = [np.frombuffer(column, column.typecode) for column in spans]
        self._spans = self._in_order()
        self._next = next(self._spans, None)
        self._open: list[tuple[float, int]] = []  # (end, stack)

    def _in_order(self) -> Iterator[tuple[float, float, int]]:
        """(time, duration, name); of two that begin together the longer one comes first."""
        order = np.lexsort((-self._columns[1], self._columns[0]))
        for at in range(0, len(order), _EACH):
            self._share()
            some = order[at : at + _EACH]
            yield from zip(*(column[some].tolist() for column in self._columns))

    def at(self, time: float) -> int:
        """The stack at this time, whose innermost frame is the innermost operator or function."""
        while self._next is not None and self._next[0] <= time:
            start, duration, name = self._next
            self._next = next(self._spans, None)
            self._close(start)
            parent = self._open[-1][1] if self._open else NONE
            if len(self._open) < _MAX_DEPTH:
                self._open.append((start + duration, self._stacks.push(parent, self._frames[name])))
        self._close(time)
        return self._open[-1][1] if self._open else NONE

    def _close(self, time: float) -> None:
        while self._open and self._open[-1][0] < time:
            self._open.pop()


class _Frames(dict[int, int]):
    """The frame of each name by its number, made when it is asked for."""

    def __init__(self, stacks: StackTable, names: list[tuple[str, str]]) -> None:
        super().__init__()
        self._stacks, self._names = stacks, names

    def __missing__(self, number: int) -> int:
        kind, name = self._names[number]
        found = _PYTHON.match(name) if kind == "python_function" else None
        if found is None:
            self[number] = self._stacks.frame(name, "", 0)
        else:
            line = min(int(found["line"]), 2**31 - 1)
            self[number] = self._stacks.frame(found["name"], short_path(found["file"], _NO_PROJECT), line)
        return self[number]


def _memory(time: float, args: dict[str, Any]) -> tuple[float, int, int, int, int]:
    kind, ordinal = args.get("Device Type", 0), args.get("Device Id", 0)
    if type(kind) is not int or type(ordinal) is not int or ordinal >= 1 << 20 or not 0 <= kind < 1 << 8:
        raise ValueError("a memory event has an impossible device")
    size, address = args.get("Bytes"), args.get("Addr", 0)
    if type(size) is not int or type(address) is not int:
        raise ValueError("a memory event has no size or no address")
    if abs(size) > MAX_NUMBER or not 0 <= address <= MAX_NUMBER:
        raise ValueError("a memory event has an impossible number")
    return time, kind, max(ordinal, 0), size, address


def _plain(value: Any) -> int | str | None:
    return value if type(value) in (int, str) else None


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < 1 << 62:
        raise ValueError("an event has no time")
    return float(value)


def _nanoseconds(time: Any, base: int) -> I64:
    """Unix time of times in microseconds after `base`."""
    exact = np.rint(time * 1000)
    if len(exact) and float(np.abs(exact).max()) > MAX_NUMBER:
        raise ValueError("a memory event has an impossible number")
    return np.maximum(exact.astype(np.int64) + base, 0)
