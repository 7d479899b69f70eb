"""Stamps on allocations: the module and phase that the allocating thread is in, where torch can stamp (from 2.10).

A stamp needs neither clock nor address: it is the strongest evidence of where an allocation was made. torch keeps one
text per thread. What the program itself stamps is kept in front of ours, and is what remains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from ..format import schema
from ..format.interning import StringTable
from ..format.schema import NONE, Phase
from ..format.stamps import Stamp, parse
from ..step_log import thread_id

Place = tuple[Phase, nn.Module | None]


@dataclass
class _Thread:
    below: Place | None = None
    """What runs where no module does: the backward of a module, or the optimizer."""
    running: list[Place] = field(default_factory=list)
    graph_task: int = NONE


class MetadataStamp:
    """Stamps the calling thread; a module is named by a number, since which model is recorded is known at the end."""

    def __init__(self, give: Callable[[str], None], ask: Callable[[], str]) -> None:
        self._give, self._ask = give, ask
        self._threads: dict[int, _Thread] = defaultdict(_Thread)
        self._numbers: dict[int, int] = {}
        self._modules: list[nn.Module] = []
        self._given: dict[str, Stamp] = {}

    def entered(self, module: nn.Module, phase: Phase) -> None:
        """A module runs."""
        thread = self._threads[thread_id()]
        thread.running.append((phase, module))
        self._stamp(thread)

    def left(self, module: nn.Module) -> None:
        """A module ended, and with it those inside it whose end nobody saw."""
        thread = self._threads[thread_id()]
        depth = next((d for d in reversed(range(len(thread.running))) if thread.running[d][1] is module), None)
        if depth is not None:
            del thread.running[depth:]
            self._stamp(thread)

    def unpacked(self, module: nn.Module | None) -> None:
        """The backward of what this module saved runs next; autograd's own threads are cleared when it is over."""
        thread, task = self._threads[thread_id()], torch._C._current_graph_task_id()
        if task != NONE and task != thread.graph_task:
            thread.graph_task = task
            torch.autograd.Variable._execution_engine.queue_callback(self._clear)
        thread.below = (Phase.backward, module)
        self._stamp(thread)

    def phase(self, phase: Phase) -> None:
        """Backward or the optimizer begins on this thread, or (`other`) ends."""
        thread = self._threads[thread_id()]
        thread.below = None if phase == Phase.other else (phase, None)
        self._stamp(thread)

    def clear(self) -> None:
        """Leave the calling thread with the program's own text."""
        self._threads.pop(thread_id(), None)
        self._clear()

    def _clear(self) -> None:
        thread = self._threads.get(thread_id())
        if thread is not None:
            thread.below = None
        self._stamp(thread or _Thread())

    def _stamp(self, thread: _Thread) -> None:
        there = self._ask()
        user = parse(there).user
        place = thread.running[-1] if thread.running else thread.below
        stamp = Stamp(user) if place is None else Stamp(user, place[0], self._number(place[1]))
        if stamp.text != there:
            self._give(stamp.text)
            self._given[stamp.text] = stamp

    def _number(self, module: nn.Module | None) -> str:
        if module is None:
            return ""
        if id(module) not in self._numbers:
            self._numbers[id(module)] = len(self._modules)
            self._modules.append(module)  # held, so that no other object gets its id
        return f"#{self._numbers[id(module)]}"

    def named(self, events: schema.Events, strings: StringTable, path_of: Callable[[nn.Module], str | None]) -> None:
        """Put module paths in the place of numbers; of a module of another model (path None) the phase remains.

        Changes the events; the model itself is called `.`.
        """
        for old, stamp in self._given.items():
            if stamp.place:
                path = path_of(self._modules[int(stamp.place[1:])])
                new = Stamp(stamp.user, stamp.phase, "" if path is None else path or ".")
                events.metadata[events.metadata == strings.intern(old)] = strings.intern(new.text)
