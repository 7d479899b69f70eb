"""Sums by group at any position, from kept sums, against the slow way and against the plain curve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstrata.viewer.model import curves
from memstrata.viewer.model.axes import by_event
from memstrata.viewer.model.bands import bands_of
from memstrata.viewer.model.curves import at_positions, changes_of, group_sums, highest, live_bytes
from memstrata.viewer.model.ordering import ascending, descending
from memstrata.viewer.model.run import Run
from memstrata.viewer.model.sampling import peak_columns
from memstrata.viewer.sources import open_file

from .random_runs import Moves, moves, piles, run_of
from .test_live_set import many

groups_of = st.integers(1, 5)


@given(moves, groups_of, st.integers(1, 7))
def test_any_grouping_at_any_position(what: Moves, groups: int, every: int) -> None:
    run = run_of(what)
    labels = np.arange(len(run.allocations)) % (groups + 1) - 1  # -1: in no group
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curves, "_CHANGES", every)
        sums = group_sums(run.allocations, labels, groups)
    slow = np.zeros((groups, len(what) + 1), np.int64)
    for position, pile in enumerate(piles(what)):
        for row, size in pile:
            if labels[row] >= 0:
                slow[labels[row], position] += size
    shuffled = np.random.default_rng(len(what)).permutation(len(what) + 1)
    assert np.array_equal(sums.at(shuffled), slow[:, shuffled])
    assert highest(run.changes, labels, groups).tolist() == slow.max(axis=1).tolist()


@given(moves, st.integers(1, 12), st.integers(0, 59), st.integers(2, 61))
def test_no_zoom_loses_a_peak_of_the_whole_nor_its_parts(what: Moves, width: int, low: int, high: int) -> None:
    run = run_of(what)
    axis = by_event(run)
    columns = peak_columns(run.curve, axis, low, max(high, low + 1), width)
    labels = np.arange(len(run.allocations)) % 3
    parts = group_sums(run.allocations, labels, 3).at(columns.positions)
    heights = [sum(size for _, size in pile) for pile in piles(what)]
    for column, position in enumerate(columns.positions.tolist()):
        first = int(axis.position_at(columns.x[column]))
        last = max(int(np.ceil(min(columns.x[column + 1], axis.edges[-1]))) - 1, first)
        assert heights[position] == max(heights[first : last + 1])
        assert parts[:, column].sum() == heights[position]


@given(moves, st.integers(1, 4), st.integers(0, 60), st.integers(0, 60), st.integers(1, 20))
def test_columns_of_any_group_keep_its_own_peaks_and_dips(what: Moves, groups: int, a: int, b: int, n: int) -> None:
    """The curve of each group of any grouping, against the heights of the piles."""
    run = run_of(what)
    labels = np.arange(len(run.allocations)) % groups
    exact = group_sums(run.allocations, labels, groups).at(np.arange(run.n_events + 1))
    first, last = min(a, b), min(max(a, b), run.n_events)
    for group in range(groups):
        heights = [sum(size for row, size in pile if labels[row] == group) for pile in piles(what)][first : last + 1]
        cut = curves.columns(exact[group], first, last, n)
        if heights:
            assert (cut.max.max(), cut.min.min()) == (max(heights), min(heights))
            ends = [*cut.start.tolist()[1:], first + len(heights)]
            for begin, end, low, high in zip(cut.start.tolist(), ends, cut.min.tolist(), cut.max.tolist()):
                part = heights[begin - first : end - first]
                assert (low, high) == (min(part), max(part))


def test_a_hundred_thousand_allocations_in_more_groups_than_fit_between_two_kept_sums() -> None:
    allocations = many(100_000)
    labels = np.random.default_rng(1).integers(0, 300, len(allocations))
    positions = np.linspace(0, 200_001, 333).astype(np.int64)
    sums = group_sums(allocations, labels, 300)
    assert np.array_equal(sums.at(positions), at_positions(allocations, labels, 300, positions))
    assert sums.kept.nbytes <= sums.changes.bytes.nbytes + 2 * 300 * 8
    whole = live_bytes(allocations, 200_000, labels == 7)
    assert highest(changes_of(allocations), labels, 300)[7] == whole.max()


def test_no_allocation_has_no_bytes() -> None:
    nobody = np.empty(0, np.int64)
    assert group_sums(many(0), nobody, 2).at(np.array([0, 5])).tolist() == [[0, 0], [0, 0]]
    assert highest(changes_of(many(0)), nobody, 2).tolist() == [0, 0]


def test_bands_of_every_grouping_of_a_sample_add_up_to_its_curve(samples) -> None:
    run = Run(open_file(samples / "before.mstrata"))
    positions = np.arange(0, run.n_events + 1, 7)
    for key in ("category", "super_block", "layer", "phase", "frame", "stream"):
        bands = bands_of(run, key)
        assert np.array_equal(bands.bytes_at(positions).sum(axis=0), run.curve[positions]), key
        each = [live_bytes(run.allocations, run.n_events, bands.grouping.labels == g).max() for g in range(len(bands))]
        assert bands.highest.tolist() == each, key
        assert bands_of(run, key) is bands


keys = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30).map(lambda v: np.array(v, np.int64)),
    st.lists(st.integers(-5, 5), max_size=60).map(lambda v: np.array(v, np.int32)),
    st.lists(st.floats(allow_nan=False), max_size=30).map(lambda v: np.array(v, np.float64)),
    st.lists(st.booleans(), max_size=30).map(lambda v: np.array(v, np.bool_)),
)


@given(keys)
def test_orders_are_stable_whatever_the_keys(values: np.ndarray) -> None:
    rows = range(len(values))
    assert ascending(values).tolist() == sorted(rows, key=lambda i: values[i])
    assert descending(values).tolist() == sorted(rows, key=lambda i: values[i], reverse=True)
