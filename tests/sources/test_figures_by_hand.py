"""Figures of snapshots small enough to be worked out on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .snapshots import HEAP, START_US, alloc, block, event, free, segment, snapshot, timed, written


@pytest.mark.parametrize("waiting", ["active_pending_free", "active_awaiting_free"])
def test_what_waits_for_a_stream_to_free_it_is_active(tmp_path: Path, waiting: str) -> None:
    """Its allocation is older than the trace, which holds the request to free it and no more."""
    blocks = [block(HEAP, 512, requested=500), block(HEAP + 512, 1024, waiting, requested=1000)]
    blocks += [block(HEAP + 1536, 2048, "inactive"), block(HEAP + 3584, 4096, requested=4000)]
    events = [alloc(HEAP + 3584, 4000), event("free_requested", HEAP + 512, 1000), *free(HEAP + 1536, 70)]
    run = Run(open_file(written(tmp_path, snapshot([segment(blocks)], [timed(events)]))))
    assert run.curve.tolist() == [1570, 5570, 5570, 5570, 5500]
    assert (run.baseline_bytes, run.peak_bytes, run.peak_position, run.end_bytes) == (1570, 5570, 1, 5500)
    assert run.allocations.bytes[run.allocations.alive(4)].tolist() == [500, 1000, 4000]


def test_events_of_one_device_keep_their_order_against_their_times(tmp_path: Path) -> None:
    first = [alloc(HEAP + 512 * i, 512, time_us=START_US + at) for i, at in enumerate((10, 5, 20))]
    second = [alloc(HEAP + (1 << 40), 512, time_us=START_US + 7)]
    events = open_file(written(tmp_path, snapshot([], [first, second]))).events
    assert events.device.tolist() == [1, 0, 0, 0]
    assert (events.address[1:] - HEAP).tolist() == [0, 512, 1024]


def test_a_block_that_names_no_request_was_asked_for_whole(tmp_path: Path) -> None:
    old = block(HEAP, 512)
    del old["requested_size"]
    blocks = [old, block(HEAP + 512, 1024, requested=1000)]
    run = Run(open_file(written(tmp_path, snapshot([segment(blocks, total_size=1536)], []))))
    assert (run.peak_bytes, run.end_bytes) == (1512, 1512)
