"""Where one thing ends exactly where another begins, and numbers at the edge of what a column holds."""

from __future__ import annotations

import numpy as np
import pytest

from memstrata.capture.format.schema import NONE, Action, StorageKind
from memstrata.viewer.model.address_index import Box, address_index
from memstrata.viewer.model.curves import changes_of, columns, group_sums, highest
from memstrata.viewer.model.layout import Stacked, address_layout

from .recordings import Step
from .test_grouping_by_stack_and_pool import pooled
from .test_live_set import many

MIB = 1 << 20


def test_a_storage_first_seen_where_a_life_ended_begins_there() -> None:
    step = Step()
    step.free(512, 8, 1)
    step.alloc(1024, 0, 3)
    step.known(StorageKind.parameter, 512, 4, start=2)  # position 1 follows the free
    run = step.run(device="cpu")
    assert run.curve.tolist() == [8, 4, 4]
    assert sorted(zip(run.allocations.start.tolist(), run.allocations.end.tolist())) == [(0, 1), (1, 3), (2, 3)]


def test_a_storage_that_died_before_it_was_seen_lives_for_one_position() -> None:
    step = Step()
    step.free(512, 8, 1)
    step.alloc(1024, 0, 3)
    step.known(StorageKind.parameter, 512, 4, start=2, end=0)
    run = step.run(device="cpu")
    assert run.curve.tolist() == [8, 4, 0]


def test_a_storage_of_no_bytes_is_no_row() -> None:
    step = Step()
    step.alloc(1024, 8, 3)
    step.known(StorageKind.parameter, 512, 0, start=0)
    assert len(step.run(device="cpu").allocations) == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_storages_at_one_address_the_first_seen_comes_first(order: tuple[int, int]) -> None:
    step = Step()
    for time in (1, 3, 5, 7):
        step.alloc(1024 * time, 0, time)
    seen = [(30, 0, 2), (7, 6, NONE)]
    for which in order:
        size, start, end = seen[which]
        step.known(StorageKind.input, 512, size, start=start, end=end)
    # the one of 30 bytes is gone after the event at 3; the other may have been there from then on
    assert step.run(device="cpu").curve.tolist() == [30, 30, 7, 7, 7]


def test_more_groups_than_two_bytes_can_number() -> None:
    allocations = many(40_000)
    labels = np.arange(len(allocations))
    most = highest(changes_of(allocations), labels, len(labels))
    assert np.array_equal(most, allocations.bytes)
    labels = np.where(labels >= len(labels) - 3, labels, NONE)
    last = int(allocations.start[-1])
    sums = group_sums(allocations, labels, len(labels)).at(np.array([last]))[:, 0]
    assert sums[-1] == allocations.bytes[-1] > 0 and sums[: len(labels) - 3].sum() == 0


@pytest.mark.parametrize(("length", "count"), [(7, 4), (1000, 600), (1919, 960)])
def test_columns_are_as_wide_as_each_other(length: int, count: int) -> None:
    cut = columns(np.arange(length), 0, length - 1, count)
    widths = np.diff(np.append(cut.start, length))
    assert set(widths.tolist()) == {length // count, length // count + 1}


def test_a_small_allocation_in_the_place_of_a_large_one_hides_no_part_of_it() -> None:
    step = Step()
    step.alloc(1 << 30, 64 * MIB, 0)
    step.free(1 << 30, 64 * MIB, 1)
    step.alloc(1 << 30, 2 * MIB, 2)
    step.alloc((1 << 30) + 40 * MIB, MIB, 3)
    layout = address_layout(step.run())
    assert (layout.address.tolist(), layout.bytes.tolist(), layout.height) == ([1 << 30], [64 * MIB], 64 * MIB)
    assert layout.address_at(50.0 * MIB) == (1 << 30) + 50 * MIB


def test_an_allocation_that_would_reach_beyond_all_addresses_ends_with_them() -> None:
    step = Step()
    step.alloc((1 << 63) - 1000, 5000, 0)
    layout = address_layout(step.run())
    assert layout.bytes.tolist() == [999] and layout.low.tolist() == [0]


def test_what_is_not_alive_has_no_place_in_the_pile() -> None:
    step = Step()
    for number, size in enumerate((10, 20, 30)):
        step.alloc((number + 1) * 512, size, number)
    step.free(1024, 20, 3)
    stacked = Stacked(step.run().live)
    assert [stacked.span(4, row) for row in (0, 1, 2)] == [(0, 10), None, (10, 40)]


def test_a_pool_ends_where_its_segment_does() -> None:
    step = Step()
    step.alloc(1099, 8, 1)
    step.alloc(1100, 16, 2)
    step.alloc(900, 32, 3)
    step.alloc(899, 64, 4)
    run = pooled(step, [(900, 200, 0, 0, True, False)])
    assert run.grouping("pool").labels.tolist() == [0, 1, 0, 1]


def test_a_segment_made_late_says_nothing_of_the_next_one() -> None:
    step = Step()
    step.alloc(5000, 8, 1)
    step.free(5000, 8, 2)
    step.events.append((Action.segment_alloc, 0, 900, 200, 3, NONE, 0, NONE, NONE, NONE))
    step.alloc(950, 16, 4)
    run = pooled(step, [(900, 200, 0, 3, False, False), (5000, 100, 0, 0, False, False)])
    names, labels = run.grouping("pool").names, run.grouping("pool").labels
    assert [names[label] for label in labels] == ["default pool, large", "private pool (0, 3), large"]


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 15, 16, 100, 127, 128, 255, 256])
def test_a_rectangle_is_found_by_its_last_pixel(width: int) -> None:
    x = np.array([0.0, 1000.0, 1000.0 + width])
    index = address_index(np.arange(3), x, x + width, np.zeros(3), np.full(3, 5.0))
    for right, rows in ((1000.0 + width, [1, 2]), (1000.0, [1]), (1000.0 + width / 2, [1])):
        seen = Box(right, right + width / 4, 1.0, 2.0)
        assert sorted(index.row[index.touching(seen)].tolist()) == rows
