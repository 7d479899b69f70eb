"""What people's snapshot files look like, and what must be read out of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.schema import Action, Category, MarkKind
from memstrata.viewer.model import endstate, identities
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .snapshots import FRAMES, HEAP, MB, alloc, block, event, free, segment, snapshot, timed, written


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    def open_value(value: Any) -> Run:
        run = Run(open_file(written(tmp_path, value)))
        assert identities.check(run) == []
        return run

    return open_value


def problem(run: Run, code: str) -> Problem:
    return next(p for p in run.problems if p.code == code)


def codes(run: Run) -> set[str]:
    return {p.code for p in run.problems}


def test_memory_that_no_event_mentions_is_in_the_peak_and_in_the_table(opened: Any) -> None:
    temporary = HEAP + 200 * MB
    events = timed([alloc(temporary, 20 * MB), *free(temporary, 20 * MB)])
    blocks = [block(HEAP, 100 * MB), block(HEAP + 100 * MB, 200 * MB, "inactive")]
    run = opened(snapshot([segment(blocks)], [events]))
    assert run.peak_bytes == 120 * MB
    assert run.peak_position == 1
    rows = AllocationQuery(position=run.peak_position).select(run)
    assert run.allocations.bytes[rows].tolist() == [100 * MB, 20 * MB]
    assert run.allocations.before[rows].tolist() == [True, False]
    assert run.curve.tolist() == [100 * MB, 120 * MB, 120 * MB, 100 * MB]
    assert (run.baseline_bytes, run.end_bytes) == (100 * MB, 100 * MB)


def test_a_free_that_comes_first_starts_at_its_bytes_and_ends_at_zero(opened: Any) -> None:
    events = timed([*free(HEAP, 30 * MB), alloc(HEAP, 5 * MB), *free(HEAP, 5 * MB), *free(HEAP + 90 * MB, 7 * MB)])
    run = opened(snapshot([segment([block(HEAP, 100 * MB, "inactive")])], [events]))
    assert run.curve.tolist() == [n * MB for n in (37, 37, 7, 12, 12, 7, 7, 0)]
    assert problem(run, "before_first_event").count == 2
    assert problem(run, "before_first_event").text.startswith("2 allocations came before the first kept event")
    assert problem(run, "frees_without_allocation").count == 2
    assert "trace_overflowed" not in codes(run)


def test_an_overflow_is_said_when_the_file_says_so(opened: Any) -> None:
    settings = {"trace_alloc_overflowed": True, "trace_alloc_max_entries": 2}
    full = [segment([block(HEAP, 4 * MB, "inactive")])]
    run = opened(snapshot(full, [timed(free(HEAP, 4 * MB))], allocator_settings=settings))
    assert "oldest events are lost" in problem(run, "trace_overflowed").text
    assert run.recording.meta.allocator_settings["trace_alloc_max_entries"] == 2


def test_the_device_with_the_allocations_is_opened(opened: Any) -> None:
    notes = [{"stage": "START", "name": "Optimizer.step", "device": 0, "time_us": 1}]
    seen = [{"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": 2}]
    own = [segment([block(HEAP, 8 * MB)], device=2)]
    run = opened(snapshot(own, [seen, [], timed([alloc(HEAP, 8 * MB)])], external_annotations=notes))
    assert run.device.ordinal == 2
    assert run.peak_bytes == 8 * MB
    assert [(d.name, run.on(row).peak_bytes) for row, d in enumerate(run.recording.meta.devices)] == [
        ("cuda:0", 0),
        ("cuda:2", 8 * MB),
    ]


def test_mapped_memory_is_reserved_while_it_is_mapped(opened: Any) -> None:
    events = timed([event("segment_map", HEAP + 2 * MB, 20 * MB), event("segment_unmap", HEAP + 6 * MB, 20 * MB)])
    run = opened(snapshot([segment([block(HEAP, 2 * MB, "inactive")], is_expandable=True)], [events]))
    assert run.reserved.tolist() == [2 * MB, 22 * MB, 2 * MB]
    assert run.curve.tolist() == [0, 0, 0]


def test_free_memory_of_a_private_pool_is_its_own(opened: Any) -> None:
    private = segment([block(HEAP, 6 * MB, "inactive"), block(HEAP + 6 * MB, MB)], segment_pool_id=(0, 3))
    default = segment([block(HEAP + 50 * MB, 2 * MB, "inactive")])
    run = opened(snapshot([private, default], [[]]))
    pools = endstate.pools(run.recording, run.device_row)
    assert {pool: state.cached_bytes for pool, state in pools.items()} == {(0, 0): 2 * MB, (0, 3): 6 * MB}
    assert run.end_state.cached_bytes == 8 * MB


def test_an_oom_is_marked_and_in_no_curve(opened: Any) -> None:
    oom = {"action": "oom", "device_free": 3 * MB, "size": 500 * MB, "stream": 0, "frames": FRAMES}
    events = timed([alloc(HEAP, MB), oom, alloc(HEAP + 2 * MB, MB)])
    run = opened(snapshot([segment([block(HEAP, MB), block(HEAP + MB, MB), block(HEAP + 2 * MB, MB)])], [events]))
    assert run.peak_bytes == 3 * MB
    assert int(run.reserved.max()) == 3 * MB
    marks = run.recording.marks
    assert marks.kind.tolist() == [MarkKind.oom]
    assert (marks.event.tolist(), marks.value.tolist()) == ([1], [500e6])
    text = run.recording.strings[int(marks.text[0])]
    assert text == "out of memory: 500,000,000 bytes asked for, 3,000,000 bytes free on the device"


def test_unknown_actions_are_counted_and_the_rest_is_shown(opened: Any) -> None:
    odd = [{"action": "segment_teleport", "stream": 0}, event("warp", HEAP, 4)]
    run = opened(snapshot([segment([block(HEAP, MB)])], [timed([alloc(HEAP, MB), *odd, *odd])]))
    assert problem(run, "unknown_action").count == 4
    assert "segment_teleport, warp" in problem(run, "unknown_action").text
    assert run.peak_bytes == MB
    assert (run.events.action == Action.unknown).sum() == 4


def test_unknown_block_states_are_counted(opened: Any) -> None:
    run = opened(snapshot([segment([block(HEAP, MB), block(HEAP + MB, MB, "sleeping")])], [[]]))
    assert problem(run, "unknown_block_state").count == 1
    assert run.end_bytes == MB


def test_without_times_the_order_is_kept(opened: Any) -> None:
    run = opened(snapshot([segment([block(HEAP, MB, "inactive")])], [[alloc(HEAP, MB), *free(HEAP, MB)]]))
    assert run.curve.tolist() == [0, MB, MB, 0]
    assert "time" not in run.capabilities
    assert np.isnan(run.time_of(1))
    assert run.times is None
    assert "only their order" in problem(run, "no_time").text


def test_times_are_nanoseconds(opened: Any) -> None:
    events = [alloc(HEAP, MB, time_us=1_000_000), alloc(HEAP + MB, MB, time_us=1_500_000)]
    run = opened(snapshot([segment([block(HEAP, MB), block(HEAP + MB, MB)])], [events]))
    assert run.recording.events.time.tolist() == [10**9, 1_500_000_000]
    assert [run.time_of(p) for p in range(3)] == [0.0, 0.0, 0.5]
    assert run.times.tolist() == [0.0, 0.0, 0.5]


@pytest.mark.parametrize("traces", [[[]], [], [[], []]])
def test_a_file_without_events_shows_its_segments(opened: Any, traces: list[Any]) -> None:
    run = opened(snapshot([segment([block(HEAP, 6 * MB)])], traces))
    assert run.curve.tolist() == [6 * MB]
    assert "timeline" not in run.capabilities
    assert "only the state at the end" in problem(run, "no_timeline").text


def test_one_event_is_no_timeline(opened: Any) -> None:
    seen = [{"action": "snapshot", "addr": 0, "size": 7 * MB, "stream": 0}]
    run = opened(snapshot([segment([block(HEAP, 7 * MB)])], [seen]))
    assert "timeline" not in run.capabilities
    assert run.curve.tolist() == [7 * MB, 7 * MB]


def test_a_bare_list_of_segments_opens(opened: Any) -> None:
    run = opened([segment([block(HEAP, 6 * MB)], device=1)])
    assert (run.device.name, run.end_bytes) == ("cuda:1", 6 * MB)


def test_nothing_at_all_opens(opened: Any) -> None:
    run = opened(snapshot([], []))
    assert (run.device.name, run.recording.meta.devices) == ("no device", ())
    assert (run.peak_bytes, run.n_events, len(run.allocations)) == (0, 0, 0)
    assert run.coverage_at(0) == 1.0


def test_events_without_frames_are_one_group_and_the_reason_is_said(opened: Any) -> None:
    events = timed([alloc(HEAP, MB), alloc(HEAP + MB, 4 * MB, frames=[]), alloc(HEAP + 5 * MB, 2 * MB, frames=[])])
    blocks = [block(HEAP, MB), block(HEAP + MB, 4 * MB), block(HEAP + 5 * MB, 2 * MB)]
    run = opened(snapshot([segment(blocks)], [events]))
    grouping = run.grouping("frame")
    held = dict(zip(grouping.names, run.groups_at("frame", [3])[:, 0].tolist()))
    assert held == {"no stack (made outside Python, as the backward pass is)": 6 * MB, "model.py:54 forward": MB}
    assert grouping.neutral == {0}


def test_without_any_stack_the_reason_is_another(opened: Any) -> None:
    run = opened(snapshot([segment([block(HEAP, MB)])], [timed([alloc(HEAP, MB, frames=[])])]))
    assert run.grouping("frame").names == ("no stack (stacks were not recorded)",)


def test_the_cublas_workspace_is_a_row_of_its_own(opened: Any) -> None:
    workspace = 8_519_680
    events = timed([alloc(HEAP, MB), alloc(HEAP + MB, workspace), alloc(HEAP + 20 * MB, workspace)])
    events += timed(free(HEAP + 20 * MB, workspace))
    run = opened(snapshot([segment([block(HEAP, MB), block(HEAP + MB, workspace)])], [events]))
    assert run.categories_at(3) == {Category.workspace: workspace, Category.unattributed: MB + workspace}
    assert run.inferred_coverage_at(5) == pytest.approx(workspace / (workspace + MB))
    assert run.coverage_at(5) == 0.0


def test_other_workspaces_are_known_by_their_stack(opened: Any) -> None:
    frames = [
        {"name": "torch::unwind::unwind()", "filename": "??", "line": 0},
        {"name": "at::cuda::getNewWorkspace()", "filename": "??", "line": 0},
        {"name": "at::cuda::getCurrentCUDABlasHandle()", "filename": "??", "line": 0},
        *FRAMES,
    ]
    events = timed([alloc(HEAP, 33_554_432, frames=frames), alloc(HEAP + 40 * MB, MB)])
    blocks = [block(HEAP, 33_554_432), block(HEAP + 40 * MB, MB)]
    run = opened(snapshot([segment(blocks)], [events]))
    assert run.categories_at(2) == {Category.workspace: 33_554_432, Category.unattributed: MB}


def test_the_pool_id_and_kind_of_a_segment_are_read(opened: Any) -> None:
    own = segment([block(HEAP, MB)], segment_pool_id=(7, 3), segment_type="small", is_expandable=True, stream=2**64 - 1)
    segments = opened(snapshot([own], [[]])).recording.allocator_segments
    assert (segments.pool_owner[0], segments.pool_id[0]) == (7, 3)
    assert segments.is_small[0] and segments.is_expandable[0]
    assert segments.stream[0] == -1


def test_a_larger_size_later_on_was_there_all_along(opened: Any) -> None:
    """No allocator writes this, but the start stays the end minus the net of the trace, and nothing goes below zero."""
    events = timed([alloc(HEAP, 10), *free(HEAP, 12), alloc(HEAP + 64, 20)])
    run = opened(snapshot([segment([block(HEAP + 64, 25)])], [events]))
    assert run.curve.tolist() == [7, 17, 17, 5, 25]
    assert problem(run, "sizes_differ").count == 2


def test_a_trace_that_contradicts_the_blocks_says_so(opened: Any) -> None:
    run = opened(snapshot([segment([block(HEAP, MB, "inactive")])], [timed([alloc(HEAP, MB), alloc(HEAP, MB)])]))
    assert problem(run, "end_state_differs").count == 1
    assert problem(run, "lost_frees").count == 1
    assert run.curve.tolist() == [0, MB, MB]


def test_windows_and_library_paths_are_shortened_and_the_users_stay_whole(opened: Any) -> None:
    frames = [
        {"name": "f", "filename": "C:\\env\\lib\\python3\\site-packages\\torch\\nn\\functional.py", "line": 1},
        {"name": "g", "filename": "C:\\home\\user\\project\\train.py", "line": 2},
        {"name": "h", "filename": "<frozen runpy>", "line": 3},
    ]
    run = opened(snapshot([segment([block(HEAP, 1)])], [timed([alloc(HEAP, 1, frames=frames)])]))
    files = [file for _, file, _ in run.recording.stack_frames(int(run.allocations.stack[0]))]
    assert files == ["torch/nn/functional.py", "C:/home/user/project/train.py", "<frozen runpy>"]
    assert run.grouping("frame").names == ("train.py:2 g",)
