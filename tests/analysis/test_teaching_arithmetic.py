"""The teaching model: every line exact."""

import pytest

from memstrata.capture.format.plan import PRESETS, Plan
from memstrata.viewer.analysis.budget import sharded_state
from memstrata.viewer.analysis.prediction import predict, schedule
from memstrata.viewer.look.units import bytes_text, three_digits

GIB = 1024**3
TEACHING = PRESETS["teaching"]
PREDICTION = predict(TEACHING, TEACHING.per_super_block())


def test_residual_only_estimate_is_5_gib():
    assert PREDICTION.residual_only_bytes == 1 * 8192 * 5120 * 64 * 2 == 5 * GIB


def test_attention_half():
    widths = [term.width for term in TEACHING.layers[0].terms[:7]]
    assert widths == [5120, 5120, 12288, 1024, 1024, 6144, 5120]
    assert sum(widths) == 35_840


def test_ffn_half():
    widths = [term.width for term in TEACHING.layers[0].terms[7:]]
    assert sum(widths) == 5120 + 3 * 17408 + 5120 == 62_464


def test_per_layer():
    assert TEACHING.layers[0].width == 98_304
    assert PREDICTION.per_layer_bytes == 98_304 * 8192 * 2 == 3 * GIB // 2
    assert TEACHING.layers[0].width / TEACHING.hidden == pytest.approx(19.2)


def test_64_layers_are_96_gib():
    assert PREDICTION.total_bytes == 96 * GIB


def test_boundaries():
    assert PREDICTION.boundary_bytes == 16 * 8192 * 5120 * 2 == 5 * GIB // 4


def test_one_super_block_rematerialised_is_6_gib():
    assert PREDICTION.rematerialized_bytes == 6 * GIB


def test_checkpointed_peak():
    assert PREDICTION.checkpointed_peak_bytes == 29 * GIB // 4
    assert three_digits(PREDICTION.ratio) == "13.2"
    assert PREDICTION.timeline_peak_bytes == PREDICTION.checkpointed_peak_bytes
    assert PREDICTION.counted_twice_bytes == 8192 * 5120 * 2


def test_at_262_144_tokens():
    long = TEACHING.with_tokens(262_144)
    assert predict(long, long.per_super_block()).total_bytes == 3072 * GIB == 32 * PREDICTION.total_bytes


def test_persistent_state_of_zero3_on_64_ranks():
    budget = sharded_state(TEACHING.parameters, ranks=64)
    assert budget.persistent_bytes == 6_750_000_000
    assert bytes_text(budget.persistent_bytes) == "6.29 GiB"


def test_budget_lines_stay_separate():
    budget = sharded_state(TEACHING.parameters, ranks=64, activations=PREDICTION.checkpointed_peak_bytes)
    assert [name for name, _ in budget.lines()] == [
        "parameters",
        "gradients",
        "optimizer state",
        "activations",
        "temporaries",
        "communication",
        "allocator overhead",
    ]
    assert dict(budget.lines())["temporaries"] is None
    assert budget.known_bytes == 6_750_000_000 + 29 * GIB // 4
    with pytest.raises(ValueError, match="at least one rank"):
        sharded_state(1, ranks=0)


def test_without_a_plan_the_peak_is_the_total():
    plain = predict(TEACHING)
    assert (plain.checkpointed_peak_bytes, plain.boundary_bytes, plain.rematerialized_bytes) == (96 * GIB, 0, 0)
    assert (plain.ratio, plain.saving_bytes, plain.counted_twice_bytes) == (1.0, 0, 0)


@pytest.mark.parametrize("length", [1, 3, 5, 8, 64])
def test_other_segment_lengths(length):
    layer, stream = 3 * GIB // 2, 8192 * 5120 * 2
    prediction = predict(TEACHING, TEACHING.every(length))
    segments = -(-64 // length)
    assert prediction.boundary_bytes == segments * stream
    assert prediction.rematerialized_bytes == length * layer
    assert prediction.checkpointed_peak_bytes == segments * stream + length * layer
    # one boundary is already given back when the segment before a shorter last one runs
    assert prediction.timeline_peak_bytes == prediction.checkpointed_peak_bytes - (stream if 64 % length else 0)


def test_the_schedule_gives_everything_back():
    for plan in (Plan.NONE, TEACHING.per_super_block(), Plan((("layers.3",), ("layers.7.ffn",)))):
        assert sum(step.bytes for step in schedule(TEACHING, plan)) == 0


def test_what_no_segment_covers_stays_kept():
    prediction = predict(TEACHING, Plan((("layers.0", "layers.1"),)))
    assert prediction.kept_bytes == 62 * 3 * GIB // 2
    assert prediction.boundary_bytes == 8192 * 5120 * 2
    # the kept layers are gone before the segment runs again
    assert prediction.checkpointed_peak_bytes == prediction.kept_bytes + prediction.boundary_bytes


def test_checkpointing_half_a_layer_keeps_the_rest():
    prediction = predict(TEACHING, Plan(tuple((f"layers.{i}.ffn",) for i in range(64))))
    ffn = 8192 * 2 * (5120 + 3 * 17408)
    assert prediction.rematerialized_bytes == ffn
    assert prediction.kept_bytes == 96 * GIB - 64 * ffn
    assert prediction.boundary_bytes == 64 * 8192 * 5120 * 2
