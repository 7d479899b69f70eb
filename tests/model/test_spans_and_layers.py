"""Spans as positions, the ribbon of phases, layers and super-blocks."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import NONE, Category, Phase

from .recordings import Step, two_layers


def with_events(step: Step, *times: int) -> Step:
    for number, time in enumerate(times):
        step.alloc(512 * (number + 1), 1, time)
    return step


def test_the_ribbon_covers_every_position_without_gaps() -> None:
    run = with_events(two_layers(), 50, 150, 4500, 6200, 6300, 7000, 9000, 11_000).run()
    assert run.spans.phases() == [
        (Phase.forward, 0, 2),
        (Phase.backward, 2, 3),
        (Phase.recompute, 3, 5),
        (Phase.backward, 5, 6),
        (Phase.optimizer, 6, 7),
        (Phase.other, 7, 8),
    ]
    assert run.spans.step() == (0, 7)


def test_a_span_leads_from_the_position_before_it_to_the_one_after() -> None:
    run = with_events(two_layers(), 50, 150, 250, 950, 1050).run()
    spans = run.spans
    inner = next(i for i in range(len(spans)) if spans.module[i] == 3)  # layers.0.up
    around = next(i for i in range(len(spans)) if spans.module[i] == 2)  # layers.0
    assert (spans.start_position[inner], spans.end_position[inner]) == (2, 3)
    assert (spans.start_position[around], spans.end_position[around]) == (1, 4)
    assert [int(spans.module[i]) for i in spans.at(3)] == [NONE, 2, 3]
    assert [int(spans.module[i]) for i in spans.at(5)] == [NONE]
    assert spans.at(0).tolist() == []


def test_events_of_the_tick_in_which_a_span_begins_belong_to_it() -> None:
    step = Step()
    step.module("", "Model")
    step.span(Phase.forward, 1500, 3200)
    run = with_events(step, 1000, 2000, 3000, 4000).run()
    assert (run.spans.start_position.tolist(), run.spans.end_position.tolist()) == ([0], [3])


def test_without_times_or_spans_there_is_no_ribbon() -> None:
    assert with_events(Step(), 1, 2).run().spans.phases() == []
    run = with_events(two_layers(), -1, -1).run(has_time=False)
    assert run.spans.innermost().tolist() == [NONE, NONE]
    assert run.attribution.category.tolist() == [Category.unattributed] * 2


def test_super_blocks_are_found_by_kind_and_named_by_layer() -> None:
    step = Step()
    step.module("", "Model")
    for i in range(8):
        step.layer(f"layers.{i}", "Full" if i % 4 == 3 else "Linear")
    step.module("layers.2.up")
    run = step.run()
    assert run.layers.super_block_names == ("super-block 0 (layers 0-3)", "super-block 1 (layers 4-7)")
    assert run.layers.super_block_of_layer.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert run.layers.names[2] == "layers.2"
    assert run.layers.layer_of(np.array([NONE, 0, step.modules["layers.2.up"]], np.int32)).tolist() == [NONE, NONE, 2]
    assert len(step.run(super_block_override=2).layers.super_blocks) == 4


def test_two_layer_lists_are_named_apart() -> None:
    step = Step()
    step.module("", "Model")
    for i in range(2):
        step.layer(f"encoder.blocks.{i}", layer_list=0)
    for i in range(3):
        step.layer(f"decoder.blocks.{i}", layer_list=1)
    blocks = step.run(super_block_override=2).layers
    assert blocks.super_block_names == (
        "encoder.blocks super-block 0 (layers 0-1)",
        "decoder.blocks super-block 0 (layers 0-1)",
        "decoder.blocks.2",
    )
    assert blocks.super_block_of_layer.tolist() == [0, 0, 1, 1, 2]
    assert [(b.start, b.stop, b.list) for b in blocks.super_blocks] == [(0, 2, 0), (2, 4, 1), (4, 5, 1)]


def test_a_file_without_layers_has_an_empty_tree() -> None:
    run = with_events(Step(), 1).run()
    assert (len(run.layers), run.layers.super_blocks) == (0, ())
    assert run.layers.layer_of(np.array([NONE], np.int32)).tolist() == [NONE]
    assert run.layers.super_block_of(np.array([NONE], np.int32)).tolist() == [NONE]
