"""Columns lose neither a peak nor a dip; reserved memory follows the segment events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstrata.viewer.model.curves import columns, local_peaks, reserved

from .recordings import Step

curves = st.lists(st.integers(0, 1 << 50), min_size=1, max_size=200).map(lambda values: np.array(values, np.int64))


@given(curves, st.integers(0, 250), st.integers(0, 250), st.integers(1, 60))
def test_columns_keep_every_extreme(curve: np.ndarray, a: int, b: int, n: int) -> None:
    first, last = min(a, b), max(a, b)
    part = curve[first : last + 1]
    cut = columns(curve, first, last, n)
    assert len(cut) == min(n, len(part))
    if not len(part):
        return
    assert cut.max.max() == part.max()
    assert cut.min.min() == part.min()
    assert np.array_equal(curve[cut.position], cut.max)
    assert cut.start[0] == first
    assert (np.diff(cut.start) > 0).all()
    ends = np.append(cut.start[1:], first + len(part))
    assert (cut.start <= cut.position).all() and (cut.position < ends).all()
    for start, end, low, high, at in zip(cut.start, ends, cut.min, cut.max, cut.position):
        assert (low, high) == (curve[start:end].min(), curve[start:end].max())
        assert at == start + int(np.argmax(curve[start:end]))


@pytest.mark.parametrize("n", [1, 7, 100, 1920])
def test_one_spike_in_a_hundred_thousand_survives_every_zoom(n: int) -> None:
    curve = np.zeros(100_000, np.int64)
    curve[54_321] = 100
    for first, last in ((0, 99_999), (50_000, 60_000), (54_321, 54_321), (54_000, 54_321), (54_321, 99_999)):
        cut = columns(curve, first, last, n)
        assert cut.max.max() == 100
        assert 54_321 in cut.position


def test_columns_of_nothing() -> None:
    assert len(columns(np.zeros(3, np.int64), 5, 9, 10)) == 0
    assert len(columns(np.zeros(3, np.int64), 2, 1, 10)) == 0
    assert len(columns(np.zeros(3, np.int64), 0, 2, 0)) == 0


def test_reserved_is_nothing_where_no_allocator_reports_it() -> None:
    step = Step()
    step.alloc(512, 8, 0)
    assert reserved(step.recording(device="cpu"), 0) is None
    assert step.run(device="cpu").end_state is None


@pytest.mark.parametrize(
    ("curve", "peaks"),
    [
        ([], []),
        ([5], [0]),
        ([0, 10, 0, 8, 0], [1, 3]),
        ([0, 10, 10, 9, 10, 0], [1]),  # a dip of 1 in 10 does not part a peak at a fifth of the range
        ([10, 0, 5], [0, 2]),
        ([0, 1, 2, 3], [3]),
        ([3, 2, 1], [0]),
        ([7, 7, 7], [0]),
        ([0, 3, 1, 10, 1, 3, 0], [1, 3, 5]),
    ],
)
def test_peaks_that_stand_out(curve, peaks):
    assert local_peaks(np.array(curve, np.int64), 0.2).tolist() == peaks


def peaks_by_hand(curve, share):
    """Every position that is the first highest between two places where the curve lies far enough below it."""
    needed = max((max(curve) - min(curve)) * share, 1)
    found = []
    for at, size in enumerate(curve):
        before = next((i for i in range(at - 1, -1, -1) if curve[i] >= size), -1)
        after = next((i for i in range(at + 1, len(curve)) if curve[i] > size), len(curve))
        rises = before < 0 or size - min(curve[before + 1 : at + 1]) >= needed
        falls = after == len(curve) or size - min(curve[at:after]) >= needed
        if rises and falls:
            found.append(at)
    return found


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_peaks_that_stand_out_are_those_found_one_by_one(values):
    assert local_peaks(np.array(values, np.int64), 0.3).tolist() == peaks_by_hand(values, 0.3)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60))
def test_the_highest_position_is_always_among_the_peaks(values):
    curve = np.array(values, np.int64)
    found = local_peaks(curve)
    assert int(curve.argmax()) in found.tolist()
    assert found.tolist() == sorted(set(found.tolist()))
