"""Groupings leave no allocation out; a query selects what it says."""

from __future__ import annotations

import numpy as np
import pytest

from memstrata.capture.format.schema import NONE, Category, Phase, StorageKind
from memstrata.viewer.model import stacks
from memstrata.viewer.model.grouping import GROUPINGS, ColourRule, available, preferred
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.run import Run

from .recordings import EMPTY, MALLOC, TORCH, USER, Step, two_layers

PROJECT = ("forward", "model.py", 7)
STDLIB = ("run", "threading.py", 982)
OTHER = ("forward", "transformers/models/llama/modeling_llama.py", 330)
KERNEL = ("/* generated */", "/tmp/torchinductor_user/ab/cab.py", 5)
NODE = ("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)", "??", 0)


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        ([MALLOC, TORCH, USER], "train.py:22 step"),
        ([MALLOC, OTHER, USER], "train.py:22 step"),
        ([MALLOC, KERNEL, TORCH, USER, STDLIB], "train.py:22 step"),
        ([MALLOC, TORCH, OTHER, TORCH], "modeling_llama.py:330 forward"),
        ([("aten::mm", "", 0), PROJECT, TORCH], "model.py:7 forward"),
        ([MALLOC, TORCH, STDLIB], "module.py:1790 _call_impl"),
        ([MALLOC, EMPTY, NODE], "MmBackward0 (autograd)"),
        ([MALLOC, EMPTY], "empty_strided (operator)"),
        ([MALLOC], "c10::cuda::CUDACachingAllocator::malloc"),
        ([("f", "C:/Users/me/train.py", 3), TORCH], "train.py:3 f"),
        ([("f", "<frozen runpy>", 3)], "<frozen runpy>:3 f"),
    ],
)
def test_the_frame_that_stands_for_a_stack(stack: list[tuple[str, str, int]], name: str) -> None:
    step = Step()
    step.alloc(512, 8, 1, stack=step.frames(*stack))
    assert step.run().grouping("frame").names == (name,)


def test_deep_stacks_are_searched_whole() -> None:
    step = Step()
    deep = [MALLOC, *((f"f{i}", "torch/deep.py", i + 1) for i in range(300)), USER]
    step.alloc(512, 8, 1, stack=step.frames(*deep))
    assert step.run().grouping("frame").names == ("train.py:22 step",)
    assert stacks.mentions(step.recording(), "f29[0-9]$").sum() == 11 + 290


def run_of_everything() -> Run:
    step = two_layers()
    user = step.frames(TORCH, USER)
    step.blocks = [(512, 100)]
    step.known(StorageKind.parameter, 512, 100, start=0, module="layers.1.up")
    step.alloc(1024, 40, 250, stack=user, stream=7)
    step.saved(1024, 40, 260, module="layers.0.up")
    step.alloc(2048, 30, 2500)
    step.free(2048, 30, 2600)
    step.alloc(4096, 20, 5500)
    step.alloc(8192, 10, 9000)
    step.blocks += [(1024, 40), (4096, 20), (8192, 10)]
    return step.run()


def test_backward_without_stacks_is_grouped_by_phase_and_layer() -> None:
    run = run_of_everything()
    held = dict(zip(run.grouping("frame").names, run.groups_at("frame", [5])[:, 0].tolist()))
    assert held == {
        "no stack (older than the recording)": 100,
        "train.py:22 step": 40,
        "no stack (backward of layers.1)": 20,
        "no stack (optimizer)": 10,
        "no stack (forward)": 0,
    }
    by_size = run.groups_at("frame", [run.peak_position])[:, 0].tolist()
    assert by_size == sorted(by_size, reverse=True)


def test_every_grouping_covers_every_allocation() -> None:
    run = run_of_everything()
    missing = {"op"}  # its stacks name no operator
    assert available(run) == [k for k, spec in GROUPINGS.items() if "(inferred)" not in spec.title and k not in missing]
    for key in GROUPINGS:
        grouping = run.grouping(key)
        assert grouping.key == key
        assert len(grouping.labels) == len(run.allocations)
        assert ((grouping.labels >= 0) & (grouping.labels < len(grouping))).all()
        assert grouping is run.grouping(key)
    assert run.grouping("layer").names == ("layers.0", "layers.1", "outside layers")
    assert run.grouping("layer").neutral == {2}
    assert run.grouping("stream").names == ("default stream", "stream 0x7")
    assert run.grouping("phase").names[-1] == "before the recording"
    assert run.grouping("category").colour is ColourRule.CATEGORY
    with pytest.raises(KeyError):
        run.grouping("nonsense")


def test_what_is_offered_follows_from_the_file() -> None:
    step = Step()
    step.alloc(512, 8, 1, stack=step.frames(USER))
    assert available(step.run()) == ["category", "frame", "root", "stream"]
    assert preferred(step.run()) == "frame"
    assert preferred(run_of_everything()) == "category"
    assert preferred(Step().run()) == "category"


def test_the_small_groups_become_one() -> None:
    run = run_of_everything()
    grouping = run.grouping("frame")
    sums = run.groups_at("frame", [5])[:, 0]
    folded = grouping.largest(sums, 2)
    assert folded.names == ("no stack (older than the recording)", "train.py:22 step", "other (3)")
    assert folded.neutral == {0, 2}
    assert grouping.largest(sums, 5) is grouping


def test_a_query_restricts_by_everything_it_names() -> None:
    run = run_of_everything()

    def sizes(**conditions: object) -> list[int]:
        query = AllocationQuery(**conditions)  # type: ignore[arg-type]
        rows = query.select(run)
        assert query.bytes(run) == run.allocations.bytes[rows].sum()
        return run.allocations.bytes[rows].tolist()

    assert sizes() == [100, 40, 30, 20, 10]
    assert sizes(position=2) == [100, 40, 30]
    assert sizes(position=5) == [100, 40, 20, 10]
    assert sizes(position=5, category=Category.parameter) == [100]
    assert sizes(categories=frozenset({Category.parameter, Category.activation})) == [100, 40]
    assert sizes(layer=0) == [40]
    assert sizes(layer=NONE) == [30, 10]
    assert sizes(super_block=1) == [100, 20]
    assert sizes(phase=Phase.backward) == [20]
    assert sizes(before=True) == [100]
    assert sizes(before=False, position=5) == [40, 20, 10]
    assert sizes(born=(0, 2)) == [40, 30]
    assert sizes(group=("category", int(Category.activation))) == [40]
    assert hash(AllocationQuery(position=5, group=("frame", 1))) == hash(AllocationQuery(5, group=("frame", 1)))


def test_equal_sizes_come_in_the_order_they_were_made() -> None:
    step = Step()
    for i in range(5):
        step.alloc(512 * (i + 1), 8, i)
    assert AllocationQuery().select(step.run()).tolist() == [0, 1, 2, 3, 4]


def test_groups_at_any_positions_sum_to_the_curve() -> None:
    run = run_of_everything()
    where = [5, 0, 3, 3, 1]
    for key in available(run):
        assert np.array_equal(run.groups_at(key, where).sum(axis=0), run.curve[where])
