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

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Any) -> bool:
        """One entry; False if this is no timeline of events."""
        if type(entry) is not list or len(entry) != 4 or set(map(type, entry)) != {int}:
            return False
        time, action, size, category = entry
        if not (1 <= action <= 4 and 0 <= category < len(CATEGORIES) and -1 <= time < 1 << 62 and abs(size) < 1 << 62):
            return False
        if size > 0 if action == _DESTROYED else size < 0 and action != _CHANGED:
            raise ValueError("an entry gives back what it takes, or the other way round")
        self._entries.append((time, action, size, category))
        return True

    def recording(self) -> Recording:
        """The recording of all entries."""
        made = TracedMemory()
        self._device = made.device("profiled device", 0)
        self._next = 1 << 20
        self._open: dict[tuple[int, int], list[Open]] = {}
        self._changing: Open | None = None
        start = min((time for time, *_ in self._entries if time >= 0), default=0)
        for time, action, size, category in self._entries:
            self._entry(made, max(time, start), action, size, category)
        if self._changing is not None:
            raise ValueError("a new version of a tensor is missing at its end")
        for (_, category), alive in self._open.items():
            for address, size, before in alive:
                if before and category in _KINDS:
                    made.known(_KINDS[category], self._device, address, size, NONE)
        return made.recording([_PAIRED] if self._entries else [], [])

    def _entry(self, made: TracedMemory, time: int, action: int, size: int, category: int) -> None:
        alive = self._open.setdefault((abs(size), category), [])
        if self._changing is not None and (action != _CHANGED or self._changing[1] != size):
            raise ValueError("a new version of a tensor is not as large as the old one, or missing")
        if action == _CHANGED:
            self._change(alive, size)
        elif action == _DESTROYED:
            address, *_ = alive.pop() if alive else (self._new(size), 0, True)
            if size:
                made.event(time, size, address, self._device, text=CATEGORIES[category])
        else:
            before = action == _BEFORE and category in _KINDS
            alive.append((self._new(size), size, before))
            if size and not before:
                made.event(time, size, alive[-1][0], self._device, text=CATEGORIES[category])

    def _change(self, alive: list[Open], size: int) -> None:
        """The old version comes first, and the new one takes its place: nothing is allocated."""
        if self._changing is not None:
            alive.append(self._changing)
            self._changing = None
        elif size < 0:
            address, _, before = alive.pop() if alive else (self._new(size), 0, True)
            self._changing = (address, -size, before)
        elif size:
            raise ValueError("a new version of a tensor has no old one")

    def _new(self, size: int) -> int:
        address = self._next
        self._next += max(abs(size), 1) + _SPACE
        return address
