"""Where a curve is highest in an interval: as looking at every value of it tells, the first of equal ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memstrata.viewer.model.peaks import Peaks


@given(
    seed=st.integers(0, 1 << 32), length=st.integers(1, 700), levels=st.sampled_from([1, 3, 1 << 40, 1 << 62]),
    lowest=st.sampled_from([0, 0, 0, -5]),
)  # fmt: skip
def test_no_interval_loses_its_first_highest_position(seed: int, length: int, levels: int, lowest: int) -> None:
    random = np.random.default_rng(seed)
    curve = random.integers(lowest, lowest + levels, length)
    begin = random.integers(0, length, 60)
    end = np.minimum(begin + random.integers(0, length, 60) // random.integers(1, 9, 60), length - 1)
    found = Peaks(curve).between(begin, end)
    for at, first, last in zip(found.tolist(), begin.tolist(), end.tolist()):
        part = curve[first : last + 1].tolist()
        assert at == first + part.index(max(part))


def test_one_spike_is_found_from_everywhere_around_it() -> None:
    for spike in (0, 1, 63, 64, 65, 127, 128, 4999, 5000):
        curve = np.zeros(5001, np.int64)
        curve[spike] = 1
        begin = np.arange(max(0, spike - 200), spike + 1)
        for last in {spike, min(spike + 1, 5000), min(spike + 190, 5000), 5000}:
            assert set(Peaks(curve).between(begin, np.full(len(begin), last)).tolist()) == {spike}


def test_no_interval_at_all() -> None:
    none = np.empty(0, np.int64)
    assert Peaks(np.zeros(5, np.int64)).between(none, none).tolist() == []
