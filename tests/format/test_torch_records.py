"""torch's snapshot dicts as schema rows: what the recorder's CUDA source and the snapshot reader share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.recording import Meta, Recording, build
from memstrata.capture.format.schema import NONE, Action, BlockState, MarkKind, Severity
from memstrata.capture.format.torch_records import ACTIONS, BLOCK_STATES, TorchRecords, is_snapshot, read_snapshot

FRAME = {"name": "forward", "filename": "/home/me/project/model.py", "line": 5}
CALLER = {"name": "<module>", "filename": "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py", "line": 9}


def event(action: str, address: int, size: int, time: int, **more: Any) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, **more}


def read(snapshot: Any, **options: Any) -> tuple[TorchRecords, Recording]:
    strings = StringTable()
    stacks = StackTable(strings)
    records = read_snapshot(snapshot, strings, stacks, **options)
    frames, tree = stacks.freeze()
    return records, build(Meta(devices=records.devices), strings, frames=frames, stacks=tree, **records.tables)


def test_every_action_of_torch_has_its_own_number() -> None:
    assert {
        "alloc": Action.alloc,
        "free_requested": Action.free_requested,
        "free_completed": Action.free_completed,
        "segment_alloc": Action.segment_alloc,
        "segment_free": Action.segment_free,
        "segment_map": Action.segment_map,
        "segment_unmap": Action.segment_unmap,
        "snapshot": Action.snapshot,
        "oom": Action.oom,
    } == ACTIONS


def test_both_words_for_a_pending_free_mean_the_same() -> None:
    assert BLOCK_STATES["active_pending_free"] == BLOCK_STATES["active_awaiting_free"] == BlockState.active_pending_free


def test_what_looks_like_a_snapshot() -> None:
    assert is_snapshot({"segments": []}) and is_snapshot({"device_traces": []})
    assert is_snapshot([]) and is_snapshot([{"blocks": [], "total_size": 1}])
    assert not is_snapshot({"state_dict": {}}) and not is_snapshot([1]) and not is_snapshot("x") and not is_snapshot(())


def test_times_become_nanoseconds_and_devices_are_merged_by_time() -> None:
    traces = [
        [event("alloc", 1, 10, 5), event("alloc", 2, 11, 9)],
        [],
        [event("alloc", 3, 12, 1), event("alloc", 4, 13, 9), event("free_completed", 3, 12, 9)],
    ]
    records, recording = read({"segments": [], "device_traces": traces})
    assert [(d.name, d.ordinal) for d in records.devices] == [("cuda:0", 0), ("cuda:2", 2)]
    assert recording.events.time.tolist() == [1000, 5000, 9000, 9000, 9000]
    assert recording.events.address.tolist() == [3, 1, 2, 4, 3]
    assert recording.events.device.tolist() == [1, 0, 0, 1, 1]


def test_the_order_within_a_device_outlives_swapped_times() -> None:
    traces = [
        [event("alloc", 1, 10, 7), event("alloc", 2, 10, 6)],
        [event("alloc", 3, 10, 6), event("alloc", 4, 10, 8)],
    ]
    _, recording = read({"segments": [], "device_traces": traces})
    assert recording.events.address.tolist() == [3, 1, 2, 4]


def test_without_times_devices_follow_each_other() -> None:
    traces = [[{"action": "alloc", "addr": 1, "size": 2, "stream": 0}], [event("alloc", 2, 3, 1)]]
    records, recording = read({"segments": [], "device_traces": traces})
    assert not records.has_time
    assert recording.events.time.tolist() == [NONE, 1000]
    assert recording.events.address.tolist() == [1, 2]


def test_frames_are_stored_once_and_innermost_last() -> None:
    shared = [FRAME, CALLER]
    trace = [event("alloc", 1, 10, 1, frames=shared), event("alloc", 2, 10, 2, frames=shared)]
    trace += [event("alloc", 3, 10, 3, frames=[dict(FRAME), dict(CALLER)]), event("alloc", 4, 10, 4, frames=[])]
    trace.append(event("alloc", 5, 10, 5, frames=[CALLER]))
    _, recording = read({"segments": [], "device_traces": [trace]})
    stacks = recording.events.stack.tolist()
    assert stacks[0] == stacks[1] == stacks[2] and stacks[3] == NONE
    assert recording.stack_frames(stacks[0]) == [
        ("forward", "/home/me/project/model.py", 5),
        ("<module>", "torch/nn/modules/module.py", 9),
    ]
    assert recording.stacks.parent[stacks[0]] == stacks[4]
    assert (len(recording.frames), len(recording.stacks)) == (2, 2)


def test_files_of_the_project_can_be_stored_relative_to_it() -> None:
    trace = [event("alloc", 1, 10, 1, frames=[FRAME])]
    _, recording = read({"segments": [], "device_traces": [trace]}, project="/home/me/project")
    assert recording.stack_frames(0) == [("forward", "model.py", 5)]


def test_the_stacks_of_a_recorder_are_continued() -> None:
    strings = StringTable()
    stacks = StackTable(strings)
    own = stacks.push(NONE, stacks.frame("mine", "a.py", 1))
    records = read_snapshot(
        {"segments": [], "device_traces": [[event("alloc", 1, 2, 3, frames=[FRAME])]]}, strings, stacks
    )
    assert own == 0
    assert records.tables["events"].stack.tolist() == [1]  # type: ignore[attr-defined]


def test_blocks_of_torch_2_0_have_no_address() -> None:
    blocks = [
        {"size": 512, "requested_size": 500, "state": "active_allocated",
         "history": [{"addr": 4096, "real_size": 500, "frames": [FRAME]}]},
        {"size": 1536, "requested_size": 0, "state": "inactive"},
        {"size": 2048, "state": "active_awaiting_free"},
    ]  # fmt: skip
    segment = {"device": 0, "address": 4096, "total_size": 4096, "stream": 0, "blocks": blocks, "segment_type": "small"}
    _, recording = read({"segments": [segment]})
    assert recording.blocks.address.tolist() == [4096, 4608, 6144]
    assert recording.blocks.requested_bytes.tolist() == [500, 0, 2048]
    assert recording.blocks.state.tolist() == [1, 0, 2]
    assert recording.stack_frames(int(recording.blocks.stack[0]))[0][0] == "forward"
    segments = recording.allocator_segments
    assert (segments.allocated_bytes[0], segments.active_bytes[0]) == (512, 2560)
    assert (segments.pool_owner[0], segments.pool_id[0], segments.is_small[0]) == (0, 0, True)


def test_an_oom_has_no_address_and_is_a_mark() -> None:
    trace = [event("alloc", 1, 2, 3), {"action": "oom", "device_free": 1024, "size": 4096, "stream": 0, "time_us": 4}]
    _, recording = read({"segments": [], "device_traces": [trace]})
    assert (recording.events.address[1], recording.events.bytes[1]) == (0, 4096)
    marks = recording.marks
    assert (marks.kind.tolist(), marks.event.tolist(), marks.time.tolist()) == ([MarkKind.oom], [1], [4000])
    assert "4,096 bytes asked for, 1,024 bytes free" in recording.strings[int(marks.text[0])]


def test_annotations_stand_before_the_event_that_follows_them() -> None:
    notes = [
        {"stage": "START", "name": "step", "device": 0, "time_us": 4},
        {"stage": "END", "name": "step", "device": 0, "time_us": 6},
        {"name": "once", "time_us": 99},
        {"name": "timeless"},
    ]
    trace = [event("alloc", i, 2, 2 * i + 3) for i in range(1, 3)]
    _, recording = read({"segments": [], "device_traces": [trace], "external_annotations": notes})
    found = zip(recording.marks.text.tolist(), recording.marks.event.tolist(), recording.marks.time.tolist())
    assert [(recording.strings[text], at, time) for text, at, time in found] == [
        ("timeless", NONE, NONE),
        ("step begins", 0, 4000),
        ("step ends", 1, 6000),
        ("once", 2, 99_000),
    ]
    assert np.isnan(recording.marks.value).all()


def test_npu_memory_is_called_so() -> None:
    frame = {"name": "f", "filename": "/env/lib/python3.9/site-packages/torch_npu/utils.py", "line": 1}
    records, _ = read({"segments": [], "device_traces": [[event("alloc", 1, 2, 3, frames=[frame])]]})
    assert records.devices[0].name == "npu:0"


@pytest.mark.parametrize(
    ("more", "code", "severity"),
    [
        ({"allocator_settings": {"trace_alloc_overflowed": True}}, "trace_overflowed", Severity.warning),
        ({"allocator_settings": {"trace_alloc_overflowed": False}}, None, None),
        ({"trace_alloc_overflowed": True}, "trace_overflowed", Severity.warning),
        ({"device_traces": [[{"action": "warp", "stream": 0, "time_us": 1}]]}, "unknown_action", Severity.warning),
        ({"device_traces": [[{"action": None, "time_us": 1}]]}, "unknown_action", Severity.warning),
        ({"device_traces": [[event("alloc", 1, 2, -1)]]}, "no_time", Severity.info),
    ],
)
def test_what_a_reader_must_know_is_said(more: dict[str, Any], code: str | None, severity: Severity | None) -> None:
    records, _ = read({"segments": [], **more})
    assert [(p.code, p.severity) for p in records.problems] == ([(code, severity)] if code else [])


def test_limits_bound_the_rows() -> None:
    trace = [event("alloc", 1, 2, 3)]
    assert len(read({"segments": [], "device_traces": [trace] * 4}, limit=4)[1].events) == 4
    with pytest.raises(ValueError, match="repeats its events"):
        read({"segments": [], "device_traces": [trace] * 5}, limit=4)


def test_nothing_at_all_has_no_devices() -> None:
    records, recording = read({"segments": [], "device_traces": [[], []], "allocator_settings": {"a": 1.5}})
    assert (records.devices, len(recording.events), records.has_time) == ((), 0, True)
    assert records.settings == {"a": 1.5}
