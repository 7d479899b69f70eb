"""The fast replay against the plain one, and both against traces cut anywhere."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstrata.capture.format import schema
from memstrata.capture.format.interning import StringTable
from memstrata.capture.format.recording import Device, Meta, build
from memstrata.capture.format.schema import Action
from memstrata.viewer.analysis.allocator.config import parse
from memstrata.viewer.analysis.allocator.fast import FastAllocator
from memstrata.viewer.analysis.allocator.memory import RecordedMemory, SimulatedMemory
from memstrata.viewer.analysis.allocator.recorded import recorded
from memstrata.viewer.analysis.allocator.reference import ReferenceAllocator
from memstrata.viewer.analysis.allocator.replay import verify
from memstrata.viewer.analysis.allocator.sequence import empty_state
from memstrata.viewer.model.run import Run

from .allocator_traces import MIB, random_sequence, traced

CONFIGS = [
    "", "expandable_segments:True", "max_split_size_mb:20", "roundup_power2_divisions:4",
    "roundup_power2_divisions:[1:8,32:2,>:4],max_split_size_mb:50", "expandable_segments:True,max_split_size_mb:30",
    "large_segment_size_mb:40",
]  # fmt: skip
SEEDS = st.integers(0, 10**9)
LENGTHS = st.sampled_from([3, 20, 100, 250])


def assert_same(a, b):
    assert a.address.tolist() == b.address.tolist()
    assert a.held.tolist() == b.held.tolist()
    assert a.moves == b.moves
    assert (a.failures, a.stopped_at) == (b.failures, b.stopped_at)
    for f in dataclasses.fields(a.end):
        assert getattr(a.end, f.name).tolist() == getattr(b.end, f.name).tolist(), f.name


@settings(max_examples=120, deadline=None)
@given(SEEDS, LENGTHS, st.sampled_from(CONFIGS), st.sampled_from([None, 100, 300, 1000]), st.booleans())
def test_both_models_do_the_same(seed, length, conf, capacity, limited):
    played, config = random_sequence(seed, length), parse(conf)
    room = None if capacity is None else capacity * MIB
    allowed = 200 * MIB if limited else None
    virtual = 2048 * MIB if room is None else room + room // 8
    fast = FastAllocator(played, config, SimulatedMemory(room), empty_state(), None, allowed, virtual).run()
    plain = ReferenceAllocator(played, config, SimulatedMemory(room), empty_state(), allowed, virtual).run()
    assert_same(fast, plain)


@settings(max_examples=60, deadline=None)
@given(SEEDS, LENGTHS, st.sampled_from(CONFIGS[:4]), st.floats(0, 1))
def test_a_trace_cut_anywhere_is_reproduced(seed, length, conf, where):
    """The state at the cut is reconstructed from the end; every later address and range follows."""
    played, config = random_sequence(seed, length, pools=(0,)), parse(conf)
    whole = traced(played, config)
    skip = int(where * whole.n_events)
    growth = (Action.segment_alloc, Action.segment_map)
    while 0 < skip < whole.n_events and whole.events.action[skip - 1] in growth:
        skip += 1  # not between new memory and the allocation that asked for it
    checked = verify(traced(played, config, skip=skip))
    assert checked.exact, checked.first_mismatch
    assert checked.exact_matches == checked.allocations
    known = checked.recorded
    plain = ReferenceAllocator(known.sequence, known.config, RecordedMemory(known.moves), known.state).run()
    assert_same(dataclasses.replace(checked.replay.outcome, mismatches=[]), plain)


def test_a_wrong_address_is_found_and_does_not_spread():
    run = traced(random_sequence(3, 100, pools=(0,), streams=(0,)))
    events = run.recording.events
    allocs = np.flatnonzero(events.action == Action.alloc)
    wrong = int(allocs[len(allocs) // 2])
    address = events.address.copy()
    later = np.flatnonzero((address == address[wrong]) & (np.arange(len(address)) >= wrong))
    until = next((i for i in later[1:].tolist() if events.action[i] == Action.alloc), len(address))
    address[[i for i in later.tolist() if i < until]] += 512 << 40
    moved = dataclasses.replace(run.recording, events=dataclasses.replace(events, address=address))
    checked = verify(Run(moved))
    assert not checked.exact
    assert checked.first_mismatch["event"] == wrong
    assert 0 < checked.allocations - checked.exact_matches < checked.allocations / 2


ROW = st.tuples(
    st.sampled_from([a for a in Action if a != Action.unknown]),
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 1),
)
UNITS = [0, 1, 512, 4096, MIB, 2 * MIB, 4 * MIB, 18 * MIB, 20 * MIB, 22 * MIB, 40 * MIB, 1 << 46, 1 << 56]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(ROW, max_size=30),
    st.lists(st.tuples(st.integers(0, 10), st.integers(1, 10), st.booleans(), st.booleans()), max_size=4),
    st.sampled_from(["", "expandable_segments:True", "max_split_size_mb:20"]),
)
def test_nonsense_is_reported_and_never_raises(rows, ranges, conf):
    events = [(int(a), 0, UNITS[at], UNITS[size], -1, -1, s, -1, -1, -1) for a, at, size, s in rows]
    segments = [(0, UNITS[at], UNITS[size], 0, 0, 0, 0, 0, small, wide, -1) for at, size, small, wide in ranges]
    meta = Meta(
        kind="snapshot", source="snapshot", devices=(Device("cuda:0", 0),), has_reserved=True, has_time=False,
        allocator_settings={"PYTORCH_CUDA_ALLOC_CONF": conf},
    )  # fmt: skip
    run = Run(build(
        meta, StringTable(), events=schema.from_rows(schema.Events, events),
        allocator_segments=schema.from_rows(schema.AllocatorSegments, segments),
    ))  # fmt: skip
    checked = verify(run)
    assert checked.exact_matches <= checked.allocations
    known = recorded(run)
    assert len(known.sequence) >= checked.allocations


@pytest.mark.parametrize("seed", range(3))
def test_garbage_collection_only_gives_back_what_is_free(seed):
    """With a threshold the plain model plays: same allocations, never less reserved than in blocks."""
    from memstrata.viewer.analysis.allocator.replay import replay

    played = random_sequence(seed, 250)
    done = replay(played, parse("garbage_collection_threshold:0.2"), capacity=4096 * MIB)
    plain = replay(played, capacity=4096 * MIB)
    assert done.oom is None
    assert (done.reserved >= done.allocated).all()
    assert done.allocated[-1] >= plain.allocated[-1] * 0.9
