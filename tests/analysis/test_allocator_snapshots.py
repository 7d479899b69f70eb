"""Every address and every allocator segment event of the real traces, and what follows from them."""

import dataclasses

import numpy as np
import pytest

from memstrata.capture.format.schema import Action, BlockState
from memstrata.viewer.analysis.allocator.answer import Answer, Question
from memstrata.viewer.analysis.allocator.config import parse
from memstrata.viewer.analysis.allocator.memory import RecordedMemory
from memstrata.viewer.analysis.allocator.oom import recorded_ooms
from memstrata.viewer.analysis.allocator.recorded import recorded
from memstrata.viewer.analysis.allocator.reference import ReferenceAllocator
from memstrata.viewer.analysis.allocator.replay import replay, verify
from memstrata.viewer.analysis.allocator.sequence import Op
from memstrata.viewer.analysis.allocator.verified import EVIDENCE
from memstrata.viewer.analysis.allocator.what_if import what_if
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

MIB = 1 << 20


def runs_of(path):
    recording = open_file(path)
    return [Run(recording, row) for row in range(len(recording.meta.devices))]


def test_every_trace_of_the_native_allocator_is_reproduced(snapshot_file):
    """npu files have another allocator, and one file is made up; everything else comes out exactly."""
    for run in runs_of(snapshot_file):
        checked = verify(run)
        actions = run.events.action
        assert checked.allocations == int((actions == Action.alloc).sum())
        if run.device.name.startswith("npu") or snapshot_file.stem == "synthetic-inconsistent":
            assert checked.exact_matches < checked.allocations / 2
            continue
        assert checked.first_mismatch is None
        assert checked.exact_matches == checked.allocations
        moves = (Action.segment_alloc, Action.segment_free, Action.segment_map, Action.segment_unmap)
        assert checked.segment_matches == checked.segment_events == int(np.isin(actions, moves).sum())
        assert_end_state(run, checked.replay.outcome.end)
        if checked.allocations and run.reserved is not None:
            assert checked.replay.peak_reserved_bytes == int(run.reserved.max())
            assert int(checked.replay.reserved[-1]) == int(run.reserved[-1])


def assert_end_state(run, end):
    """Ranges and blocks, with rounding, are those that the file shows at its end."""
    segments, blocks = run.recording.allocator_segments, run.recording.blocks
    mine = segments.device == run.device_row
    assert pairs(end.address, end.bytes) == pairs(segments.address[mine], segments.bytes[mine])
    active = mine[blocks.segment] & np.isin(blocks.state, (BlockState.active_allocated, BlockState.active_pending_free))
    assert pairs(end.block_address, end.block_bytes) == pairs(blocks.address[active], blocks.bytes[active])


def pairs(a, b):
    return sorted(zip(a.tolist(), b.tolist()))


def test_the_plain_model_agrees_on_real_traces(snapshot_file):
    for run in runs_of(snapshot_file):
        checked = verify(run)
        if not checked.exact:
            continue
        known = checked.recorded
        plain = ReferenceAllocator(known.sequence, known.config, RecordedMemory(known.moves), known.state).run()
        fast = checked.replay.outcome
        assert plain.address.tolist() == fast.address.tolist()
        assert plain.held.tolist() == fast.held.tolist()
        assert plain.moves == fast.moves
        for f in dataclasses.fields(plain.end):
            assert getattr(plain.end, f.name).tolist() == getattr(fast.end, f.name).tolist()


@pytest.mark.parametrize("evidence", EVIDENCE, ids=lambda evidence: evidence.rule)
def test_the_evidence_is_what_it_says(evidence, snapshots):
    found = set()
    for name in evidence.snapshots:
        for run in runs_of(snapshots / f"{name}.pickle"):
            checked = verify(run)
            assert checked.exact and checked.allocations
            known = checked.recorded
            kinds = set(known.sequence.kind.tolist())
            found |= (
                {"several streams"} if len(set(known.sequence.stream[known.sequence.kind == Op.alloc])) > 1 else set()
            )
            found |= {"emptying the cache"} if kinds & {Op.empty_cache, Op.retry} else set()
            found |= {"expandable_segments"} if known.config.expandable_segments else set()
            unmaps = any(move.action == Action.segment_unmap for move in known.moves)
            found |= {"unmapping after a failed allocation, and the OOM"} if unmaps and Op.failed in kinds else set()
    assert evidence.rule in found or evidence.rule.startswith("rounding")


@pytest.mark.parametrize("name", ["torch26-train-from-start", "torch24-linear-grad", "torch26-attention-small"])
def test_made_up_addresses_reserve_as_much(name, snapshots):
    """A what-if without a change predicts what was recorded, from nothing but sizes, order and streams."""
    (run,) = runs_of(snapshots / f"{name}.pickle")
    done = what_if(recorded(run)).replay
    at = done.at_position(np.arange(run.n_events + 1))
    assert done.peak_reserved_bytes == int(run.reserved.max())
    after = np.flatnonzero(run.events.action == Action.alloc) + 1  # the event before a new range is the range itself
    assert done.reserved[at][after].tolist() == run.reserved[after].tolist()


def test_a_capacity_predicts_the_failed_malloc_of_a_real_run(snapshots):
    """The recorded run once emptied its cache for want of memory; with as much memory the replay does so too."""
    (run,) = runs_of(snapshots / "torch25-inference-segment-churn.pickle")
    known = recorded(run)
    room = int(run.reserved.max())
    tight, roomy = what_if(known, capacity=room), what_if(known)
    freed = [move for move in tight.replay.outcome.moves if move.action == Action.segment_free]
    recorded_frees = [move for move in known.moves if move.action == Action.segment_free]
    assert [(m.op, m.bytes) for m in freed] and sum(m.bytes for m in freed) == sum(m.bytes for m in recorded_frees)
    assert tight.replay.oom is None and tight.replay.peak_reserved_bytes == room
    assert roomy.replay.peak_reserved_bytes > room


def test_a_recorded_oom_is_explained_with_the_state_of_its_moment(snapshots):
    run = runs_of(snapshots / "torch28-oom-three-gpus-expandable.pickle")[1]
    (oom,) = recorded_ooms(recorded(run))
    assert oom.event == int(np.flatnonzero(run.events.action == Action.oom)[0])
    assert oom.requested_bytes == int(run.events.bytes[oom.event])
    assert oom.reserved_bytes == int(run.reserved[oom.event])
    assert oom.device_free_bytes == 95_682_560
    assert oom.capacity_bytes == oom.reserved_bytes + oom.device_free_bytes
    assert oom.largest_free_bytes <= oom.usable_free_bytes <= oom.free_bytes < oom.requested_bytes
    assert oom.memory.allocated_bytes + oom.free_bytes == oom.reserved_bytes
    *settings, more = oom.changes
    assert not any(change.passes for change in settings)
    assert more.passes and oom.requested_bytes - oom.device_free_bytes - oom.free_bytes <= more.more_bytes
    assert more.more_bytes <= oom.requested_bytes
    played = known_part(run, oom.event)
    assert replay(played, recorded(run).config, oom.capacity_bytes + more.more_bytes).oom is None
    assert replay(played, recorded(run).config, oom.capacity_bytes + more.more_bytes - 2 * MIB).oom is not None


def known_part(run, event):
    from memstrata.viewer.analysis.allocator.replay import first_operations

    played = recorded(run).sequence
    return first_operations(played, int(np.flatnonzero(played.event == event)[0]) + 1)


def test_free_memory_at_the_peak_adds_up_and_is_pinned(snapshot_file):
    for run in runs_of(snapshot_file):
        answer = Answer(run)
        if answer.refusal or not answer.verification.exact:
            continue
        parts = answer.fragmentation
        free = parts.returnable_bytes + parts.private_bytes + parts.pinned_bytes
        assert parts.allocated_bytes + free == parts.reserved_bytes
        assert parts.reserved_bytes == int(answer.verification.replay.reserved.max())
        for part in parts.pinned:
            assert part.pins and 2 * part.free_bytes >= part.bytes
            alive = run.allocations.alive(answer.peak_event + 1)
            assert set(part.pins) <= set(alive.tolist())


def test_what_a_pin_holds_back_comes_back_without_it(snapshots):
    """Free the only pin of a mostly free range at the peak, empty the cache, and exactly its range is gone."""
    (run,) = runs_of(snapshots / "torch26-train-from-start.pickle")
    answer = Answer(run)
    number, ranges, size = answer.fragmentation.by_pin()[0]
    assert ranges == 1
    known = answer.known
    upto = answer.verification.replay.peak_row
    emptied = _emptied(known, upto, None)
    without = _emptied(known, upto, number)
    assert emptied - without == size == 26 * MIB


def _emptied(known, upto, number):
    played = known.sequence
    kind = [*played.kind[:upto].tolist(), *([Op.free] if number is not None else []), Op.empty_cache]
    numbers = [*played.id[:upto].tolist(), *([number] if number is not None else []), -1]
    more = [0] * (len(kind) - upto)
    from memstrata.viewer.analysis.allocator.sequence import sequence

    part = sequence(kind, numbers, [*played.bytes[:upto].tolist(), *more], [*played.stream[:upto].tolist(), *more])
    return int(replay(part, known.config).reserved[-1])


def test_other_allocators_are_refused(snapshots):
    for run in runs_of(snapshots / "npu26-two-devices.pickle"):
        assert Answer(run).refusal == f"{run.device.name} has an allocator of its own: " + (
            "the rules of torch's CUDA allocator do not apply."
        )


def test_settings_without_a_real_trace_are_marked(snapshots):
    (run,) = runs_of(snapshots / "torch24-linear-grad.pickle")
    conf = "expandable_segments:True,max_split_size_mb:64,roundup_power2_divisions:4"
    assert Answer(run, Question(conf)).unverified == ("max_split_size_mb", "roundup_power2_divisions")
    assert Answer(run, Question("expandable_segments:True")).unverified == ()
    assert what_if(recorded(run), parse(conf)).unverified == ("max_split_size_mb", "roundup_power2_divisions")


def test_a_cpu_recording_is_an_estimate(run_of):
    answer = Answer(run_of("before.mstrata"))
    assert answer.what_if is not None and answer.what_if.fresh
    assert answer.estimates[0].startswith("kernels: cpu")
    assert answer.reserved_peak_bytes > answer.run.peak_bytes
    tight = Answer(run_of("before.mstrata"), Question(capacity=int(answer.run.peak_bytes * 0.8)))
    (oom,) = tight.ooms
    assert "super-block" in tight.place_text(oom.event) or tight.place_text(oom.event)
    assert tight.run.curve[oom.event] + oom.requested_bytes > tight.question.capacity * 0.8
