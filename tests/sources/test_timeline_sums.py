"""Memory timelines against a plain sum of their entries, and against pairing them one at a time."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstrata.capture.format.schema import Action, Category
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

Entry = list[int]


def run_of(folder: Path, entries: list[Entry]) -> Run:
    path = folder / "x.raw.json"
    path.write_text(json.dumps(entries))
    return Run(open_file(path))


@pytest.mark.parametrize(
    ("entries", "curve", "category"),
    [
        ([[-1, 1, 100, 0], [5, 3, -100, 0], [5, 3, 100, 3], [6, 2, 10, 3]], [100, 110], Category.parameter),
        ([[-1, 1, 100, 0], [5, 3, -100, 0], [5, 3, 100, 5], [6, 2, 10, 3]], [100, 110], Category.gradient),
        ([[-1, 1, 100, 0], [5, 3, -100, 0], [5, 3, 100, 4], [6, 2, 10, 3], [7, 3, -100, 4], [7, 3, 100, 7]],
         [100, 110], Category.parameter),
        ([[-1, 1, 100, 7], [5, 3, -100, 7], [5, 3, 100, 0], [6, 2, 10, 3]], [0, 100, 110], Category.unattributed),
        ([[-1, 1, 100, 0], [5, 3, -100, 0], [5, 3, 100, 3], [6, 2, 10, 3], [7, 4, -100, 3]], [100, 110, 10], None),
        ([[5, 2, 10, 3], [6, 3, -100, 7], [6, 3, 100, 4]], [0, 10, 110], Category.unattributed),
        ([[5, 2, 10, 3], [6, 3, -100, 7], [6, 3, 100, 0]], [100, 110], Category.parameter),
        ([[5, 2, 10, 3], [6, 3, -100, 7], [6, 3, 100, 4], [7, 4, -100, 4]], [100, 110, 10], None),
        ([[-1, 1, 0, 0], [5, 2, 0, 3], [6, 4, 0, 3], [7, 2, 10, 3]], [0, 10], None),
    ],
)  # fmt: skip
def test_no_storage_vanishes(tmp_path: Path, entries: list[Entry], curve: list[int], category: Category | None) -> None:
    run = run_of(tmp_path, entries)
    held = {each: size for each, size in run.categories_at(run.n_events).items() if size}
    assert run.curve.tolist() == curve
    if category is not None:
        rest = {} if category == Category.unattributed else {Category.unattributed: 10}
        assert held == {category: curve[-1] - sum(rest.values()), **rest}


def made_up(seed: int, count: int) -> tuple[list[Entry], list[int], int]:
    """(a timeline, the bytes after each time, the bytes of storages that it takes away and never made)."""
    rng, alive, entries, sums, unmade = random.Random(seed), [], [], [], 0
    for _ in range(rng.randrange(12)):
        alive.append((rng.choice([0, 1, 8, 8, 64]), rng.randrange(8)))
        entries.append([-1, 1, *alive[-1]])
    held = sum(size for size, _ in alive)
    for time in range(1, count + 1):
        what = rng.choice("cccddxvu")
        if what in "dx" and alive:
            size, category = alive.pop(rng.randrange(len(alive)))
            held -= size
            entries.append([time, 4, -size, category])
        elif what == "v" and alive:
            size, category = alive.pop(rng.randrange(len(alive)))
            alive.append((size, rng.randrange(8)))
            entries += [[time, 3, -size, category], [time, 3, *alive[-1]]] if size else []
            alive[-1] = alive[-1] if size else (size, category)
        elif what == "u" and rng.random() < 0.5:
            size = rng.choice([1000, 2000])
            entries.append([time, 4, -size, rng.randrange(8)])
            held -= size
            unmade += size
        else:
            alive.append((rng.choice([0, 1, 8, 8, 64]), rng.randrange(8)))
            held += alive[-1][0]
            entries.append([time, 2, *alive[-1]])
        sums.append(held)
    return entries, sums, unmade


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 60))
def test_the_curve_is_the_sum_of_the_entries(tmp_path_factory: pytest.TempPathFactory, seed: int, count: int) -> None:
    entries, sums, unmade = made_up(seed, count)
    run = run_of(tmp_path_factory.getbasetemp(), entries)
    assert identities.check(run) == []
    times = run.recording.events.time.tolist()
    begun = min((time for time, *_ in entries if time >= 0), default=0)  # what was there and has no name comes then
    for time, held in list(enumerate(sums, 1))[max(begun - 1, 0) :]:
        assert run.curve[sum(t <= time for t in times)] == held + unmade
    for row in range(len(run.allocations)):
        assert int(run.allocations.bytes[row]) > 0
    at = run.allocations
    kept = sorted({(int(a), int(b)) for a, b in zip(at.address, at.bytes) if a})
    assert all(first + size <= second for (first, size), (second, _) in pairwise(kept))


def one_at_a_time(entries: list[Entry]) -> list[tuple[int, int, int]]:
    """(bytes, born at, died at or 0) of all that was created, each taken from the top of its pile."""
    piles: dict[tuple[int, int], list[int]] = {}
    lives, moving = [], -1
    for time, action, size, category in entries:
        pile = piles.setdefault((abs(size), category), [])
        if action == 1:
            pile.append(-1)
        elif action == 2:
            pile.append(len(lives))
            lives.append((size, time, 0))
        elif size < 0:
            moving = pile.pop() if pile else -1
            if action == 4 and moving >= 0:
                lives[moving] = (*lives[moving][:2], time)
        elif action == 3:
            pile.append(moving)
    return sorted(life for life in lives if life[0])


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 60))
def test_the_youngest_goes_first(tmp_path_factory: pytest.TempPathFactory, seed: int, count: int) -> None:
    entries, *_ = made_up(seed, count)
    recording = run_of(tmp_path_factory.getbasetemp(), entries).recording
    born: dict[int, tuple[int, int, int]] = {}
    first = {address: i for i, address in reversed([*enumerate(recording.events.address.tolist())])}
    for i, (action, address, size, time) in enumerate(
        zip(*(getattr(recording.events, name).tolist() for name in ("action", "address", "bytes", "time")))
    ):
        if action == Action.alloc:
            assert first[address] == i
            born[address] = (size, time, 0)
        elif address in born:
            born[address] = (*born[address][:2], time)
    made = one_at_a_time(entries)
    had = sum(1 for _, action, size, category in entries if action == 1 and size and category not in (0, 1, 2, 5))
    assert len(born) == len(made) + had
    assert not set(made) - set(born.values())
