"""How the CUDA source cuts a step out of a longer history, on real ones: the part that needs no GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memstrata.capture.allocation_sources.cuda_cut import Cut, cut
from memstrata.capture.allocation_sources.cuda_history import Moment
from memstrata.capture.allocation_sources.cuda_problems import problems_of
from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Recording, build
from memstrata.capture.format.schema import Action, MarkKind, Severity
from memstrata.capture.format.torch_records import TorchRecords
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

TRAIN = "torch26-train-mid-run.pickle"
THREE = "torch28-oom-three-gpus-expandable.pickle"


def cut_at(recording: Recording, first: int, skew: int = 0, counted: bool = True) -> Cut:
    """The step that begins with event `first`, as if the user's history had begun long before it.

    `skew` is how far (ns) the history's clock is ahead of the host's, as it is some time before a snapshot.
    """
    events = recording.events
    ordinals = [device.ordinal for device in recording.meta.devices]
    made = [int((events.device == row)[first:][events.action[first:] == Action.alloc].sum()) for row in range(9)]
    counts = {o: (1_000_000, 1_000_000 + made[row]) for row, o in enumerate(ordinals)} if counted else {}
    start = int(events.time[first]) + 999 - skew  # within the microsecond of the event
    last = int(events.time[-1]) + 10**6
    return cut(
        events, recording.marks, Moment(start, {o: a for o, (a, _) in counts.items()}),
        Moment(last, {o: b for o, (_, b) in counts.items()}), ordinals,
    )  # fmt: skip


def with_tables(recording: Recording, step: Cut) -> Recording:
    tables = dict(recording.tables(), events=step.events, marks=step.marks)
    return build(recording.meta, recording.strings, **tables)


def a_moment(recording: Recording, near: int, of: Action) -> int:
    """An event of this kind that does not share its microsecond with the one before."""
    events = recording.events
    while events.time[near] == events.time[near - 1] or events.action[near] != of:
        near += 1
    return near


@pytest.mark.parametrize("counted", [True, False])
def test_a_step_cut_out_of_a_longer_history_keeps_its_peak(snapshots: Path, counted: bool) -> None:
    whole = open_file(snapshots / TRAIN)
    full, first = Run(whole), a_moment(whole, 3000, Action.alloc)
    part = Run(with_tables(whole, cut_at(whole, first, counted=counted)))
    assert part.n_events == full.n_events - first
    assert part.peak_bytes == full.peak_bytes and part.peak_position == full.peak_position - first
    assert np.array_equal(part.curve, full.curve[first:])


@pytest.mark.parametrize("skew", [-300_000, -40_000, 40_000, 300_000])
def test_a_clock_that_is_off_costs_no_allocation(snapshots: Path, skew: int) -> None:
    whole = open_file(snapshots / TRAIN)
    first = a_moment(whole, 3000, Action.alloc)
    step = cut_at(whole, first, skew)
    allocations = int((whole.events.action[first:] == Action.alloc).sum())
    assert int((step.events.action == Action.alloc).sum()) == allocations and step.lost == {}
    by_time = cut_at(whole, first, skew, counted=False)
    assert int((by_time.events.action == Action.alloc).sum()) != allocations  # what time alone would have said


def test_every_history_is_whole_when_it_is_cut_before_its_first_event(snapshot_file: Path) -> None:
    recording = open_file(snapshot_file)
    ordinals = [device.ordinal for device in recording.meta.devices]
    devices = recording.events.device[recording.events.action == Action.alloc]
    made = {o: 5 + int((devices == row).sum()) for row, o in enumerate(ordinals)}
    step = cut(
        recording.events, recording.marks, Moment(0, dict.fromkeys(ordinals, 5)), Moment(1 << 62, made), ordinals
    )
    assert len(step.events) == len(recording.events) and step.lost == {}
    assert len(step.marks) == len(recording.marks)


def test_marks_stand_before_the_same_event(snapshots: Path) -> None:
    whole = open_file(snapshots / THREE)
    oom = int(np.flatnonzero(whole.marks.kind == MarkKind.oom)[0])
    before = int(whole.marks.event[oom])
    first = a_moment(whole, before - 200, Action.alloc)
    assert first < before
    part = cut_at(whole, first, counted=False)
    mark = int(np.flatnonzero(part.marks.kind == MarkKind.oom)[0])
    assert int(part.marks.event[mark]) == before - first
    assert np.array_equal(part.events.address, whole.events.address[first:])


def test_each_of_several_devices_is_cut_by_its_own_count(snapshots: Path) -> None:
    whole = open_file(snapshots / THREE)
    first = a_moment(whole, 2000, Action.alloc)
    part = cut_at(whole, first, skew=100_000)
    for row in range(len(whole.meta.devices)):
        of = [(events.device == row) & (events.action == Action.alloc) for events in (whole.events, part.events)]
        assert part.events.address[of[1]].tolist() == whole.events.address[first:][of[0][first:]].tolist()


def test_an_oom_before_the_step_is_not_one_of_the_step(snapshots: Path) -> None:
    whole = open_file(snapshots / THREE)
    at = np.sort(whole.marks.event[whole.marks.kind == MarkKind.oom])
    start = int(whole.events.time[at[0]]) + 1000
    step = cut(whole.events, whole.marks, Moment(start, {}), Moment(1 << 62, {}), [0, 1, 2])
    inside = int((whole.events.time[at] >= start).sum())
    assert int((step.marks.kind == MarkKind.oom).sum()) == inside < len(at)


def lossy(recording: Recording, missing: int) -> tuple[TorchRecords, Cut]:
    """A history in whose ring the step's first allocations were overwritten."""
    events = recording.events
    made = int((events.action == Action.alloc).sum()) + missing
    step = cut(events, recording.marks, Moment(0, {0: 0}), Moment(1 << 62, {0: made}), [0])
    overflowed = Problem("trace_overflowed", Severity.warning, "The ring buffer of the memory history overflowed.")
    tables = dict(recording.tables())
    return TorchRecords(recording.meta.devices, tables, {}, [overflowed]), step


def test_what_the_ring_lost_of_the_step_is_counted(snapshots: Path) -> None:
    recording = open_file(snapshots / "torch23-train.pickle")
    read, step = lossy(recording, missing=123)
    allocations = int((recording.events.action == Action.alloc).sum())
    assert step.lost == {0: (allocations, allocations + 123)}
    [ours] = problems_of(read, step, ring=3797, still_on=True)
    assert (ours.code, ours.severity, ours.count) == ("history_overflowed", Severity.error, 123)
    assert f"123 of the step's {allocations + 123:,} allocations on cuda:0" in ours.text and "3,797" in ours.text
    [theirs] = problems_of(read, step, ring=None, still_on=True)
    assert "was left as it was" in theirs.text and "max_entries" in theirs.text


def test_an_overflow_from_before_the_step_is_no_problem_of_the_step(snapshots: Path) -> None:
    recording = open_file(snapshots / "torch23-train.pickle")
    read, step = lossy(recording, missing=0)
    assert problems_of(read, step, ring=None, still_on=True) == []
    assert problems_of(read, step, ring=4_000_000, still_on=True) == []
    [full] = problems_of(read, step, ring=3797, still_on=True)  # as many events as the ring holds
    assert full.code == "history_full"


def test_a_history_that_was_switched_off_inside_is_said(snapshots: Path) -> None:
    read, step = lossy(open_file(snapshots / "torch24-linear-grad.pickle"), missing=10)
    [ended] = problems_of(read, step, ring=100, still_on=False)
    assert (ended.code, ended.severity) == ("history_ended", Severity.error)


def test_a_step_without_cuda_memory_is_said(snapshots: Path) -> None:
    recording = open_file(snapshots / "torch25-empty.pickle")
    step = cut(recording.events, recording.marks, Moment(0, {0: 0}), Moment(1, {0: 0}), [])
    [nothing] = problems_of(TorchRecords((), dict(recording.tables())), step, ring=100, still_on=True)
    assert nothing.code == "no_cuda_memory" and "source='cpu'" in nothing.text


def test_a_users_history_of_the_state_only_is_said(snapshots: Path) -> None:
    recording = open_file(snapshots / "torch20-state-after-oom.pickle")  # max_entries is 1 then
    read, step = lossy(recording, missing=700)
    codes = [problem.code for problem in problems_of(read, step, ring=None, still_on=True)]
    assert codes == ["history_overflowed", "history_without_stacks"]
