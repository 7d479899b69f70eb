"""CPU allocations out of torch.profiler: address, size, time, and the chain of operators and Python calls."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import time_ns
from typing import Any

import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from ..errors import CaptureError
from ..format import schema
from ..format.interning import StackTable, StringTable
from ..format.paths import short_path
from ..format.problems import Problem
from ..format.recording import Device
from ..format.schema import NONE, Action, Severity
from ..own_frames import is_own
from ..step_log import StepLog
from ..storages import Known
from . import Allocations
from .heap import heap_tables
from .unseen_frees import Collectives, freed_elsewhere

_OBJECT = re.compile(r" of .* object at 0x[0-9a-fA-F]+")
"""`<built-in method mul_ of Parameter object at 0x7f..>`: the address would make every call another frame."""

Event = tuple[int, int, int, int]
"""(time in ns, address, signed bytes, stack)"""


class CpuSource:
    """The CPU has no memory history: what was alive before is known only where a storage could be named."""

    name = "cpu"

    def __init__(self) -> None:
        self._profile: Any = None
        self._cut_short = NONE
        self._measured: list[Event] = []
        self._collectives = Collectives()
        self._heap: dict[int, int] = {}
        self._net = 0

    def start(self) -> None:
        """Start the profiler; raises CaptureError if one is running already: stopping ours would stop it too."""
        if torch.autograd._profiler_enabled():
            raise CaptureError("CPU memory cannot be recorded while another profiler runs.")
        self._profile = profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True)
        with _quiet_kineto():
            self._profile.start()

    def stop(self) -> None:
        """Stop the profiler."""
        if self._profile is not None:
            if not torch.autograd._profiler_enabled():
                self._cut_short = time_ns()
            self._profile.stop()

    def pause(self, stacks: StackTable) -> int:
        """Stop, and keep of what the profiler saw only the events: it holds about 11 kB for each until it is gone.

        Returns the most bytes that lived at once since the pause before, of those allocated since the first start.
        """
        self.stop()
        return self._parse(stacks)

    def forget_before(self, moment: int) -> None:
        """Let go of what happened before a time (Unix ns), except the allocations that live on."""
        alive: dict[int, Event] = {}
        for event in self._measured:
            if event[0] < moment:
                alive.pop(event[1], None)
                if event[2] > 0:
                    alive[event[1]] = event
        kept = {event[:2] for event in alive.values()}
        self._measured = [*alive.values(), *(event for event in self._measured if event[0] >= moment)]
        ends = self._collectives.ends
        self._collectives.ends = {key: end for key, end in ends.items() if key[0] >= moment or key in kept}

    def forget_all(self) -> None:
        """Let go of everything, of what lives on too."""
        self._measured, self._collectives = [], Collectives()

    def collect(self, log: StepLog, strings: StringTable, stacks: StackTable) -> Allocations:
        """Events with stacks, and one segment row that stands for the heap, with what is alive at the end."""
        self._parse(stacks)
        return self.collect_between(NONE, 1 << 63, log)

    def collect_between(self, start: int, end: int, log: StepLog) -> Allocations:
        """The same of what happened from one time to another (Unix ns), until the last pause."""
        measured = [event for event in self._measured if event[0] <= end]
        before, later = _unmeasured(measured, log)
        measured += freed_elsewhere(measured, log.storages.known, self._collectives)
        events = _paired([*measured, *later], before)
        within = [row for row in events if row[4] >= start]
        tables: dict[str, schema.Table] = {"events": schema.from_rows(schema.Events, within)}
        tables.update(_end_state(events, before))
        problem = Problem(
            "cpu_baseline", Severity.info,
            "The CPU allocator keeps no history: what was alive before the step is shown only where it is a parameter, "
            "buffer, gradient, optimizer state or input.",
        )  # fmt: skip
        problems = [problem, *self._ended_early(start)]
        return Allocations((Device("cpu", 0),), tables, has_reserved=False, problems=problems)

    def _parse(self, stacks: StackTable) -> int:
        if self._profile is None:
            return self._net
        tree = self._profile.profiler.kineto_results.experimental_event_tree()
        self._profile = None
        found = sorted(_memory_events(tree, stacks, self._collectives), key=lambda event: event[0])
        self._measured += found
        highest = self._net
        for _, address, signed, _ in found:
            self._net -= self._heap.pop(address, 0)
            if signed > 0:
                self._heap[address] = signed
                self._net += signed
                highest = max(highest, self._net)
        return highest

    def _ended_early(self, start: int) -> list[Problem]:
        text = "Another profiler ran and ended inside the step: what was allocated and freed after it was not seen."
        cut_short = self._cut_short != NONE and self._cut_short >= start
        return [Problem("profiler_ended", Severity.error, text)] if cut_short else []


@contextmanager
def _quiet_kineto() -> Iterator[None]:
    """The profiler's library says on stderr whenever it starts and stops, unless this is set when it is first used."""
    name = "KINETO_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "99"
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _memory_events(roots: Iterable[Any], stacks: StackTable, collectives: Collectives) -> Iterator[Event]:
    """CPU allocation events of the profiler's tree, each with its stack; walked without recursion."""
    todo: list[tuple[Any, Any]] = [(event, None) for event in roots]
    while todo:
        event, chain = todo.pop()
        if event.tag == _EventType.Allocation:
            fields = event.extra_fields
            if fields.device.type == "cpu":
                collectives.note(event.start_time_ns, fields.ptr, fields.alloc_size, chain)
                yield event.start_time_ns, fields.ptr, fields.alloc_size, _stack(chain, stacks)
            continue
        link = [event, chain, None]
        todo.extend((child, link) for child in event.children)


def _stack(chain: Any, stacks: StackTable) -> int:
    """The stack of a chain of links [event, caller's link, stack of the callers once known]."""
    if chain is None:
        return NONE
    missing = []
    link = chain
    while link is not None and link[2] is None:
        missing.append(link)
        link = link[1]
    for link in reversed(missing):
        caller = link[1]
        link[2] = NONE if caller is None else _push(caller, _line_in_caller(link[0]), stacks)
    return _push(chain, 0, stacks)


def _push(link: Any, line: int, stacks: StackTable) -> int:
    """The stack that ends in this link's event; the recorder's own frames are left out."""
    event, _, callers = link
    callers = int(callers)
    try:
        name, file, place = _place(event)
    except UnicodeDecodeError:  # torch hands out the name of something that is gone by now
        name, file, place = "??", "", 0
    if file and is_own(file):
        return callers
    return stacks.push(callers, stacks.frame(name, short_path(file), line or place))


def _place(event: Any) -> tuple[str, str, int]:
    """(name, file, line) of an event; operators and built-in functions have no file."""
    if event.tag == _EventType.PyCall:
        site = event.extra_fields.callsite
        return site.function_name, site.file_name, site.line_number
    return _OBJECT.sub("", event.name), "", 0


def _line_in_caller(event: Any) -> int:
    """The line at which a Python call stands in its caller; 0 where the event does not say."""
    if event.tag in (_EventType.PyCall, _EventType.PyCCall):
        return int(event.extra_fields.caller.line_number)
    return 0


def _unmeasured(measured: list[Event], log: StepLog) -> tuple[list[Known], list[Event]]:
    """Known storages that no measured allocation explains: those there when the step began, and events of the others.

    Others are memory that torch did not allocate, such as numpy's, at an address whose storage died in the step.
    """
    alive: set[int] = set()
    before, later, events = list[Known](), list[Event](), iter([*measured, (1 << 63, 0, 0, NONE)])
    last: dict[int, Known] = {}
    event = next(events)
    for known in sorted(log.storages.known, key=lambda known: known.start_time):
        while event[0] <= known.start_time:
            (alive.add if event[2] > 0 else alive.discard)(event[1])
            event = next(events)
        if known.device.type != "cpu" or known.address in alive:
            continue
        earlier = last.get(known.address)
        last[known.address] = known
        if earlier is None:
            before.append(known)
        elif NONE < earlier.end_time <= known.start_time:
            later.append((known.start_time, known.address, known.bytes, NONE))
            later += [(known.end_time, known.address, -known.bytes, NONE)] if known.end_time != NONE else []
    return before, later


def _paired(measured: list[Event], before: list[Known]) -> list[tuple[Any, ...]]:
    """Event rows in order; a free takes the size of its allocation, because the profiler's can be stale.

    Frees of what was alive before give no event: their time comes from the storage's weak reference. Frees on threads
    that are not profiled give none either: they happened at the latest when the address was allocated again.
    """
    deaths = [(k.end_time, k.address, 0, NONE) for k in before if k.end_time != NONE]
    old = {known.address: known.bytes for known in before}
    alive: dict[int, int] = {}
    rows = []

    def free(time: int, address: int, size: int, stack: int) -> None:
        rows.append((Action.free_completed, 0, address, size, time, stack, 0, NONE, NONE, NONE))

    for time, address, signed, stack in sorted([*measured, *deaths], key=lambda event: event[0]):
        holders = (old,) if signed == 0 else (old, alive)  # a death is that of the old storage and of no other
        for holder in holders:
            if address in holder:
                free(time, address, holder.pop(address), stack if signed < 0 else NONE)
        if signed > 0:
            alive[address] = signed
            rows.append((Action.alloc, 0, address, signed, time, stack, 0, NONE, NONE, NONE))
    return rows


def _end_state(events: list[tuple[Any, ...]], before: list[Known]) -> dict[str, schema.Table]:
    """What is alive at the end, as blocks."""
    alive = {known.address: (known.bytes, NONE) for known in before}
    for action, _, address, size, _, stack, *_ in events:
        if action == Action.alloc:
            alive[address] = (size, stack)
        else:
            alive.pop(address, None)
    return heap_tables(alive)
