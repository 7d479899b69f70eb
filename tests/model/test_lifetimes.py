"""Pairing against a slow loop over a dict, and the curves against a slow loop over rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstrata.capture.format.schema import NONE, Action, StorageKind
from memstrata.viewer.model import identities
from memstrata.viewer.model.curves import at_positions, live_bytes
from memstrata.viewer.model.lifetimes import pair
from memstrata.viewer.model.run import Run

from .recordings import Step

Events = list[tuple[bool, int, int]]
"""(is an allocation, address, bytes)"""

any_events = st.lists(st.tuples(st.booleans(), st.integers(1, 5), st.integers(0, 9)), max_size=40)
any_blocks = st.dictionaries(st.integers(1, 8), st.integers(1, 9), max_size=6)


def step_of(events: Events, blocks: dict[int, int] | None = None) -> Step:
    step = Step()
    for time, (made, address, size) in enumerate(events):
        (step.alloc if made else step.free)(address * 512, size, time)
    step.blocks = [(address * 512, size) for address, size in (blocks or {}).items()]
    return step


def slowly(events: Events) -> Counter[tuple[int, int, int, int]]:
    """(address, bytes, start, end) by walking through the events with a dict."""
    rows: Counter[tuple[int, int, int, int]] = Counter()
    alive: dict[int, tuple[int, int]] = {}
    for at, (made, address, size) in enumerate(events):
        held = alive.pop(address, None)
        if held is not None:
            rows[(address * 512, held[0], held[1], at + 1)] += 1
        elif not made:
            rows[(address * 512, size, 0, at + 1)] += 1
        if made:
            alive[address] = (size, at + 1)
    for address, (size, start) in alive.items():
        rows[(address * 512, size, start, len(events) + 1)] += 1
    return rows


@given(any_events)
def test_pairing_equals_a_walk_with_a_dict(events: Events) -> None:
    allocations, _ = pair(step_of(events).recording(), 0)
    columns = (allocations.address, allocations.bytes, allocations.start, allocations.end)
    assert Counter(zip(*(c.tolist() for c in columns))) == slowly(events)
    assert (allocations.before == (allocations.start == 0)).all()
    order = list(zip((~allocations.before).tolist(), allocations.start.tolist()))
    assert order == sorted(order)


@given(any_events, any_blocks)
def test_whatever_the_file_says_the_rows_sum_to_the_curve(events: Events, blocks: dict[int, int]) -> None:
    run = step_of(events, blocks).run(kind="snapshot")
    assert identities.check(run) == []


@given(any_events, any_blocks)
def test_the_start_is_the_end_minus_the_net_unless_sizes_shrink(events: Events, blocks: dict[int, int]) -> None:
    """With an end state that holds what the trace leaves alive, baseline = end - net, and it is never negative."""
    left = {row[0] // 512: row[1] for row in slowly(events) if row[3] == len(events) + 1}
    ends = {**blocks, **{address: size for address, size in left.items() if size}}
    run = step_of(events, ends).run()
    codes = {p.code for p in run.problems}
    net = sum(size if made else -size for made, _, size in events)
    if ends and not codes & {"lost_frees", "sizes_differ", "end_state_differs"}:
        assert run.baseline_bytes == sum(ends.values()) - net


@given(any_events, st.lists(st.integers(0, 3), min_size=80, max_size=80), st.lists(st.integers(0, 40), max_size=9))
def test_sums_by_group_equal_a_walk_over_the_rows(events: Events, labels: list[int], positions: list[int]) -> None:
    allocations, _ = pair(step_of(events).recording(), 0)
    groups = np.array(labels[: len(allocations)], np.int32) - 1
    where = np.array([p for p in positions if p <= len(events)], np.int64)
    fast = at_positions(allocations, groups, 3, where)
    for group in range(3):
        for column, position in enumerate(where.tolist()):
            alive = (allocations.start <= position) & (position < allocations.end) & (groups == group)
            assert fast[group, column] == allocations.bytes[alive].sum()
    masked = live_bytes(allocations, len(events), groups == 1)
    assert np.array_equal(masked[where], fast[1])


def test_a_free_keeps_its_stack_and_an_allocation_its_own() -> None:
    step = Step()
    here, there = step.frames(("f", "a.py", 1)), step.frames(("g", "b.py", 2))
    step.alloc(512, 8, 0, stack=here, stream=7)
    step.events.append((Action.free_completed, 0, 512, 8, 1, there, 0, NONE, NONE, NONE))
    step.events.append((Action.free_completed, 0, 1024, 8, 2, here, 0, NONE, NONE, NONE))
    allocations, _ = pair(step.recording(), 0)
    assert allocations.stack.tolist() == [NONE, here]
    assert allocations.free_stack.tolist() == [here, there]
    assert allocations.stream.tolist() == [0, 7]


def test_a_requested_free_does_not_free() -> None:
    step = Step()
    step.alloc(512, 8, 0)
    step.events.append((Action.free_requested, 0, 512, 8, 1, NONE, 0, NONE, NONE, NONE))
    assert step.run().curve.tolist() == [0, 8, 8]


def test_address_zero_is_no_allocation() -> None:
    step = Step()
    step.alloc(0, 0, 0)
    step.alloc(0, 0, 1)
    assert len(step.run().allocations) == 0
    assert step.run().problems == () or {p.code for p in step.run().problems} <= {"no_timeline"}


def test_devices_are_paired_apart_and_positions_are_their_own() -> None:
    step = Step()
    step.alloc(512, 8, 0, device=0)
    step.alloc(512, 5, 1, device=1)
    step.free(512, 8, 2, device=0)
    recording = step.recording(devices=2)
    assert Run(recording, 0).curve.tolist() == [0, 8, 0]
    assert Run(recording, 1).curve.tolist() == [0, 5]
    assert Run(recording).device.ordinal == 0


def test_a_source_without_an_end_state_shows_the_storages_it_knows() -> None:
    """The CPU's profiler says nothing of what was there before, and of its frees neither."""
    step = Step()
    step.known(StorageKind.parameter, 512, 100, start=0)
    step.known(StorageKind.parameter, 512, 100, start=0)  # tied: the same storage under two names
    step.known(StorageKind.gradient, 1024, 50, start=0, end=5)
    step.alloc(2048, 8, 3)
    step.known(StorageKind.input, 2048, 8, start=4)
    step.alloc(1024, 9, 7)
    step.free(2048, 8, 8)
    run = step.run(device="cpu")
    assert run.curve.tolist() == [150, 158, 117, 109]
    assert run.baseline_bytes == 150
    assert identities.check(run) == []


@pytest.mark.parametrize(("seen", "expected"), [(3, [8, 8, 4, 4]), (0, [4, 4, 4, 4])])
def test_a_known_storage_fits_between_the_lives_at_its_address(seen: int, expected: list[int]) -> None:
    step = Step()
    step.free(512, 8, 1) if seen else step.alloc(1024, 0, 1)
    step.alloc(2048, 0, 2)
    step.alloc(3072, 0, 4)
    step.known(StorageKind.optimizer_state, 512, 4, start=seen)
    assert step.run(device="cpu").curve.tolist() == ([8, 4, 4, 4] if seen else expected)


@settings(max_examples=20)
@given(st.integers(0, 5))
def test_the_largest_positions_are_inside(count: int) -> None:
    step = step_of([(True, i + 1, 4) for i in range(count)])
    run = step.run()
    assert len(run.curve) == count + 1
    assert run.curve.tolist() == [4 * i for i in range(count + 1)]
