"""The map's layouts are those of the replay, at every position."""

import numpy as np
import pytest

from memstrata.viewer.analysis.allocator.answer import Answer
from memstrata.viewer.analysis.allocator.config import parse
from memstrata.viewer.analysis.allocator.end_layout import end_layout
from memstrata.viewer.analysis.allocator.history import History
from memstrata.viewer.analysis.allocator.replay import state_at, verify
from memstrata.viewer.analysis.allocator.what_if import what_if
from memstrata.viewer.state.loading import open_run

from .allocator_traces import random_sequence, traced


@pytest.mark.parametrize("conf", ["", "expandable_segments:True"])
@pytest.mark.parametrize("skip", [0, 60])
def test_a_layout_is_the_state_of_the_replay(conf, skip):
    run = traced(random_sequence(11, 200, pools=(0,)), parse(conf), skip=skip)
    checked = verify(run)
    assert checked.exact
    history = History(checked.replay)
    for position in range(0, run.n_events + 1, 7):
        op = int(checked.replay.at_position(np.array([position]))[0])
        state, layout = state_at(checked.recorded, op), history.at(position)
        assert dict(zip(layout.address.tolist(), layout.bytes.tolist())) == dict(
            zip(state.address.tolist(), state.bytes.tolist())
        )
        assert (layout.expandable == (state.base[np.argsort(state.address)] >= 0)).all()
        order = np.argsort(state.address)
        for column in ("stream", "pool", "is_small"):
            assert getattr(layout, column).tolist() == getattr(state, column)[order].tolist()
        blocks = dict(zip(state.block_id.tolist(), zip(state.block_address.tolist(), state.block_bytes.tolist())))
        mine = zip(layout.block_address.tolist(), layout.block_bytes.tolist())
        assert dict(zip(layout.number.tolist(), mine)) == blocks
        start, end = layout.address[layout.home], (layout.address + layout.bytes)[layout.home]
        assert ((layout.block_address >= start) & (layout.block_address + layout.block_bytes <= end)).all()


def test_a_replay_that_ran_out_of_memory_stays_where_it_was():
    run = traced(random_sequence(5, 120, pools=(0,), streams=(0,)))
    done = what_if(verify(run).recorded, capacity=40 << 20).replay
    assert done.oom is not None
    history = History(done)
    assert history.at(run.n_events).reserved_bytes == int(done.reserved[-1])
    assert int(history.at(run.n_events).block_bytes.sum()) == int(done.allocated[-1])


def test_ranges_of_one_pool_and_stream_stand_together_and_every_byte_is_in_a_block_or_a_gap():
    run = traced(random_sequence(11, 200, streams=(0, 7)), parse(""))
    layout = History(verify(run).replay).at(run.n_events // 2)
    keys = [key for key, _ in layout.kinds]
    assert keys == sorted(set(keys)) and {stream for _, _, stream in keys} == {0, 7}
    assert {small for _, small, _ in keys} == {False, True}
    assert sorted(np.concatenate([rows for _, rows in layout.kinds]).tolist()) == list(range(len(layout.bytes)))
    for row in range(len(layout.address)):
        at, end, free = int(layout.address[row]), int(layout.address[row] + layout.bytes[row]), 0
        while at < end:
            block = layout.block_at(row, at)
            size = layout.gap_at(row, at) if block < 0 else int(layout.block_bytes[block])
            assert size > 0 and (block < 0 or layout.block_address[block] == at)
            free += size if block < 0 else 0
            at += size
        assert at == end and free == layout.free_bytes[row]


def test_the_recorded_end_is_the_end_of_the_replay(snapshots):
    run = open_run(str(snapshots / "torch26-train-from-start.pickle"))
    played, recorded = History(verify(run).replay).at(run.n_events), end_layout(run)
    for column in ("address", "bytes", "expandable", "stream", "pool", "is_small", "number", "block_address", "home"):
        assert getattr(played, column).tolist() == getattr(recorded, column).tolist(), column
    assert recorded.reserved_bytes == run.end_state.reserved_bytes
    active = run.end_state.active_bytes + run.end_state.rounding_bytes
    assert int(recorded.block_bytes.sum()) == active and int(recorded.free_bytes.sum()) == run.end_state.cached_bytes


def test_private_pools_are_told_apart(snapshots):
    run = open_run(str(snapshots / "torch26-three-pools-no-trace.pickle"))
    layout, answer = end_layout(run), Answer(run)
    sizes = {answer.kind_text(*key): int(layout.bytes[rows].sum()) for key, rows in layout.kinds}
    segments = run.recording.allocator_segments
    private = (segments.pool_owner == 0) & (segments.pool_id == 2)
    assert sizes["private pool (0, 2), large, default stream"] == int(segments.bytes[private].sum())
    assert len(sizes) == 5 and sum(sizes.values()) == run.end_state.reserved_bytes
