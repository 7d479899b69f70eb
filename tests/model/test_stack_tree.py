"""The tree of stacks against sums taken stack by stack."""

import itertools
from collections import Counter

import numpy as np
import pytest

from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.run import Run
from memstrata.viewer.model.stack_tree import NO_STACK, stack_tree
from memstrata.viewer.model.stacks import own_frames
from memstrata.viewer.sources import open_file


def slow(run, rows, bottom_up):
    """Bytes of every prefix of every stack."""
    sums, own = Counter(), Counter()
    table = run.recording.stacks
    for row in rows.tolist():
        stack, frames = int(run.allocations.stack[row]), []
        while stack >= 0:
            frames.append(int(table.frame[stack]))
            stack = int(table.parent[stack])
        path = tuple(frames if bottom_up else frames[::-1]) or (NO_STACK,)
        for length in range(1, len(path) + 1):
            sums[path[:length]] += int(run.allocations.bytes[row])
        own[path] += int(run.allocations.bytes[row])
    return sums, own


def paths_of(tree):
    paths = []
    for node in range(len(tree)):
        above = paths[tree.parent[node]] if tree.parent[node] >= 0 else ()
        paths.append((*above, int(tree.frame[node])))
    return paths


def check(run, rows, bottom_up):
    tree = stack_tree(run, rows, bottom_up)
    sums, own = slow(run, rows, bottom_up)
    paths = paths_of(tree)
    assert dict(zip(paths, tree.bytes.tolist(), strict=True)) == dict(sums)
    assert {p: b for p, b in zip(paths, tree.own_bytes.tolist(), strict=True) if b} == {
        p: b for p, b in own.items() if b
    }
    assert tree.total_bytes == int(run.allocations.bytes[rows].sum())
    assert int(tree.count[tree.parent == -1].sum()) == len(rows)
    return tree


@pytest.mark.parametrize("bottom_up", [False, True])
@pytest.mark.parametrize("name", ["before", "after", "encoder-decoder"])
def test_recordings_at_their_peak(samples, name, bottom_up):
    run = Run(open_file(str(samples / f"{name}.mstrata")))
    check(run, AllocationQuery(position=run.peak_position).select(run), bottom_up)


@pytest.mark.parametrize("bottom_up", [False, True])
def test_every_snapshot_at_its_peak(snapshot_file, bottom_up):
    run = Run(open_file(str(snapshot_file)))
    check(run, AllocationQuery(position=run.peak_position).select(run), bottom_up)


@pytest.mark.parametrize("bottom_up", [False, True])
def test_nodes_are_an_icicle_as_they_are(samples, bottom_up):
    run = Run(open_file(str(samples / "before.mstrata")))
    tree = stack_tree(run, np.arange(len(run.allocations)), bottom_up)
    end = tree.offset + tree.bytes
    inside = tree.parent >= 0
    assert (tree.offset[inside] >= tree.offset[tree.parent[inside]]).all()
    assert (end[inside] <= end[tree.parent[inside]]).all()
    for node in [-1, *np.flatnonzero(tree.bytes > tree.total_bytes // 50).tolist()]:
        children = tree.children(node)
        assert (np.diff(tree.bytes[children]) <= 0).all()
        assert np.array_equal(tree.offset[children][1:], end[children][:-1])


def test_the_heaviest_path_goes_down_to_where_the_bytes_are(samples):
    run = Run(open_file(str(samples / "before.mstrata")))
    tree = stack_tree(run, AllocationQuery(position=run.peak_position).select(run))
    path = tree.heaviest_path()
    assert tree.parent[path[0]] == -1
    assert all(tree.parent[b] == a for a, b in itertools.pairwise(path))
    assert all(tree.bytes[node] == tree.bytes[tree.children(tree.parent[node])].max() for node in path)


def test_nothing_selected_is_an_empty_tree(samples):
    run = Run(open_file(str(samples / "before.mstrata")))
    tree = stack_tree(run, np.empty(0, np.int64))
    assert len(tree) == 0 and tree.total_bytes == 0 and tree.heaviest_path() == []


@pytest.mark.parametrize("bottom_up", [False, True])
def test_only_some_frames_leaves_whole_the_stacks_without_any(samples, bottom_up):
    run = Run(open_file(str(samples / "before.mstrata")))
    own = own_frames(run.recording)
    rows = AllocationQuery(position=run.peak_position).select(run)
    tree = stack_tree(run, rows, bottom_up, own)
    assert tree.total_bytes == run.peak_bytes
    told = Counter()
    for row in rows.tolist():
        frames, stack = [], int(run.allocations.stack[row])
        while stack >= 0:
            frames.append(int(run.recording.stacks.frame[stack]))
            stack = int(run.recording.stacks.parent[stack])
        kept = [frame for frame in frames if own[frame]] or frames or [NO_STACK]
        told[kept[0] if bottom_up else kept[-1]] += int(run.allocations.bytes[row])
    tops = tree.children(-1)
    assert dict(zip(tree.frame[tops].tolist(), tree.bytes[tops].tolist(), strict=True)) == dict(told)
    below = np.flatnonzero(tree.parent >= 0)
    mixed = own[tree.frame[below]] != own[tree.frame[tree.parent[below]]]
    assert not mixed.any()
