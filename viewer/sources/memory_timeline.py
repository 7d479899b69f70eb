"""Raw memory timelines of torch.profiler (`export_memory_timeline("x.raw.json.gz")`).

A list of `[time in ns, action, bytes, category]`: action 1 was there before (time -1), 2 created, 3 a new version (a
pair: minus the old, plus the new, of another category perhaps), 4 destroyed. There are no addresses: which of equal
tensors is destroyed first is not in the file, so the youngest is taken. Sums over time are exact all the same.
"""

from __future__ import annotations

from typing import Any

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Severity, StorageKind

from .traced_memory import TracedMemory

_BEFORE, _CREATED, _CHANGED, _DESTROYED = 1, 2, 3, 4
CATEGORIES = ("parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "")
"""torch's numbers of categories; the last is unknown."""
_KINDS = {0: StorageKind.parameter, 1: StorageKind.optimizer_state, 2: StorageKind.input, 5: StorageKind.gradient}
_PAIRED = Problem(
    "paired_by_size", Severity.info,
    "A memory timeline names no addresses: which of equal tensors was freed first is assumed, the sums are exact.",
)  # fmt: skip
_SPACE = 512

Open = tuple[int, int, bool]
"""(address, bytes, whether it was there before)"""


class Timeline:
    """Collects the entries of one timeline in order."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int, int]] = []

    def add(self, entry: Any) -> bool:
        """One entry; False if this is no timeline of events."""
        if type(entry) is not list or len(entry) != 4 or set(map(type, entry)) != {int}:
            return False
        time, action, size, category = entry
        if not (1 <= action <= 4 and 0 <= category < len(CATEGORIES) and -1 <= time < 1 << 62 and abs(size) < 1 << 62):
            return False
        self._entries.append((time, action, size, category))
        return True

    def recording(self) -> Recording:
        """The recording of all entries."""
        made = TracedMemory()
        self._device = made.device("profiled device", 0)
        self._next = 1 << 20
        self._open: dict[tuple[int, int], list[Open]] = {}
        start = min((time for time, *_ in self._entries if time >= 0), default=0)
        for time, action, size, category in self._entries:
            self._entry(made, max(time, start), action, size, category)
        for (_, category), alive in self._open.items():
            for address, size, before in alive:
                if before and category in _KINDS:
                    made.known(_KINDS[category], self._device, address, size, NONE)
        return made.recording([_PAIRED] if self._entries else [], [])

    def _entry(self, made: TracedMemory, time: int, action: int, size: int, category: int) -> None:
        alive = self._open.setdefault((abs(size), category), [])
        if action == _DESTROYED or (action == _CHANGED and size < 0):
            address, _, before = alive.pop() if alive else (self._new(size), 0, True)
            if action == _CHANGED:
                self._changing = (address, before)
            elif size:
                made.event(time, -abs(size), address, self._device, text=CATEGORIES[category])
        elif action == _CHANGED:
            address, before = self._changing
            alive.append((address, abs(size), before))
        else:
            before = action == _BEFORE and category in _KINDS
            alive.append((self._new(size), abs(size), before))
            if size and not before:
                made.event(time, abs(size), alive[-1][0], self._device, text=CATEGORIES[category])

    def _new(self, size: int) -> int:
        address = self._next
        self._next += max(abs(size), 1) + _SPACE
        return address

    _changing: tuple[int, bool] = (1 << 19, True)
