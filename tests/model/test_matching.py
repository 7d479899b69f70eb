"""From (address, time) to an allocation, with event times in nanoseconds and in whole microseconds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memstrata.capture.format.schema import NONE
from memstrata.viewer.model.events import device_events
from memstrata.viewer.model.lifetimes import pair
from memstrata.viewer.model.matching import Matcher

from .recordings import Step


def matcher(step: Step) -> Matcher:
    recording = step.recording()
    return Matcher(device_events(recording, 0), pair(recording, 0)[0])


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_the_allocation_alive_then_is_found() -> None:
    step = Step()
    step.alloc(512, 8, 10)
    step.free(512, 8, 21)
    step.alloc(512, 9, 30)
    found = matcher(step).alive(i64(512, 512, 512, 512, 512, 1024), i64(9, 10, 20, 25, 99, 20))
    assert found.tolist() == [NONE, 0, 0, NONE, 1, NONE]


def test_what_was_there_before_is_found_until_it_is_freed() -> None:
    step = Step()
    step.free(512, 8, 21)
    assert matcher(step).alive(i64(512, 512, 512), i64(0, 20, 40)).tolist() == [0, 0, NONE]


def test_whole_microseconds_leave_the_tick_of_the_free_open() -> None:
    """A free stamped 5 us happened before 6 us: a pack at 5,700 ns may well have come before it."""
    step = Step()
    step.alloc(512, 8, 1000)
    step.free(512, 8, 5000)
    step.alloc(1024, 8, 9000)
    assert matcher(step).alive(i64(512, 512), i64(5700, 6000)).tolist() == [0, NONE]


def test_of_two_lives_in_one_tick_the_later_counts() -> None:
    step = Step()
    step.alloc(512, 8, 1000)
    step.free(512, 8, 5000)
    step.alloc(512, 9, 5000)
    assert matcher(step).alive(i64(512, 512), i64(4999, 5700)).tolist() == [0, 1]


def test_overlap_takes_the_first_life_within_the_interval() -> None:
    step = Step()
    step.alloc(512, 8, 10)
    step.free(512, 8, 21)
    step.alloc(512, 9, 30)
    step.free(512, 9, 41)
    look_up = matcher(step).overlapping
    starts, ends = i64(5, 22, 22, 22, 50, 5), i64(NONE, 35, 25, NONE, NONE, 9)
    assert look_up(i64(512, 512, 512, 512, 512, 512), starts, ends).tolist() == [0, 1, NONE, 1, NONE, NONE]


def test_nothing_is_found_among_nothing() -> None:
    empty = matcher(Step())
    assert empty.alive(i64(512, 0), i64(1, 1)).tolist() == [NONE, NONE]
    assert empty.overlapping(i64(512), i64(1), i64(NONE)).tolist() == [NONE]
    assert empty.alive(i64(), i64()).tolist() == []


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 3)), max_size=30),
    st.lists(st.tuples(st.integers(1, 4), st.integers(-1, 31)), max_size=10),
)
def test_look_ups_equal_a_search_through_all_rows(events: list[tuple[bool, int]], asked: list[tuple[int, int]]) -> None:
    step = Step()
    for time, (made, address) in enumerate(events):
        (step.alloc if made else step.free)(address * 512, 8, 2 * time + 1)  # odd times: never asked for exactly
    recording = step.recording()
    allocations, _ = pair(recording, 0)
    found = Matcher(device_events(recording, 0), allocations).alive(
        i64(*(address * 512 for address, _ in asked)), i64(*(2 * time for _, time in asked))
    )
    for (address, time), row in zip(asked, found.tolist()):
        position = min(max(time, 0), len(events))
        begun = np.flatnonzero((allocations.address == address * 512) & (allocations.start <= position))
        latest = begun[allocations.start[begun] == allocations.start[begun].max(initial=NONE)]
        alive = latest[position < allocations.end[latest]]
        # Frees without an allocation in between make several rows that begin at 0: any of them will do.
        assert row in alive or (row == NONE and len(alive) < max(len(latest), 1))
