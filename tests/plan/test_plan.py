"""Plans and the arithmetic of shapes."""

import pytest

from memstrata.capture.format.plan import PRESETS, Plan, covers

TEACHING = PRESETS["teaching"]


def test_segments_cover_every_layer_and_the_last_is_shorter():
    plan = Plan.every([f"layers.{i}" for i in range(10)], 4)
    assert [len(s) for s in plan.segments] == [4, 4, 2]
    assert plan.segments[2] == ("layers.8", "layers.9")


def test_a_module_belongs_to_the_segment_that_contains_it():
    plan = Plan((("layers.1", "layers.2"), ("layers.3.mlp",)))
    assert plan.segment_of("layers.1.mlp.up") == 0
    assert plan.segment_of("layers.3.mlp.up") == 1
    assert plan.segment_of("layers.3") == -1
    assert plan.segment_of("layers.11") == -1
    assert Plan.NONE.segment_of("layers.1") == -1


def test_the_empty_path_is_the_whole_model():
    assert covers("", "layers.0.up")
    assert not covers("layers.1", "layers.10")


def test_teaching_layer_values_per_token():
    layer = TEACHING.layers[0]
    attention, ffn = layer.terms[:7], layer.terms[7:]
    assert [t.width for t in attention] == [5120, 5120, 12288, 1024, 1024, 6144, 5120]
    assert [t.width for t in ffn] == [5120, 17408, 17408, 17408, 5120]
    assert (sum(t.width for t in attention), sum(t.width for t in ffn), layer.width) == (35_840, 62_464, 98_304)


def test_teaching_plan_has_sixteen_super_blocks():
    assert len(TEACHING.per_super_block().segments) == 16
    assert TEACHING.per_super_block() == TEACHING.every(4)


def test_bad_numbers_are_one_sentence():
    with pytest.raises(ValueError, match="at least one token, not 0"):
        TEACHING.with_tokens(0)
    with pytest.raises(ValueError, match="1 to 64 layers in this model, not 65"):
        TEACHING.every(65)
    with pytest.raises(ValueError, match="1 to 64 layers in this model, not 0"):
        TEACHING.every(0)
