"""Raw memory timelines of torch.profiler (`export_memory_timeline("x.raw.json.gz")`).

A list of `[time in ns, action, bytes, category]`: action 1 was there before (time -1), 2 created, 3 a new version (a
pair: minus the old, plus the new, of another category perhaps), 4 destroyed. There are no addresses: which of equal
tensors is destroyed first is not in the file, so the youngest is taken. Sums over time are exact all the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I64, NONE, Severity, StorageKind

from .progress import Progress
from .traced_memory import MAX_NUMBER, TracedMemory

_BEFORE, _CREATED, _CHANGED, _DESTROYED = 1, 2, 3, 4
CATEGORIES = ("parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "")
"""torch's numbers of categories; the last is unknown."""
_KINDS = {0: StorageKind.parameter, 1: StorageKind.optimizer_state, 2: StorageKind.input, 5: StorageKind.gradient}
_STORAGE = np.array([_KINDS.get(category, NONE) for category in range(len(CATEGORIES))])
_IS_KIND = _STORAGE != NONE
_PAIRED = Problem(
    "paired_by_size", Severity.info,
    "A memory timeline names no addresses: which of equal tensors was freed first is assumed, the sums are exact.",
)  # fmt: skip
_FIRST, _SPACE = 1 << 20, 512
"""The first address that is given out, and the bytes between two storages."""
_INT = frozenset({int})


class Timeline:
    """Collects the entries of one timeline in order, 32 bytes for each."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def __len__(self) -> int:
        return len(self._numbers) // 4

    def add(self, entries: list[Any]) -> bool:
        """Some more entries; False if this is no timeline of events."""
        if set(map(type, entries)) - {list} or set(map(len, entries)) - {4}:
            return False
        numbers = list(chain.from_iterable(entries))
        if set(map(type, numbers)) - _INT:
            return False
        try:
            more = array("q", numbers)
        except OverflowError:
            return False
        if not _possible(_columns(more)):
            return False
        self._numbers += more
        return True

    def recording(self, progress: Progress) -> Recording:
        """The recording of all entries."""
        time, action, size, category = _columns(self._numbers)
        made = TracedMemory()
        device = made.device("profiled device", 0)
        if len(self):
            _check_changes(action, size)
            progress("Building tables", 0.1)
            root = _roots(action, size, category, progress)
            start = int(time[time >= 0].min(initial=MAX_NUMBER)) if (time >= 0).any() else 0
            _fill(made, device, np.maximum(time, start), action, size, category, root)
        progress("Building tables", 0.7)
        return made.recording([_PAIRED] if len(self) else [], [], progress)


def _columns(numbers: array[int]) -> Iterator[I64]:
    return iter(np.frombuffer(numbers, np.int64).reshape(-1, 4).T if numbers else np.empty((4, 0), np.int64))


def _possible(columns: Iterator[I64]) -> bool:
    """Whether these can be entries of a timeline; ValueError if they are, and contradict themselves."""
    time, action, size, category = columns
    most = 1 << 62
    fits = (action >= 1) & (action <= 4) & (category >= 0) & (category < len(CATEGORIES))
    if not (fits & (time >= -1) & (time < most) & (size > -most) & (size < most)).all():
        return False
    if np.where(action == _DESTROYED, size > 0, (size < 0) & (action != _CHANGED)).any():
        raise ValueError("an entry gives back what it takes, or the other way round")
    return True


def _check_changes(action: I64, size: I64) -> None:
    """A new version stands right behind the old one, and is as large."""
    old, new = (action == _CHANGED) & (size < 0), (action == _CHANGED) & (size > 0)
    behind = np.append(False, old[:-1])
    if (new & ~behind).any():
        raise ValueError("a new version of a tensor has no old one")
    if old[-1]:
        raise ValueError("a new version of a tensor is missing at its end")
    if (behind & ~new).any() or (size[1:] + size[:-1])[new[1:]].any():
        raise ValueError("a new version of a tensor is not as large as the old one, or missing")


def _roots(action: I64, size: I64, category: I64, progress: Progress) -> I64:
    """For each entry the one by which its storage is first known.

    Storages of equal size and category are a stack. A new version takes the place of the old one, which may lie on
    another such stack: whoever comes from another entry points back to it, until all point to the first.
    """
    root = _partners(action, size, category)
    progress("Building tables", 0.4)
    new = np.flatnonzero((action == _CHANGED) & (size > 0))
    root[new] = new - 1
    while True:
        further = root[root]
        if np.array_equal(further, root):
            return root
        root = further
        progress("Building tables", 0.5)


def _partners(action: I64, size: I64, category: I64) -> I64:
    """For each entry that takes a storage away the one that put it there; itself if there is none, or for others.

    Between any two heights of a stack its height goes up and down by turns, so that what took a storage away is the
    next one there; this holds with entries that take away from an empty stack, too.
    """
    _, of_size = np.unique(np.abs(size), return_inverse=True)
    group = of_size * len(CATEGORIES) + category
    order = np.argsort(group, kind="stable")
    step = np.where((action == _DESTROYED) | (size < 0), -1, 1)[order]
    height = np.cumsum(step) + (step < 0)
    by_height = np.lexsort((height, group[order]))
    order, step, height = order[by_height], step[by_height], height[by_height]
    out = np.arange(len(size))
    same = (step[1:] < 0) & (height[1:] == height[:-1]) & (group[order[1:]] == group[order[:-1]])
    out[order[1:][same]] = order[:-1][same]
    return out


def _fill(made: TracedMemory, device: int, time: I64, action: I64, size: I64, category: I64, root: I64) -> None:
    """The events and the known storages of entries whose storages begin with the entries `root`."""
    rows = np.arange(len(size))
    first = (root == rows) & (size != 0)
    address = _addresses(first, size)[root]
    kind = np.full(len(size), NONE)
    named = np.flatnonzero(_IS_KIND[category])
    kind[root[named]] = category[named]  # of several for one storage the last one stays
    created = first & ((action == _CREATED) | ((action == _BEFORE) & ~_IS_KIND[category]))
    stays = np.full(len(size), True)
    stays[root[action == _DESTROYED]] = False  # what goes is known by its free
    before = first & ~created & stays
    known = before & (kind != NONE)
    outlives = np.full(np.count_nonzero(known), NONE)
    made.known(_STORAGE[kind[known]], device, address[known], np.abs(size[known]), outlives)
    # What was there before and has no name comes with the first event.
    found = before & (kind == NONE)
    here = created | found | ((action == _DESTROYED) & (size != 0))
    notes = np.array([made.strings.intern(text) if text else NONE for text in CATEGORIES])
    made.events(
        time=np.where(found, time.min(), time)[here], size=np.where(found, -size, size)[here],
        address=address[here], device=device, note=notes[category[here]],
    )  # fmt: skip


def _addresses(first: B1, size: I64) -> I64:
    """Where each storage lies that begins with an entry: none on another."""
    room = np.where(first, np.abs(size) + _SPACE, 0)
    if room.sum(dtype=np.float64) > MAX_NUMBER // 2:
        raise ValueError("its storages are larger than any memory")
    return _FIRST + np.cumsum(room) - room
