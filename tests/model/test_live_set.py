"""The live set from checkpoints equals the plain mask, whatever was allocated and freed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstrata.viewer.model import live_set as module
from memstrata.viewer.model.allocations import Allocations, rows
from memstrata.viewer.model.live_set import live_set

from .random_runs import Moves, moves, piles, run_of


def many(count: int, long_lived: float = 0.01, seed: int = 0) -> Allocations:
    """Random allocations: most live for a few hundred events, some for very long."""
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(1, 2 * count, count))
    lives = np.where(
        random.random(count) < long_lived, random.integers(1, count, count), random.integers(1, 400, count)
    )
    end = np.minimum(start + lives, 2 * count + 1)
    sizes = random.integers(1, 1 << 26, count)
    return rows(count, address=start * 512, bytes=sizes, start=start, end=end, before=False)


@given(moves, st.integers(1, 9))
def test_every_position_of_any_step(what: Moves, every: int) -> None:
    run = run_of(what)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "EVERY", every)
        live = live_set(run.allocations)
    wanted = [[row for row, _ in pile] for pile in piles(what)]
    for position, pile in enumerate(wanted):
        assert live.at(position).tolist() == pile
    for positions in (np.arange(len(wanted)), np.arange(len(wanted))[::-2], np.arange(0)):
        found, count = live.at_each(positions)
        assert found.tolist() == [row for position in positions.tolist() for row in wanted[position]]
        assert count.tolist() == [len(wanted[position]) for position in positions.tolist()]


@pytest.mark.parametrize("long_lived", [0.0, 0.01, 1.0])
def test_many_checkpoints_hold_about_twice_as_many_rows_as_there_are(long_lived: float) -> None:
    allocations = many(60_000, long_lived)
    live = live_set(allocations)
    assert len(live.first) > 10 and len(live.rows) <= 2.5 * len(allocations)
    for position in np.linspace(0, 120_001, 50).astype(int).tolist():
        assert np.array_equal(live.at(position), allocations.alive(position))


def test_no_allocation() -> None:
    live = live_set(rows(0, address=0, bytes=0, start=0, end=0, before=False))
    assert live.at(0).tolist() == [] and live.most == 0
    found, count = live.at_each(np.array([0, 0]))
    assert found.tolist() == [] and count.tolist() == [0, 0]


def test_what_was_there_before_comes_first() -> None:
    table = rows(3, address=1, bytes=1, start=np.array([0, 0, 2]), end=np.array([5, 1, 4]), before=False)
    live = live_set(table)
    assert [live.at(p).tolist() for p in range(6)] == [[0, 1], [0], [0, 2], [0, 2], [0], []]


def test_the_live_set_of_a_million_allocations_is_exact() -> None:
    allocations = many(1_000_000)
    live = live_set(allocations)
    for position in np.linspace(1, 2_000_000, 12).astype(int).tolist():
        assert np.array_equal(np.sort(live.at(position)), allocations.alive(position))
