"""What makes a comparison doubtful is said."""

import dataclasses

import numpy as np
import pytest

from memstrata.capture.format.plan import Plan
from memstrata.capture.format.schema import KnownStorages, Phase, Severity, Spans, StorageKind, columns_of, empty
from memstrata.viewer.analysis.opened import runs_of_files
from memstrata.viewer.analysis.warnings import warnings_of
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file


def changed(run, **meta):
    return Run(run.recording.replace_meta(**meta), name=run.name)


@pytest.fixture
def before(run_of):
    return run_of("before.mstrata")


@pytest.fixture
def after(run_of):
    return run_of("after.mstrata")


def codes(a, b):
    return [warning.code for warning in warnings_of(a, b)]


def test_a_sound_comparison_has_no_warning(before, after):
    assert [w for w in warnings_of(before, after) if w.severity > Severity.info] == []


def test_an_after_run_that_never_checkpointed_is_said_first(before, after):
    found = warnings_of(after, before)
    assert found[0].code == "never_checkpointed"
    assert found[0].text == ("before.mstrata never checkpointed: no checkpoint ran in it, and nothing was recomputed.")


def test_a_file_against_itself_is_said_and_nothing_else(samples, before, after):
    again = Run(open_file(samples / "before.mstrata"), name="copy.mstrata")
    assert again.recording is not before.recording
    found = warnings_of(before, again)[0]
    assert (found.code, found.severity) == ("same_recording", Severity.info)
    assert "never_checkpointed" not in codes(before, again)
    assert found.text == "before.mstrata and copy.mstrata are the same recording: nothing can differ."
    assert "compared with itself" in warnings_of(before, before)[0].text
    twice = runs_of_files([str(samples / "before.mstrata")] * 2)
    assert "compared with itself" in warnings_of(*twice)[0].text
    assert "same_recording" not in codes(before, after)


def test_a_plan_without_effect_is_said(before):
    planned = changed(before, plan=(("layers.0",),))
    assert warnings_of(before, planned)[0].text.startswith("before.mstrata has a checkpoint plan, but nothing")


def test_losses_that_differ(before, after):
    loss = before.recording.meta.loss
    assert "loss_differs" in codes(before, changed(after, loss=loss * 1.001))
    assert "loss_differs" not in codes(before, changed(after, loss=loss * (1 + 1e-7)))
    assert "loss_differs" not in codes(before, changed(after, loss=None))


def test_optimizer_state_in_one_run_only(before, after):
    bare = Run(dataclasses.replace(after.recording, known_storages=empty(KnownStorages)), name="first.mstrata")
    warning = next(w for w in warnings_of(before, bare) if w.code == "optimizer_state_in_one_run")
    assert warning.text.startswith("Only before.mstrata holds optimizer state when its step begins: first.mstrata was")
    assert "optimizer_state_in_one_run" in codes(bare, after)


def test_optimizer_state_made_inside_the_recorded_step_counts_as_missing(after):
    known, events = after.recording.known_storages, after.recording.events
    lazy = known.kind == StorageKind.optimizer_state
    late = dataclasses.replace(  # the state is what the first event of the step allocated
        known,
        address=np.where(lazy, events.address[0], known.address),
        start_time=np.where(lazy, events.time[0] + 1, known.start_time),
    )
    first = Run(dataclasses.replace(after.recording, known_storages=late), name="first.mstrata")
    assert "optimizer_state_in_one_run" in codes(first, after)


def test_a_snapshot_against_a_recording(snapshots, after):
    plain = Run(open_file(snapshots / "torch24-linear-grad.pickle"), name="plain.pickle")
    assert codes(plain, after)[0] == "snapshot_in_one"
    assert not {"different_circumstances", "optimizer_state_in_one_run"} & set(codes(plain, after))


def test_a_step_that_raised_or_ran_no_backward(run_of, before):
    raised = run_of("raised.mstrata")
    warning = warnings_of(before, raised)[0]
    assert warning.text == "The step of raised.mstrata raised an exception, so only a part of it was recorded."
    spans = before.recording.spans
    forward = np.flatnonzero(spans.phase == Phase.forward)
    cut = {f.name: getattr(spans, f.name)[forward] for f in columns_of(Spans)}
    half = Run(dataclasses.replace(before.recording, spans=Spans(**cut)), name="half.mstrata")
    assert warnings_of(half, before)[0].text == "half.mstrata ran no backward."


def test_a_plan_that_gains_nothing_is_not_blamed_on_its_last_segment(before, after):
    leaves = tuple((f"layers.{i}.mlp.down",) for i in range(12))
    found = codes(before, changed(after, plan=leaves))
    assert not {"plan_gains_nothing", "last_segment_recomputed"} <= set(found)


def test_other_versions_and_shapes(before, after):
    other = changed(after, torch_version="2.4.0", shapes={"args[0]": [8, 512]}, batch=8)
    warning = next(w for w in warnings_of(before, other) if w.code == "different_circumstances")
    assert warning.text == (
        "The runs differ in torch version, batch and input shapes, so not only checkpointing separates them."
    )


def test_batch_norm_inside_a_segment(tree):
    tree.add("", "Net").add("0", "Block", listed=True).linear("0.lin", 8, 8)
    tree.add("0.bn", "BatchNorm1d", weight=(8,)).add("1", "Block", listed=True).add("1.bn", "BatchNorm1d", weight=(8,))
    recording = tree.recording([["0", "1"]], batch=4, sequence=1, plan=(("0",),))
    run = Run(recording, name="after.mstrata")
    warning = next(w for w in warnings_of(run, run) if w.code == "batch_norm_in_segment")
    assert warning.count == 1
    assert "first 0.bn" in warning.text
    unplanned = Run(recording.replace_meta(plan=None), name="after.mstrata")
    assert "batch_norm_in_segment" not in codes(run, unplanned)


def test_plans_that_gain_nothing(before, after):
    whole = tuple(f"layers.{i}" for i in range(12))
    assert "plan_gains_nothing" in codes(before, changed(after, plan=(whole,)))
    assert "plan_gains_nothing" not in codes(before, after)


def test_recomputing_the_last_segment_is_waste(before, after):
    assert "last_segment_recomputed" in codes(before, after)
    shorter = after.recording.meta.plan[:-1]
    assert "last_segment_recomputed" not in codes(before, changed(after, plan=shorter))


def test_a_compiled_model(tree):
    tree.add("", "OptimizedModule").add("_orig_mod", "Sequential").linear("_orig_mod.0", 8, 8, listed=True)
    run = Run(tree.recording([["_orig_mod.0"]], batch=4, sequence=1), name="a")
    assert "compiled" in codes(run, run)


def test_every_sentence_is_one(before, after):
    other = changed(after, torch_version="2.4.0", loss=1.0, plan=Plan.every(["layers.0", "layers.1"], 1).segments)
    for warning in warnings_of(before, other):
        assert warning.text.endswith(".")
        assert "\n" not in warning.text
