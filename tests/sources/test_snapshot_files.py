"""Every real snapshot file against the independent figures that lie beside them."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memstrata.capture.format.schema import Action, MarkKind
from memstrata.viewer.model import endstate, identities
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .snapshots import plain_unpickled


@functools.cache
def opened(path: Path) -> Run:
    """Each file is read once for all tests of this module."""
    return Run(open_file(path), name=path.name)


@pytest.fixture(scope="module")
def oracle(snapshots: Path) -> Callable[[str], Any]:
    return runpy.run_path(str(snapshots / "oracle.py"))["oracle"]


def figures(run: Run) -> dict[str, Any]:
    counts = np.bincount(run.events.action, minlength=len(Action))
    return {
        "baseline_bytes": run.baseline_bytes, "peak_bytes": run.peak_bytes, "peak_event": run.peak_position - 1,
        "end_bytes": run.end_bytes, "reserved_end_bytes": int(run.reserved[-1]),
        "reserved_peak_bytes": int(run.reserved.max()),
        "events": {action.name: int(counts[action]) for action in Action if counts[action]},
    }  # fmt: skip


def test_the_figures_equal_the_independent_ones(snapshot_file: Path, oracle: Callable[[str], Any]) -> None:
    run = opened(snapshot_file)
    devices = run.recording.meta.devices
    mine = {device.ordinal: figures(run.on(row)) for row, device in enumerate(devices)}
    assert mine == oracle(str(snapshot_file))["devices"]


def test_everything_adds_up(snapshot_file: Path) -> None:
    run = opened(snapshot_file)
    for row in range(len(run.recording.meta.devices)):
        assert identities.check(run.on(row)) == []


def test_the_first_user_frame_is_offered_and_groups_by_it(snapshot_file: Path) -> None:
    run = opened(snapshot_file)
    grouping = run.grouping("frame")
    assert len(grouping.names) == len(set(grouping.names)) or len(grouping.names) > 1
    assert not any(name.startswith("torch::unwind") for name in grouping.names)


CONTRADICTS_ITSELF = {"synthetic-inconsistent.pickle"}


def test_what_an_allocator_wrote_does_not_contradict_itself(snapshot_file: Path) -> None:
    codes = {problem.code for problem in opened(snapshot_file).problems}
    contradictions = {"reserved_below_active", "blocks_do_not_fill_segments"} & codes
    assert bool(contradictions) == (snapshot_file.name in CONTRADICTS_ITSELF)
    assert not codes & {"sizes_differ", "end_state_differs", "lost_frees", "unknown_action", "unknown_block_state"}


def test_devices_are_called_what_they_are(snapshots: Path) -> None:
    names = {p.stem: [d.name for d in opened(p).recording.meta.devices] for p in snapshots.glob("*.pickle")}
    assert names["npu26-two-devices"] == ["npu:0", "npu:1"]
    assert names["torch22-list-of-segments"] == ["cuda:1"]
    assert names["torch22-state-second-gpu"] == ["cuda:0", "cuda:1"]
    assert names["torch28-oom-three-gpus-expandable"] == ["cuda:0", "cuda:1", "cuda:2"]
    assert names["torch25-empty"] == []


def test_the_busiest_device_is_shown_first(snapshots: Path) -> None:
    assert opened(snapshots / "torch22-state-second-gpu.pickle").device.name == "cuda:1"
    assert opened(snapshots / "torch28-oom-three-gpus-expandable.pickle").device.name == "cuda:1"


def test_the_oom_is_marked_where_it_happened(snapshots: Path) -> None:
    recording = opened(snapshots / "torch28-oom-three-gpus-expandable.pickle").recording
    ooms = np.flatnonzero(recording.marks.kind == MarkKind.oom)
    events = recording.marks.event[ooms]
    assert recording.events.action[events].tolist() == [Action.oom]
    assert recording.events.device[events].tolist() == [1]
    assert recording.marks.value[ooms] == recording.events.bytes[events]


def test_annotations_become_marks_with_their_place(snapshots: Path) -> None:
    recording = opened(snapshots / "torch211-train.pickle").recording
    marks = recording.marks
    assert [recording.strings[t] for t in marks.text.tolist()] == [
        "Optimizer.step#AdamW.step begins",
        "Optimizer.step#AdamW.step ends",
    ]
    begin, end = marks.event.tolist()
    assert 0 < begin < end <= len(recording.events)
    assert recording.events.time[begin - 1] < marks.time[0] <= recording.events.time[begin]


def test_three_pools_are_kept_apart(snapshots: Path) -> None:
    run = opened(snapshots / "torch26-three-pools-no-trace.pickle")
    pools = endstate.pools(run.recording, run.device_row)
    assert sorted(pools) == [(0, 0), (0, 1), (0, 2)]
    assert sum(state.reserved_bytes for state in pools.values()) == run.end_state.reserved_bytes


def test_addresses_of_old_blocks_follow_from_their_sizes(snapshots: Path) -> None:
    """torch 2.0 gives blocks no address, but its `history` repeats it: both must agree."""
    path = snapshots / "torch20-state-after-oom.pickle"
    snapshot = plain_unpickled(path.read_bytes())
    blocks = [b for s in snapshot["segments"] for b in s["blocks"]]
    stated = [b["history"][0]["addr"] if "history" in b else -1 for b in blocks]
    read = opened(path).recording.blocks
    assert [int(a) for a, s in zip(read.address, stated) if s >= 0] == [s for s in stated if s >= 0]
    assert (read.stack[np.array(stated) >= 0] >= 0).all()


def test_events_of_several_devices_are_in_order_of_time(snapshots: Path) -> None:
    events = opened(snapshots / "torch28-oom-three-gpus-expandable.pickle").recording.events
    assert (np.diff(events.time) >= 0).all()
    assert len(np.unique(events.device)) == 3


def test_overflow_and_late_starts_are_said(snapshots: Path) -> None:
    problems = {p.code: p for p in opened(snapshots / "torch26-train-mid-run.pickle").problems}
    assert problems["before_first_event"].count == 1313
    assert problems["frees_without_allocation"].count == 329
