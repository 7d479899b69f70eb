"""The residual closes exactly, and finds what shapes forget."""

import pytest

from memstrata.viewer.analysis.residual import residual
from memstrata.viewer.analysis.shape import plan_in_force, shape_of

RECORDINGS = [
    "before",
    "after",
    "uniform",
    "uniform-checkpointed",
    "encoder-decoder",
    "irregular",
    "raised",
    "format-1",
]


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
    query = missed.items[0].query
    assert query.bytes(run) == missed.measured_bytes


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
    items = {item.label: item.bytes for item in residual_of(run_of("before.mstrata")).items}
    assert items["mlp output (predicted only)"] == -12 * 2048 * 256 * 4


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
