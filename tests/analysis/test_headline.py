"""The three lines of the answer, and the allocations behind each number."""

import dataclasses
import re

import numpy as np
import pytest

from memstrata.capture.format.schema import Action, Phase, Spans, columns_of
from memstrata.viewer.analysis.headline import headline
from memstrata.viewer.analysis.shape import shape_of
from memstrata.viewer.analysis.what_if import estimate
from memstrata.viewer.look.units import bytes_text
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

SAMPLES = ["before", "after", "uniform", "uniform-checkpointed", "encoder-decoder", "irregular", "raised", "format-1"]


def texts(run):
    return [line.text for line in headline(run)]


def test_before(run_of):
    peak, residual, checkpoint = texts(run_of("before.mstrata"))
    assert peak == (
        "Peak 751 MiB in backward of super-block 2 (layers 8-11); activations up to 633 MiB, shapes say 414 MiB"
    )
    assert residual.startswith(
        "+219 MiB against shapes: tensors in mixer (LinearAttention) +127 MiB, silu outputs in mlp"
    )
    assert residual.endswith("(closes exactly)")
    assert re.fullmatch(
        r"Checkpoint per super-block: peak \d+ MiB, 5\d\.\d% less, \+[\d.]+ m?s per step \(estimate\)", checkpoint
    )


def test_after(run_of):
    peak, _, checkpoint = texts(run_of("after.mstrata"))
    assert "activations up to 212 MiB, shapes say 142 MiB" in peak
    assert checkpoint == (
        "Checkpointed in 3 segments: 619 MiB dropped after forward; by shapes 272 MiB less at the activation peak"
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_every_recording_has_three_lines_with_no_decimal_megabytes(run_of, name):
    lines = texts(run_of(f"{name}.mstrata"))
    assert len(lines) == 3
    assert all(lines)
    assert not any(re.search(r"\d [KMGT]B\b", line) for line in lines)


@pytest.mark.parametrize("name", SAMPLES)
def test_numbers_that_stand_for_allocations_are_their_query(run_of, name):
    run = run_of(f"{name}.mstrata")
    peak, _, _ = headline(run)
    shown = [part for part in peak.parts if part.query is not None]
    assert shown
    for part in shown:
        assert part.text.endswith(bytes_text(part.query.bytes(run)))


def test_a_snapshot_names_its_largest_users(snapshot_file):
    run = Run(open_file(snapshot_file), name=snapshot_file.name)
    peak, largest, hint = headline(run)
    what = "Peak" if "timeline" in run.capabilities else "Active"  # of a state alone no peak is known
    assert peak.text.startswith(f"{what} {bytes_text(run.peak_bytes)}")
    assert "@record_step" in hint.text
    for part in largest.parts:
        if part.query is not None:
            assert part.text.endswith(bytes_text(part.query.bytes(run)))


def test_a_plan_that_gains_nothing_is_said(run_of):
    run = run_of("after.mstrata")
    whole = (tuple(f"layers.{i}" for i in range(12)),)
    planned = Run(run.recording.replace_meta(plan=whole), name="whole")
    assert "gains nothing" in texts(planned)[2]


def test_why_there_is_no_prediction(run_of, tree):
    run = run_of("before.mstrata")
    assert "batch" in texts(Run(run.recording.replace_meta(batch=None), name="x"))[2]
    tree.add("", "Net")
    assert "knows no layers" in texts(Run(tree.recording([], batch=1), name="x"))[2]


def test_no_prediction_of_a_compiled_model(tree):
    tree.add("", "OptimizedModule").add("_orig_mod", "Sequential").linear("_orig_mod.0", 8, 8, listed=True)
    run = Run(tree.recording([["_orig_mod.0"]], batch=1, sequence=1), name="x")
    assert texts(run)[2] == "No prediction: the model is compiled, and shapes count what eager mode keeps."


def test_the_estimate_comes_close_to_what_checkpointing_then_did(run_of):
    before, after = run_of("before.mstrata"), run_of("after.mstrata")
    shape = shape_of(before)
    guess = estimate(before, shape, shape.per_super_block())
    assert guess.peak_bytes == pytest.approx(after.peak_bytes, rel=0.05)
    assert guess.activation_peak_bytes == pytest.approx(after.activation_curve.max(), rel=0.05)
    assert guess.extra_seconds > 0


def test_an_estimate_without_segments_is_the_measurement(run_of):
    before = run_of("before.mstrata")
    shape = shape_of(before)
    everything_at_once = estimate(before, shape, shape.every(12))
    assert everything_at_once.peak_bytes >= before.peak_bytes


def test_no_estimate_over_a_run_that_recomputed(run_of):
    after = run_of("after.mstrata")
    shape = shape_of(after)
    assert estimate(after, shape, shape.every(2)) is None


def test_no_estimate_without_a_backward(run_of):
    spans = run_of("before.mstrata").recording.spans
    forward = np.flatnonzero(spans.phase == Phase.forward)
    cut = Spans(**{f.name: getattr(spans, f.name)[forward] for f in columns_of(Spans)})
    run = Run(dataclasses.replace(run_of("before.mstrata").recording, spans=cut), name="x")
    assert texts(run)[2] == "No backward was recorded, so what checkpointing would do cannot be estimated."


def test_what_is_offloaded_or_not_counted_is_said(run_of):
    peak, _, _ = texts(run_of("irregular.mstrata"))
    assert "activations up to 0 B and 8.11 MiB offloaded, shapes say 3.00 MiB without Conv1d" in peak


def test_the_estimate_of_a_step_that_raised_is_of_a_part(run_of):
    assert texts(run_of("raised.mstrata"))[2].endswith("(estimate for the part of the step that ran)")


def test_items_in_a_list_are_named_with_their_class(run_of):
    assert "gelu outputs in 3 (GELU) +4.00 MiB" in texts(run_of("uniform.mstrata"))[1]


def test_a_run_that_ran_out_of_memory_says_so_first(snapshots):
    run = Run(open_file(snapshots / "torch28-oom-three-gpus-expandable.pickle"), name="oom.pickle").on(1)
    peak = headline(run)[0]
    assert peak.text == "Peak 78.3 GiB in forward (inferred); out of memory when 4.94 GiB more was asked for"
    asked = next(part for part in peak.parts if "more" in part.text)
    row = int(np.flatnonzero(run.events.action == Action.oom)[0])
    assert asked.bytes == int(run.events.bytes[row]) and asked.query.position == row + 1
    assert "out of memory" not in headline(run.on(0))[0].text


def test_of_several_requests_that_failed_the_largest_is_said(snapshots):
    recording = open_file(snapshots / "torch28-oom-three-gpus-expandable.pickle")
    action, size = recording.events.action.copy(), recording.events.bytes.copy()
    first = int(np.flatnonzero((action == Action.segment_map) & (recording.events.device == 1))[0])
    action[first], size[first] = Action.oom, 7 << 30
    events = dataclasses.replace(recording.events, action=action, bytes=size)
    run = Run(dataclasses.replace(recording, events=events), name="twice").on(1)
    assert headline(run)[0].text.endswith("; out of memory 2 times, when up to 7.00 GiB more was asked for")
