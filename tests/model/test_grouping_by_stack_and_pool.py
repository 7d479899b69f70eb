"""Groupings by the ends of a stack, by operator, and by the pool of the allocator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstrata.capture.format import schema
from memstrata.capture.format.schema import NONE, Action
from memstrata.viewer.model import endstate, stacks
from memstrata.viewer.model.bands import bands_of
from memstrata.viewer.model.grouping import available
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .recordings import EMPTY, MALLOC, TORCH, USER, Step

MAIN = ("<module>", "/home/user/train.py", 80)
RUNPY = ("_run_code", "<frozen runpy>", 88)
START = ("_start", "??", 0)
MM = ("at::_ops::mm::call(at::Tensor const&)", "", 0)


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        ([MALLOC, TORCH, USER, TORCH, MAIN, RUNPY, START], "train.py:80 <module>"),
        ([MALLOC, TORCH, USER], "train.py:22 step"),
        ([MALLOC, TORCH, RUNPY], "<frozen runpy>:88 _run_code"),
        ([MALLOC, MM, START], "_start"),
        ([MALLOC], "c10::cuda::CUDACachingAllocator::malloc"),
    ],
)
def test_the_outermost_frame_of_the_users_code_is_the_root(stack: list[tuple[str, str, int]], name: str) -> None:
    step = Step()
    step.alloc(512, 8, 1, stack=step.frames(*stack))
    assert step.run().grouping("root").names == (name,)


@given(st.lists(st.tuples(st.integers(-1, 20), st.booleans()), min_size=1, max_size=20))
def test_the_outermost_of_any_tree_is_that_of_a_walk_to_the_root(tree: list[tuple[int, bool]]) -> None:
    parent = np.array([min(up, row - 1) for row, (up, _) in enumerate(tree)], np.int32)
    wanted = np.array([mark for _, mark in tree], np.bool_)
    slow = []
    for row in range(len(tree)):
        last, at = NONE, row
        while at != NONE:
            last = at if wanted[at] else last
            at = int(parent[at])
        slow.append(last)
    assert stacks.outermost(parent, wanted).tolist() == slow


def test_a_recording_is_cut_by_the_operators_on_its_stacks() -> None:
    step = Step()
    step.alloc(512, 100, 1, stack=step.frames(MALLOC, EMPTY, MM, USER))
    step.alloc(1024, 10, 2, stack=step.frames(MALLOC, USER))
    step.alloc(2048, 1, 3, stack=step.frames(MALLOC, EMPTY, USER))
    run = step.run()
    assert available(run) == ["category", "frame", "root", "op", "stream"]
    held = dict(zip(run.grouping("op").names, run.groups_at("op", [3])[:, 0].tolist()))
    assert held == {"mm (operator)": 100, "no operator on the stack": 10, "empty_strided (operator)": 1}


def test_a_real_step_is_cut_by_every_fact_it_has(samples: Path) -> None:
    run = Run(open_file(samples / "before.mstrata"))
    where = np.array([0, run.peak_position, run.n_events])
    for key in ("op", "root", "stream"):
        assert key in available(run)
        assert np.array_equal(bands_of(run, key).bytes_at(where).sum(axis=0), run.curve[where])
    assert "pool" not in available(run)  # the CPU has no pools
    assert "aten::mm" in run.grouping("op").names
    assert any(name.endswith("<module>") for name in run.grouping("root").names)


Segments = list[tuple[int, int, int, int, bool, bool]]
"""(address, bytes, pool owner, pool id, is small, is expandable)"""


def pooled(step: Step, segments: Segments) -> Run:
    step.blocks = [(1, 1)]  # replaced below: an allocator that reports its end state
    recording = step.recording()
    rows = [
        (0, a, size, 0, 0, 0, owner, number, small, grows, NONE) for a, size, owner, number, small, grows in segments
    ]
    tables = {"allocator_segments": schema.from_rows(schema.AllocatorSegments, rows)}
    none = {"blocks": schema.from_rows(schema.Blocks, [])}
    return Run(type(recording)(**{**vars(recording), **tables, **none}))


def test_a_pool_is_known_by_the_segment_that_holds_the_address() -> None:
    step = Step()
    step.alloc(1000, 8, 1)
    step.alloc(5000, 16, 2)
    step.alloc(9999, 32, 3)  # in no segment at the end
    step.alloc(7000, 64, 4)
    run = pooled(step, [(900, 200, 0, 0, True, False), (5000, 100, 0, 3, False, False), (7000, 64, 0, 3, False, True)])
    grouping = run.grouping("pool")
    assert grouping.names == (
        "default pool, small", "private pool (0, 3), large", "not known (its allocator segment is gone)"
    )  # fmt: skip
    assert run.groups_at("pool", [4])[:, 0].tolist() == [8, 16 + 64, 32] and grouping.neutral == {2}


@pytest.mark.parametrize(("grows", "pool"), [(False, NONE), (True, 0)])
def test_what_lived_before_its_segment_was_made_again_is_of_no_known_pool(grows: bool, pool: int) -> None:
    step = Step()
    step.alloc(1000, 8, 1)
    step.free(1000, 8, 2)
    step.events.append((Action.segment_alloc, 0, 900, 200, 3, NONE, 0, NONE, NONE, NONE))
    step.alloc(1000, 16, 4)
    run = pooled(step, [(900, 200, 0, 3, False, grows)])
    labels = run.grouping("pool").labels
    assert labels.tolist() == [1 if pool == NONE else 0, 0]


def test_the_pools_of_a_real_file_hold_what_its_segments_say(snapshots: Path) -> None:
    run = Run(open_file(snapshots / "torch26-three-pools-no-trace.pickle"))
    held = dict(zip(run.grouping("pool").names, run.groups_at("pool", [run.n_events])[:, 0].tolist()))
    assert held.pop("not known (its allocator segment is gone)") == 0
    states = endstate.pools(run.recording, run.device_row)
    for (owner, number), state in states.items():
        pool = f"private pool ({owner}, {number})," if number else "default pool,"
        assert sum(size for name, size in held.items() if name.startswith(pool)) == state.active_bytes > 0
    assert sum(held.values()) == run.end_bytes


def test_every_grouping_of_every_real_file_sums_to_its_curve(snapshot_file: Path) -> None:
    run = Run(open_file(snapshot_file))
    where = np.linspace(0, run.n_events, 7).astype(np.int64)
    mine = run.recording.allocator_segments.device == run.device_row
    assert "stream" in available(run) and ("pool" in available(run)) == mine.any()
    for key in available(run):
        assert np.array_equal(run.groups_at(key, where).sum(axis=0), run.curve[where]), key
        assert np.array_equal(bands_of(run, key).bytes_at(where).sum(axis=0), run.curve[where]), key
