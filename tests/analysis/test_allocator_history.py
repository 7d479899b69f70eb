"""The map's layouts are those of the replay, at every position."""

import numpy as np
import pytest

from memstrata.viewer.analysis.allocator.config import parse
from memstrata.viewer.analysis.allocator.history import History
from memstrata.viewer.analysis.allocator.replay import state_at, verify
from memstrata.viewer.analysis.allocator.what_if import what_if

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
