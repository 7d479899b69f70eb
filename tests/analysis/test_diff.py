"""Two recordings of one step, without and with a checkpoint per super-block."""

import dataclasses

import pytest

from memstrata.capture.format import schema
from memstrata.capture.format.schema import Phase
from memstrata.viewer.analysis.comparison import comparison_headline
from memstrata.viewer.analysis.diff import Diff
from memstrata.viewer.analysis.structure import slots
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file


@pytest.fixture
def diff(run_of):
    return Diff(run_of("before.mstrata"), run_of("after.mstrata"))


def test_categories_close_exactly(diff):
    assert sum(row.a_bytes for row in diff.by_category) == diff.a.peak_bytes
    assert sum(row.b_bytes for row in diff.by_category) == diff.b.peak_bytes
    assert sum(row.difference_bytes for row in diff.by_category) == diff.peak_difference_bytes < 0


def test_super_blocks_and_what_is_outside_close_exactly(diff):
    assert [row.label for row in diff.by_super_block] == [
        "super-block 0 (layers 0-3)",
        "super-block 1 (layers 4-7)",
        "super-block 2 (layers 8-11)",
        "outside layers",
    ]
    assert sum(row.difference_bytes for row in diff.by_super_block) == diff.peak_difference_bytes


@pytest.mark.parametrize("rows", ["by_category", "by_super_block"])
def test_every_number_is_its_query(diff, rows):
    for row in getattr(diff, rows):
        assert row.a_query.bytes(diff.a) == row.a_bytes
        assert row.b_query.bytes(diff.b) == row.b_bytes


def test_savings(diff):
    assert diff.achieved_saving_bytes == diff.a.activation_curve.max() - diff.b.activation_curve.max() > 0
    assert diff.achieved_peak_drop_bytes == diff.a.peak_bytes - diff.b.peak_bytes > 0
    shape = diff.shapes[0]
    layer = sum(layer.bytes(shape.tokens) for layer in shape.layers)
    segment = sum(layer.bytes(shape.tokens) for layer in shape.layers[:4])
    behind = 2048 * (256 * 4 + 256 * 4 + 256 * 4 + 8)  # norm and head input, log-probabilities, labels
    assert diff.predicted_saving_bytes == layer + behind - segment - 3 * 2048 * 256 * 4
    assert diff.counted_twice_bytes == 2048 * 256 * 4


def test_achieved_minus_predicted_is_explained_item_by_item(diff):
    a, b = diff.residuals
    beyond = diff.achieved_saving_bytes - diff.predicted_saving_bytes
    assert beyond == a.bytes - b.bytes == sum(size for _, size in diff.saving_beyond_prediction)


def test_alignment_is_by_structure(diff):
    rows = diff.by_super_block_slot
    labels = [row.slot.label for row in rows]
    assert labels[:3] == [f"forward of super-block {i} (layers {4 * i}-{4 * i + 3})" for i in range(3)]
    recompute = [row for row in rows if row.slot.phase == Phase.recompute]
    assert len(recompute) == 4  # three super-blocks and the whole phase
    assert all(row.a is None and row.b is not None and row.difference_bytes is None for row in recompute)
    places = {label: i for i, label in enumerate(labels)}
    for block in ("0 (layers 0-3)", "1 (layers 4-7)", "2 (layers 8-11)"):
        assert places[f"recompute of super-block {block}"] < places[f"backward of super-block {block}"]


def test_a_slot_holds_the_most_that_was_alive_meanwhile(diff):
    found = slots(diff.b)
    peak = max(measured.bytes for measured in found.values())
    assert peak == diff.b.peak_bytes
    for measured in found.values():
        assert diff.b.curve[measured.position] == measured.bytes
    assert len([s for s in found if s.phase == Phase.backward and s.unit >= 0]) == 12


def test_both_runs_stay_whole(run_of, diff):
    before = run_of("before.mstrata").curve.copy()
    comparison_headline(diff)
    assert (run_of("before.mstrata").curve == before).all()


def test_a_run_against_itself_differs_in_nothing(run_of):
    same = Diff(run_of("before.mstrata"), run_of("before.mstrata"))
    assert (same.peak_difference_bytes, same.achieved_saving_bytes, same.predicted_saving_bytes) == (0, 0, 0)
    assert "the same" in comparison_headline(same)[0].text
    assert all(not row.difference_bytes for row in same.by_layer_slot)


def test_headline_of_a_comparison(diff):
    peaks, savings, differences = (line.text for line in comparison_headline(diff))
    assert peaks.startswith("Peak 751 MiB to 358 MiB: 393 MiB less (52.3%)")
    assert savings == "Activations 633 MiB to 212 MiB: 421 MiB less (66.5%); by shapes 272 MiB less"
    assert differences.endswith("(closes exactly)")


def test_plain_snapshots_compare_by_what_can_be_known(snapshots, run_of):
    a = Run(open_file(snapshots / "torch24-linear-grad.pickle"), name="grad")
    b = Run(open_file(snapshots / "torch24-linear-nograd.pickle"), name="nograd")
    for diff in (Diff(a, b), Diff(run_of("before.mstrata"), b), Diff(a, run_of("after.mstrata"))):
        assert diff.by_super_block == ()
        assert diff.predicted_saving_bytes is None
        assert diff.achieved_saving_bytes is None
        assert diff.residuals is None
        assert sum(row.difference_bytes for row in diff.by_category) == diff.peak_difference_bytes
        assert all(line.text for line in comparison_headline(diff))
        assert not {w.code for w in diff.warnings} & {"never_checkpointed", "optimizer_state_in_one_run"} or diff.b is b


def test_a_difference_in_time_needs_enough_steps(diff):
    def said(steps, seconds):
        recording = dataclasses.replace(diff.a.recording, steps=schema.empty(schema.Steps))  # as format 1 has it
        runs = [Run(recording.replace_meta(step_index=steps, step_seconds_unrecorded=s)) for s in (1.0, seconds)]
        return comparison_headline(Diff(*runs))[0].text.partition("; ")[2]

    assert said(3, 0.5) == "step 1.00 s to 500 ms (median of 2 steps each)"
    assert said(6, 1.5) == "step 1.00 s to 1.50 s, 50.0% longer"
    assert said(6, 1.001) == "step 1.00 s to 1.00 s, about the same"
    assert said(6, 0.5) == "step 1.00 s to 500 ms, 50.0% shorter"


def test_a_super_block_of_one_layer_bears_its_name_everywhere(run_of):
    diff = Diff(run_of("uniform.mstrata"), run_of("uniform-checkpointed.mstrata"))
    assert [row.label for row in diff.by_super_block][:2] == ["0", "1"]
    assert diff.by_super_block_slot[0].slot.label == "forward of 0"
