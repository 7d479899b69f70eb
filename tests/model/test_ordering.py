"""Orders and neighbours of many rows, against the slow way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memstrata.viewer.model.allocations import joined, picked, rows
from memstrata.viewer.model.ordering import distinct, following

wide = st.integers(-(2**63), 2**63 - 1)
close = st.integers(0, 4).map(lambda n: 0x7F00_0000_0000 + 512 * n)


@given(st.one_of(st.lists(st.tuples(wide, st.booleans())), st.lists(st.tuples(close, st.booleans()), max_size=60)))
def test_the_next_row_of_the_same_key(what: list[tuple[int, bool]]) -> None:
    n = len(what)
    chosen = [row for row, (_, taken) in enumerate(what) if taken]
    keys = np.array([what[row][0] for row in chosen], np.int64)
    slow = [next((r for r in chosen if r > row and what[r][0] == what[row][0]), n) for row in chosen]
    assert following(keys, np.array(chosen, np.int64), n)[chosen].tolist() == slow


@given(st.lists(st.integers(-2, 2), max_size=20))
def test_the_different_values_and_which_is_whose(values: list[int]) -> None:
    found, which = distinct(np.array(values, np.int64))
    assert found.tolist() == sorted(set(values)) and found[which].tolist() == values


def test_rows_of_several_parts_come_in_order_of_their_start() -> None:
    old = rows(3, address=[5, 6, 7], bytes=1, start=0, end=9, before=True)
    new = rows(2, address=[8, 9], bytes=[1, 2], start=[4, 2], end=9, before=False)
    whole = joined([new, old])
    assert whole.address.tolist() == [5, 6, 7, 9, 8] and whole.start.tolist() == [0, 0, 0, 2, 4]
    assert whole.bytes.tolist() == [1, 1, 1, 2, 1] and whole.stream.tolist() == [0] * 5
    assert joined([old, old]).end.strides == (0,)  # what all rows share is kept once
    assert picked(np.full(1000, 7), np.arange(500)).strides == (0,)
    assert picked(np.arange(4), np.array([3, 1])).tolist() == [3, 1]
