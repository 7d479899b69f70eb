"""The residual closes exactly, and finds what shapes forget."""

from dataclasses import replace
from pathlib import Path

import pytest

from memstrata.viewer.analysis.matching import Reason
from memstrata.viewer.analysis.residual import residual
from memstrata.viewer.analysis.shape import plan_in_force, shape_of

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
RECORDINGS = sorted(str(path.relative_to(SAMPLES).with_suffix("")) for path in SAMPLES.rglob("*.mstrata"))


def residual_of(run):
    return residual(run, shape_of(run), plan_in_force(run))


@pytest.mark.parametrize("name", RECORDINGS)
def test_items_sum_to_measured_minus_predicted(run_of, name):
    missed = residual_of(run_of(f"{name}.mstrata"))
    assert sum(item.bytes for item in missed.items) == missed.bytes == missed.measured_bytes - missed.predicted_bytes
    for count in range(6):
        assert sum(item.bytes for item in missed.largest(count)) == missed.bytes


@pytest.mark.parametrize("name", RECORDINGS)
def test_no_allocation_is_in_two_items_and_all_are_activations_alive_there(run_of, name):
    run = run_of(f"{name}.mstrata")
    missed = residual_of(run)
    rows = [row for item in missed.items for row in item.rows]
    assert len(rows) == len(set(rows))
    for item in missed.items:
        assert set(item.rows) <= set(item.query.select(run).tolist())


def test_measured_is_the_activation_peak(run_of):
    run = run_of("before.mstrata")
    missed = residual_of(run)
    assert missed.measured_bytes == run.activation_curve.max() == run.activation_curve[missed.position]
    rows = [row for each in (*missed.items, *missed.matched) for row in each.query.rows or ()]
    assert run.allocations.bytes[sorted(set(rows))].sum() == missed.measured_bytes


def test_silu_outputs_are_the_fourth_wide_tensor_that_shapes_forget(run_of):
    run = run_of("before.mstrata")
    items = {item.label: item for item in residual_of(run).items}
    assert items["silu outputs in mlp"].bytes == 12 * 2048 * 704 * 4
    assert len(items["silu outputs in mlp"].rows) == 12


def test_norms_keep_their_product_and_linear_attention_its_kernel(run_of):
    items = {item.label: item.bytes for item in residual_of(run_of("before.mstrata")).items}
    assert items["mul outputs in mixer_norm"] == 12 * 2048 * 256 * 4
    assert max(items, key=items.get) == "tensors in mixer (LinearAttention)"


def test_the_layer_output_is_counted_by_shapes_but_is_the_next_layers_input(run_of):
    items = {item.label: item for item in residual_of(run_of("before.mstrata")).items}
    twice = items["mlp output (counted twice)"]
    assert (twice.bytes, twice.count, twice.reason) == (-12 * 2048 * 256 * 4, 12, Reason.next_input)
    assert twice.text == "counted twice by shapes: a layer's output is the input of what comes next, one storage"
    # the last one is the input of the norm behind the layers, which is predicted too
    assert "mlp output (predicted only)" not in items


@pytest.mark.parametrize("name", RECORDINGS)
def test_matched_and_unpredicted_and_absent_close_exactly(run_of, name):
    missed = residual_of(run_of(f"{name}.mstrata"))
    assert missed.measured_bytes == missed.matched_bytes + missed.unpredicted_bytes
    found = sum(matched.predicted_bytes for matched in missed.matched)
    assert missed.predicted_bytes == found + missed.absent_bytes
    assert missed.matched_bytes - found == missed.other_dtype_bytes
    assert missed.bytes == missed.other_dtype_bytes + missed.unpredicted_bytes - missed.absent_bytes


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_item_says_what_it_is(run_of, name):
    run = run_of(f"{name}.mstrata")
    for item in residual_of(run).items:
        assert item.text and item.count == (len(item.rows) or item.count) > 0
        assert sum(part.bytes for part in item.parts) == item.bytes
        assert sum(part.count for part in item.parts) == item.count
        assert item.rows or item.reason not in (Reason.unpredicted, Reason.other_dtype)
        if item.rows:  # a click shows exactly these allocations
            assert sorted(item.query.select(run).tolist()) == sorted(item.rows)
            assert run.recording.stack_frames(item.stack)


def test_embedding_head_and_loss_are_predicted_and_found(run_of):
    run = run_of("before.mstrata")
    missed = residual_of(run)
    wide = 2048 * 256 * 4
    matched = {each.label: (each.bytes, each.predicted_bytes, each.count) for each in missed.matched}
    for name in ("final norm input", "head input", "log-probabilities"):
        assert matched[name] == (wide, wide, 1)
    assert matched["labels"] == (2048 * 8, 2048 * 8, 1)
    items = {item.label: item for item in missed.items}
    indices = items["embedding indices (the model's input)"]
    assert (indices.bytes, indices.reason) == (-2048 * 8, Reason.model_input)
    # what is left outside the layers: the norm's product, as inside them, and statistics
    left = [item for item in missed.items if any(part.layers == 0 for part in item.parts)]
    assert {item.label for item in left if item.bytes > 2048 * 8} == {"mul outputs in norm (outside layers)"}


def test_a_term_of_the_loss_that_was_not_kept_is_named(run_of):
    """Under checkpoints the peak is in backward, when the loss is done: nothing is predicted of it there either."""
    items = {item.label for item in residual_of(run_of("after.mstrata")).items}
    assert not any("log" in label for label in items)
    run = run_of("before.mstrata")
    shape = shape_of(run)
    wider = replace(shape, behind=tuple(replace(t, width=2 * t.width) for t in shape.behind))
    missed = residual(run, wider, plan_in_force(run))
    assert missed.bytes == sum(item.bytes for item in missed.items)
    absent = {item.label: item.bytes for item in missed.items if item.reason is Reason.absent}
    assert absent["log-probabilities (predicted only)"] == -2 * 2048 * 256 * 4


def test_items_by_kind_of_layer(run_of):
    items = {item.label: item for item in residual_of(run_of("before.mstrata")).items}
    parts = {part.layer_kind: part for part in items["silu outputs in mlp"].parts}
    linear, full = parts["DecoderLayer (LinearAttention)"], parts["DecoderLayer (FullAttention)"]
    assert [(p.layers, p.count, p.bytes_per_layer) for p in (linear, full)] == [
        (9, 9, 2048 * 704 * 4), (3, 3, 2048 * 704 * 4),
    ]  # fmt: skip
    assert items["silu outputs in mlp"].text.startswith("what silu puts out, 1 per layer, +5.50 MiB each: kept by")
    assert (items["silu outputs in mlp"].op, items["silu outputs in mlp"].dtype) == ("silu", "float32")


def test_the_models_input_is_no_activation(run_of):
    items = {item.label: item for item in residual_of(run_of("uniform.mstrata")).items}
    assert items["Linear 0 input (the model's input)"].bytes == -2048 * 512 * 4
    assert "code around the model" in items["gelu outputs in 3 (GELU)"].text


def test_the_running_segments_input_is_predicted_twice(run_of):
    run = run_of("uniform-checkpointed.mstrata")
    reasons = {item.reason: item.bytes for item in residual_of(run).items}
    assert reasons == {Reason.model_input: -4 * 2**20, Reason.running_input: -4 * 2**20}


def test_layers_of_another_length_are_counted_with_their_own_rows(run_of):
    shape = shape_of(run_of("encoder-decoder.mstrata"))
    assert shape.tokens == 4 * 128
    widths = {layer.kind: layer.terms[0].width for layer in shape.layers}
    assert widths == {"TransformerEncoderLayer": 128, "TransformerDecoderLayer": 64}  # 4 x 64 rows
    assert "the layers of decoder.layers see 256 rows, as measured" in " ".join(shape.assumptions)


def test_segment_inputs_are_found_among_what_is_kept(run_of):
    run = run_of("after.mstrata")
    items = {item.label: item.bytes for item in residual_of(run).items}
    assert "segment input (predicted only)" not in items


def test_copies_in_another_precision_are_named(run_of):
    """The same recording read as if the model were bfloat16: every float32 tensor is twice what shapes say."""
    run = run_of("uniform.mstrata")
    other = type(run)(run.recording.replace_meta(dtype="bfloat16"), name="as bfloat16")
    missed = residual_of(other)
    assert missed.predicted_bytes == residual_of(run).predicted_bytes // 2
    assert sum(item.bytes for item in missed.items) == missed.bytes
    copies = [item for item in missed.items if item.label.startswith("float32 instead of bfloat16 in ")]
    assert sum(item.bytes for item in copies) == 31 * 2048 * 512 * 2  # the first of 32 is the input of the step
