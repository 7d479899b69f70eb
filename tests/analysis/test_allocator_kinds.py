"""Reserved memory range by range and by pool and stream: the figures close, and are those of the replay."""

import numpy as np
import pytest

from memstrata.viewer.analysis.allocator.config import parse
from memstrata.viewer.analysis.allocator.fragmentation import free_blocks
from memstrata.viewer.analysis.allocator.history import History
from memstrata.viewer.analysis.allocator.kinds import kinds_of, largest_free, layout_of
from memstrata.viewer.analysis.allocator.replay import state_at, verify
from memstrata.viewer.analysis.allocator.sequence import empty_state

from .allocator_traces import random_sequence, traced


@pytest.mark.parametrize("conf", ["", "expandable_segments:True"])
def test_a_state_and_its_layout_say_the_same(conf):
    run = traced(random_sequence(11, 200, streams=(0, 7)), parse(conf))
    checked = verify(run)
    history = History(checked.replay)
    for position in range(0, run.n_events + 1, 13):
        state = state_at(checked.recorded, int(checked.replay.at_position(np.array([position]))[0]))
        layout, expected = layout_of(state), history.at(position)
        for name in ("address", "bytes", "expandable", "stream", "pool", "is_small", "number", "block_address", "home"):
            assert getattr(layout, name).tolist() == getattr(expected, name).tolist()
        row, _, size = free_blocks(state)
        most = np.zeros(len(state.address), np.int64)
        np.maximum.at(most, row, size)
        assert largest_free(layout).tolist() == most[np.argsort(state.address)].tolist()


def test_kinds_sum_to_all_that_is_reserved():
    run = traced(random_sequence(11, 200, streams=(0, 7)), parse("expandable_segments:True"))
    layout = History(verify(run).replay).at(run.n_events // 2)
    kinds = kinds_of(layout)
    assert len(kinds) >= 3 and {kind.stream for kind in kinds} == {0, 7}
    assert sum(kind.ranges for kind in kinds) == len(layout.bytes) == sum(kind.expandable for kind in kinds)
    assert sum(kind.reserved_bytes for kind in kinds) == layout.reserved_bytes
    assert sum(kind.used_bytes for kind in kinds) == int(layout.block_bytes.sum())
    assert sum(kind.free_bytes for kind in kinds) == int(layout.free_bytes.sum())
    assert all(0 <= kind.largest_free_bytes <= kind.free_bytes for kind in kinds)


def test_nothing_reserved_has_no_kinds():
    assert kinds_of(layout_of(empty_state())) == ()
