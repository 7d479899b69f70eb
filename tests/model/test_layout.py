"""Where allocations lie: addresses with the gaps closed up, ranges reserved over time, stacks from checkpoints."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memstrata.capture.format.schema import Action
from memstrata.viewer.model import layout as module
from memstrata.viewer.model.address_index import Box, address_index
from memstrata.viewer.model.layout import Stacked, address_layout
from memstrata.viewer.model.reserved_ranges import reserved_ranges
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .random_runs import Moves, moves, piles, run_of
from .recordings import Step

MIB = 1 << 20


def slow_pile(what: Moves, position: int, y: float) -> int:
    """The allocation at a height, by piling them up one by one."""
    top = 0
    for row, size in piles(what)[position]:
        if top <= y < top + size:
            return row
        top += size
    return -1


@given(moves, st.integers(0, 60), st.lists(st.integers(-4, 400).map(lambda n: n / 2), max_size=20))
def test_a_stacked_column_is_the_pile_of_what_is_alive(what: Moves, position: int, heights: list[float]) -> None:
    stacked, position = Stacked(run_of(what).live), min(position, len(what))
    wanted = [slow_pile(what, position, y) for y in heights]
    assert stacked.column(position, np.array(heights)).tolist() == wanted
    assert [stacked.at(position, y) for y in heights] == wanted
    for row, size in piles(what)[position]:
        low, high = stacked.span(position, row) or (0, 0)
        assert high - low == size and slow_pile(what, position, low) == row == slow_pile(what, position, high - 0.5)
    assert stacked.span(position, len(what)) is None


@given(moves, st.integers(1, 40), st.integers(-20, 300).map(lambda n: n / 2), st.integers(1, 30).map(lambda n: n / 4))
def test_many_columns_are_those_found_one_by_one(what: Moves, heights: int, low: float, apart: float) -> None:
    stacked, y = Stacked(run_of(what).live), low + np.arange(heights)[::-1] * apart  # falling, tops among them
    positions = np.arange(len(what) + 1)[:: 1 + heights % 3]
    wanted = [stacked.column(position, y).tolist() for position in positions.tolist()]
    assert stacked.columns(positions, y).tolist() == wanted
    assert stacked.columns(positions[:0], y).shape == (0, heights)


def test_what_is_on_top_slides_down_when_what_is_below_is_freed() -> None:
    step = Step()
    for number, size in enumerate((10, 20, 30)):
        step.alloc((number + 1) * 512, size, number)
    step.free(512, 10, 3)
    stacked = Stacked(step.run().live)
    assert [stacked.span(p, 2) for p in (2, 3, 4)] == [None, (30, 60), (20, 50)]
    assert [stacked.at(4, y) for y in (0, 19, 20, 49, 50, -1)] == [1, 1, 2, 2, -1, -1]


def test_far_addresses_are_drawn_near_and_near_ones_to_scale() -> None:
    step = Step()
    step.alloc(1 << 30, MIB, 0)
    step.alloc((1 << 30) + MIB + 4096, MIB, 1)  # 4 KiB between them: kept
    step.alloc(1 << 40, 2 * MIB, 2)
    layout = address_layout(step.run())
    assert layout.address.tolist() == [1 << 30, 1 << 40]
    assert layout.bytes.tolist() == [2 * MIB + 4096, 2 * MIB]
    gap = (4 * MIB + 4096) // (16 * 2)
    assert layout.y.tolist() == [0, 2 * MIB + 4096 + gap] and layout.height == 4 * MIB + 4096 + gap
    assert layout.low.tolist() == [0, MIB + 4096, 2 * MIB + 4096 + gap]
    assert layout.address_at(MIB + 4100) == (1 << 30) + MIB + 4100
    assert layout.address_at(float(layout.y[1] - 1)) is None and layout.address_at(float(layout.height)) is None
    assert layout.address_at(float(layout.y[1])) == 1 << 40


def test_an_allocation_without_address_has_no_place() -> None:
    step = Step()
    step.blocks = [(4096, 100)]
    step.free(4096, 60, 0)
    step.alloc(4096, 90, 1)
    run = step.run()
    layout = address_layout(run)
    assert (layout.low[run.allocations.address == 0] == -1).all() and (run.allocations.address == 0).any()
    assert (layout.low[run.allocations.address != 0] >= 0).all()


def test_nothing_has_no_height() -> None:
    layout = address_layout(Step().run())
    assert layout.height == 0 and len(layout.address) == 0 and layout.address_at(0) is None


def moved(step: Step, action: Action, address: int, size: int, time: int) -> None:
    step.events.append((action, 0, address, size, time, -1, 0, -1, -1, -1))


def test_ranges_are_reserved_from_the_event_that_made_them_to_the_one_that_gave_them_back() -> None:
    step = Step()
    moved(step, Action.segment_alloc, 0, 100, 0)  # the end state has one range [0, total) of these blocks
    moved(step, Action.segment_alloc, 4096, 50, 1)
    moved(step, Action.segment_free, 4096, 50, 2)
    moved(step, Action.segment_free, 9000, 70, 3)  # never seen to be made
    step.blocks = [(0, 100)]
    r = reserved_ranges(step.run())
    assert list(zip(r.address.tolist(), r.bytes.tolist(), r.start.tolist(), r.end.tolist())) == [
        (0, 100, 1, 5),
        (4096, 50, 2, 3),
        (9000, 70, 0, 4),
    ]


def test_maps_and_unmaps_need_not_match() -> None:
    step = Step()
    moved(step, Action.segment_map, 0, 60, 0)
    moved(step, Action.segment_map, 60, 40, 1)
    moved(step, Action.segment_unmap, 20, 20, 2)
    moved(step, Action.segment_map, 20, 20, 3)
    step.blocks = [(0, 100)]
    r = reserved_ranges(step.run())
    assert sorted(zip(r.address.tolist(), r.bytes.tolist(), r.start.tolist(), r.end.tolist())) == [
        (0, 20, 1, 5),
        (20, 20, 1, 3),
        (20, 20, 4, 5),
        (40, 20, 1, 5),
        (60, 40, 2, 5),
    ]


def test_reserved_ranges_of_real_snapshots_add_up_to_the_reserved_curve(snapshot_file) -> None:
    recording = open_file(snapshot_file)
    for device in range(len(recording.meta.devices)):
        run = Run(recording, device)
        if run.reserved is None or (run.reserved < run.curve).any():  # the file contradicts itself
            continue
        r = reserved_ranges(run)
        change = np.zeros(run.n_events + 2, np.int64)
        np.add.at(change, r.start, r.bytes)
        np.subtract.at(change, r.end, r.bytes)
        oom = np.isin(run.events.action, (Action.oom,))  # the ranges in the file are those of a later dump
        if not oom.any():
            assert np.array_equal(np.cumsum(change)[:-1], run.reserved)


def test_addresses_of_real_snapshots_keep_their_order_and_distance(snapshot_file) -> None:
    recording = open_file(snapshot_file)
    for device in range(len(recording.meta.devices)):
        run = Run(recording, device)
        layout, a = address_layout(run), run.allocations
        rows = np.flatnonzero(layout.low >= 0)
        assert (np.diff(layout.low[rows[np.argsort(a.address[rows], kind="stable")]]) >= 0).all()
        assert (layout.low[rows] + a.bytes[rows] <= layout.height).all()
        for row in rows[:: max(len(rows) // 50, 1)].tolist():
            assert layout.address_at(float(layout.low[row])) == a.address[row]
        assert layout.height <= layout.bytes.sum() * 1.07


sides = st.tuples(st.integers(0, 1000), st.integers(1, 300), st.integers(0, 1000), st.integers(1, 300))


@given(st.lists(sides, max_size=80), sides, st.floats(0.5, 200), st.floats(0.5, 200))
def test_the_index_finds_every_rectangle_in_sight_once(rects, box, width, height) -> None:
    rects = sorted(rects)
    x, w, y, h = (np.array([r[i] for r in rects], np.float64) for i in range(4))
    index = address_index(np.arange(len(rects)), x, x + w, y, y + h)
    seen = Box(box[0], box[0] + box[1], box[2], box[2] + box[3])
    wanted = (x + w >= seen.x0) & (x <= seen.x1) & (y + h >= seen.y0) & (y <= seen.y1)
    found = index.row[index.touching(seen)].tolist()
    assert sorted(found) == np.flatnonzero(wanted).tolist()
    large, small = index.split(width, height)
    parts = [index.row[index.touching(seen, part)].tolist() for part in (large, small)]
    assert sorted(parts[0] + parts[1]) == sorted(found)
    at_least = wanted & (w >= width) & (h >= height)
    assert set(np.flatnonzero(at_least).tolist()) <= set(parts[0])


def test_a_thinned_index_has_one_of_each_so_many_neighbours_and_never_another() -> None:
    random = np.random.default_rng(3)
    x, w, y, h = np.sort(random.uniform(0, 100, 1003)), *random.uniform(1, 60, (3, 1003))
    index = address_index(np.arange(1003), x, x + w, y, y + h)
    thinned = index.thinned(8)
    places = [index.row.tolist().index(row) for row in thinned.row.tolist()]
    assert [place // 8 for place in places] == list(range(125))
    assert len({place % 8 for place in places}) == 8
    for column in ("x0", "x1", "y0", "y1"):
        assert np.array_equal(getattr(thinned, column), getattr(index, column)[places])
    assert np.array_equal(index.thinned(8).row, thinned.row)


def test_the_part_of_the_height_that_gaps_take_is_bounded() -> None:
    step = Step()
    for number in range(200):
        step.alloc((number + 1) << 30, MIB, number)
    layout = address_layout(step.run())
    assert len(layout.address) == 200
    assert 200 * MIB < layout.height <= 200 * MIB * (1 + 1 / module._GAPS)
