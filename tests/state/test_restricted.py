"""What a filter and a range leave: of the lanes, of pictures, and of a comparison. Sums are counted again by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import Qt

from memstrata.capture.format.schema import NONE, Category
from memstrata.viewer.analysis.at_peaks import alive_at_peak
from memstrata.viewer.analysis.diff import Diff
from memstrata.viewer.analysis.grouped import rows_by, shared_groupings
from memstrata.viewer.analysis.stack_diff import TOP, StackDiff
from memstrata.viewer.analysis.waterfall import waterfall
from memstrata.viewer.model.bands import bands_of
from memstrata.viewer.model.curves import live_bytes
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.run import Run
from memstrata.viewer.state.array_table import RawRole
from memstrata.viewer.state.comparison import filter_of, range_text
from memstrata.viewer.state.lane_model import MEASURED, PREDICTED, LaneModel
from memstrata.viewer.state.lane_text import lane_text
from memstrata.viewer.state.lanes import lanes_of
from memstrata.viewer.state.pointed import NOTHING, Pointed
from memstrata.viewer.state.view_state import RunView, ViewState
from memstrata.viewer.state.within import limit_query, limit_text, not_applied_text, picture_query, shown_query

WORDS = "mlp"
PLAIN = RunView(40, "category", "events")
RANGED = replace(PLAIN, mark=10, within="made")


def test_a_picture_is_restricted_by_the_filter_the_range_and_the_selection_but_not_by_the_cursor() -> None:
    selected = AllocationQuery(born=(3, 9))
    assert picture_query(PLAIN) is None and limit_query(PLAIN) is None
    assert picture_query(replace(PLAIN, query=selected)) == selected
    assert limit_query(replace(PLAIN, query=selected)) is None
    assert picture_query(replace(PLAIN, query=selected, filter=WORDS)) == replace(selected, filter=WORDS)
    assert limit_query(replace(PLAIN, query=selected, filter=WORDS)) == AllocationQuery(filter=WORDS)
    assert limit_query(replace(RANGED, query=selected)) == AllocationQuery(born=(10, 40))
    assert picture_query(RANGED) == shown_query(RANGED)
    assert limit_query(replace(PLAIN, mark=10)) is None  # a mark alone is no range


def test_what_is_not_restricted_says_so_only_while_something_is_in_force() -> None:
    assert not_applied_text(PLAIN) == limit_text(PLAIN) == ""
    assert not_applied_text(replace(PLAIN, filter=WORDS)) == 'For the whole step: the filter "mlp" does not apply here.'
    assert not_applied_text(RANGED) == "For the whole step: the range from mark to cursor does not apply here."
    both = replace(RANGED, filter=WORDS)
    assert not_applied_text(both).endswith('the filter "mlp" and the range from mark to cursor do not apply here.')
    assert limit_text(both) == 'matching "mlp", made from mark to cursor'


def test_restricted_lanes_sum_to_what_matches_at_every_position(before: Run) -> None:
    lanes, mask = lanes_of(before, tuple(Category)), before.filtered(WORDS)
    lanes.restrict(mask)
    positions = np.arange(0, before.n_events + 1, 97)
    found = sum(lanes.shown(lane).bytes_at(positions).sum(axis=0) for lane in lanes.outer)
    assert np.array_equal(found, live_bytes(before.allocations, before.n_events, mask)[positions])
    for lane in lanes.outer:
        shown = lanes.shown(lane)
        assert shown is not lane and shown is lanes.shown(lane)
        assert all(shown.total_at(p) <= lane.total_at(p) for p in positions.tolist())
    lanes.restrict(None)
    assert lanes.shown(lanes.outer[0]) is lanes.outer[0]


def test_the_tree_counts_what_the_filter_leaves_at_the_cursor_and_what_the_range_leaves_of_all(before: Run) -> None:
    peak = before.peak_position
    model = LaneModel(lanes_of(before, tuple(Category)), peak, "everything")
    heads = lambda: [model.headerData(c, Qt.Orientation.Horizontal) for c in (MEASURED, PREDICTED)]
    numbers = lambda: [model.index(row, MEASURED).data(RawRole) for row in range(model.rowCount())]
    assert heads() == ["at cursor", "shapes say"] and sum(numbers()) == before.peak_bytes
    whole = numbers()[0]
    model.restrict(before.filtered(WORDS), False)
    wanted = AllocationQuery(position=peak, filter=WORDS)
    assert heads() == ["at cursor", "shapes, all"] and sum(numbers()) == wanted.bytes(before)
    mine = replace(wanted, super_block=0).bytes(before)
    tip = model.index(0, MEASURED).data(Qt.ItemDataRole.ToolTipRole)
    assert numbers()[0] == mine and tip == f"{mine:,} bytes of {whole:,} bytes at the cursor"
    born = AllocationQuery(born=(peak // 2, peak), filter=WORDS)
    model.restrict(born.mask(before), True)
    assert heads()[0] == "in range" and sum(numbers()) == born.bytes(before)
    model.restrict(before.filtered("nonsense_zz"), False)
    assert set(numbers()) == {0}


def test_a_point_of_a_lane_says_every_byte(before: Run) -> None:
    lanes, peak = lanes_of(before), before.peak_position
    lane = lanes.outer[0]
    size = AllocationQuery(position=peak, categories=frozenset(lane.categories), super_block=0).bytes(before)
    curve = lanes.predicted(lane)
    assert curve is not None
    said = lane_text(lanes, lane, peak)
    assert f"activation: 208 MiB ({size:,} bytes)" in said and f"({curve.at(peak):,} bytes)" in said
    lanes.restrict(before.filtered(WORDS))
    mine = lanes.shown(lane).total_at(peak)
    assert 0 < mine < size
    assert f"({mine:,} bytes) of 208 MiB ({size:,} bytes) in colour" in lane_text(lanes, lane, peak)


@pytest.mark.parametrize("words", [WORDS, "nonsense_zz"])
def test_every_cut_of_a_filtered_comparison_sums_to_what_matches_at_both_peaks(
    before: Run, after: Run, words: str
) -> None:
    diff = Diff(before, after, words)
    sums = [AllocationQuery(position=run.peak_position, filter=words).bytes(run) for run in (before, after)]
    assert [int(run.allocations.bytes[alive_at_peak(run, words)].sum()) for run in (before, after)] == sums
    for key in shared_groupings(diff):
        rows = rows_by(diff, key)
        assert [sum(row.a_bytes for row in rows), sum(row.b_bytes for row in rows)] == sums, key
        steps = waterfall(rows)
        assert (steps.a_bytes, steps.b_bytes) == tuple(sums)
    assert StackDiff(before, after, words).nodes[TOP].bytes == sums
    assert (diff.a.peak_bytes, diff.peak_difference_bytes) == (before.peak_bytes, after.peak_bytes - before.peak_bytes)


def test_slots_of_a_filtered_comparison_are_the_most_that_matches_while_they_ran(before: Run, after: Run) -> None:
    whole = {row.slot: row for row in Diff(before, after).by_super_block_slot}
    curve = live_bytes(before.allocations, before.n_events, before.filtered(WORDS))
    for row in Diff(before, after, WORDS).by_super_block_slot:
        if row.a is not None:
            assert row.a.bytes == curve[row.a.position] <= whole[row.slot].a.bytes  # type: ignore[union-attr]
    assert all(row.a is None or row.a.bytes == 0 for row in Diff(before, after, "nonsense_zz").by_super_block_slot)


def test_a_comparison_takes_the_filter_that_both_runs_have_and_else_says_why_not(before: Run, after: Run) -> None:
    pair = (before, after)
    state = lambda a, b: ViewState(pair, (replace(PLAIN, filter=a), replace(PLAIN, filter=b)))
    assert filter_of(state("mlp", "mlp"), pair) == ("mlp", "") and filter_of(state("", ""), pair) == ("", "")
    assert filter_of(state("mlp", ""), pair) == ("", 'A is filtered by "mlp", B is not: it is not applied here')
    assert filter_of(state("", "mlp"), pair) == ("", 'B is filtered by "mlp", A is not: it is not applied here')
    assert filter_of(state("x", "y"), pair) == ("", 'A is filtered by "x", B by "y": neither is applied here')
    assert range_text(ViewState(pair, (PLAIN, RANGED)), pair) == "the range set in B does not apply here"


def test_what_is_pointed_at_has_a_band_of_its_own_or_is_in_one(before: Run) -> None:
    bands, blocks = bands_of(before, "category"), bands_of(before, "super_block")
    assert NOTHING.band(bands) is None and Pointed(group=2).band(bands) == 2
    assert Pointed(allocation=7).band(bands) == int(bands.grouping.labels[7])
    block = AllocationQuery(super_block=1, categories=frozenset((Category.activation,)))
    assert Pointed(query=block).band(bands) is None  # not all of one category, and no category all of it
    assert Pointed(query=block).band(blocks) == blocks.labels.index(1)
    outside = Pointed(query=AllocationQuery(super_block=NONE)).band(blocks)
    assert outside is not None and blocks.grouping.names[outside] == "outside layers"
