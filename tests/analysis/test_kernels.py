"""What kernels keep beside widths: exact on a dry run of the real model, and by hand."""

import pytest

from memstrata.capture.format.plan import PRESETS, Plan
from memstrata.viewer.analysis.kernels import Kernels, ModelFacts, changes, halves_in, parse_kernels
from memstrata.viewer.analysis.kernels import with_kernels as kernels_of_shape
from memstrata.viewer.analysis.model_facts import facts_of, facts_of_preset, kernels_of
from memstrata.viewer.analysis.prediction import predict
from memstrata.viewer.analysis.residual import residual
from memstrata.viewer.analysis.shape import plan_in_force, shape_of
from memstrata.viewer.analysis.shape_presets import preset
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

GIB = 2**30
TEACHING = PRESETS["teaching"]
FACTS = facts_of_preset("teaching", TEACHING)
STREAM = 8192 * 5120 * 2


def with_(kernels, shape=TEACHING, facts=FACTS):
    return kernels_of_shape(shape, kernels, facts)


def test_the_teaching_model_with_the_cpus_kernels_is_what_its_dry_run_measures():
    """150.05 GiB: 96 by widths, norms in float32, silu, the attention's own output and gate; outputs counted once."""
    total = predict(with_(Kernels(norm="composite"))).total_bytes
    silu, gate, statistics = 8192 * 17408 * 2, 2 * 8192 * 6144 * 2, 8192 * 4 * (24 + 2)
    layer = 3 * GIB // 2 - STREAM + silu + gate + statistics + 2 * (STREAM + 2 * STREAM)
    assert total == 64 * layer
    assert f"{total / GIB:.2f}" == "150.05"


def test_fused_norms_keep_no_copies():
    fused, composite = (predict(with_(Kernels(norm=norm))).total_bytes for norm in ("fused", "composite"))
    assert composite - fused == 64 * 2 * 3 * STREAM == 30 * GIB


def test_the_plain_count_stays_as_it_is():
    before = predict(TEACHING)
    with_(Kernels(norm="composite"))
    assert predict(TEACHING) == before and before.total_bytes == 96 * GIB


@pytest.mark.parametrize("name", ["teaching", "hybrid", "llama-3-8b", "mixtral-8x7b", "gpt2"])
@pytest.mark.parametrize("kernels", [Kernels(), Kernels(norm="composite", attention="math", dropout="mask")])
def test_changes_sum_to_the_difference(name, kernels):
    shape = preset(name)
    facts = facts_of_preset(name, shape)
    full = kernels_of_shape(shape, kernels, facts)
    found = changes(shape, kernels, facts)
    assert sum(change.bytes for change in found) == predict(full).total_bytes - predict(shape).total_bytes
    assert all(change.estimate and change.formula for change in found)
    assert any("estimate" in text for text in full.assumptions)


def test_scores_of_the_math_kernel_grow_with_the_square_of_the_length():
    short, long = (preset("llama-3-8b").with_tokens(n) for n in (1024, 2048))
    sizes = []
    for shape in (short, long):
        found = changes(shape, Kernels(attention="math"), facts_of_preset("llama-3-8b", shape))
        sizes.append(next(change.bytes for change in found if change.name == "attention scores"))
    assert sizes == [32 * 32 * 1024**2 * 2, 32 * 32 * 2048**2 * 2]  # layers x heads x T x T x bfloat16


def test_a_memory_efficient_kernel_keeps_one_float_per_head_and_row():
    found = {change.name: change.bytes for change in changes(TEACHING, Kernels(), FACTS)}
    assert found["attention log-sum-exp"] == 64 * 24 * 8192 * 4


def test_dropout_keeps_a_byte_or_a_value():
    plain = predict(with_(Kernels())).total_bytes
    masks, values = (predict(with_(Kernels(dropout=kind))).total_bytes - plain for kind in ("mask", "values"))
    assert (masks, values) == (64 * 2 * STREAM // 2, 64 * 2 * STREAM)


def test_boundaries_stay_in_the_models_own_precision():
    plan = TEACHING.per_super_block()
    assert predict(with_(Kernels(norm="composite")), plan).boundary_bytes == 16 * STREAM


def test_logits_and_loss_in_float32():
    shape = preset("llama-3-8b")
    facts = facts_of_preset("llama-3-8b", shape)

    def kept(kernels):
        full = kernels_of_shape(shape, kernels, facts)
        return {term.name: (term.bytes(shape.tokens), term.dtype) for term in (*full.ahead, *full.behind)}

    assert kept(Kernels())["log-probabilities"] == (8192 * 128256 * 4, "float32")
    assert kept(Kernels())["embedding indices"] == kept(Kernels())["labels"] == (8192 * 8, "int64")
    assert "log-probabilities" not in kept(Kernels(loss="chunked"))
    composite = kept(Kernels(norm="composite"))  # as any norm: its input and the normalised values in float32
    assert composite["final norm input"] == composite["final norm input, normalised"] == (8192 * 4096 * 4, "float32")
    assert composite["head input"] == (8192 * 4096 * 2, "")
    assert (TEACHING.ahead, TEACHING.behind) == ((), ())


def test_halves_by_kind():
    linear, full = preset("hybrid").layers[0], preset("hybrid").layers[3]
    assert [(h.recurrent, h.attention, h.gated_mlp) for h in halves_in(linear)] == [
        (True, False, False), (False, False, True),
    ]  # fmt: skip
    assert [(h.attention, h.output_gate, h.gated_mlp) for h in halves_in(full)] == [
        (True, True, False), (False, False, True),
    ]  # fmt: skip
    experts = halves_in(preset("mixtral-8x7b").layers[0])[1]
    assert experts.gated_mlp and not experts.attention
    plain = halves_in(preset("gpt2").layers[0])[1]
    assert not plain.gated_mlp and not plain.attention


@pytest.mark.parametrize(
    "text, said",
    [
        ("norms=fused", "there is no kernel called 'norms'; there is norm, attention, linear, loss, dropout"),
        ("attention=flash", "attention is efficient or math, not 'flash'"),
        ("norm", "norm is fused or composite or cast or layer, not ''"),
    ],
)
def test_kernels_that_cannot_be(text, said):
    with pytest.raises(ValueError) as error:
        parse_kernels(text)
    assert str(error.value) == said


def test_kernels_as_written():
    assert parse_kernels("") == Kernels()
    assert parse_kernels("norm=composite, attention=math") == Kernels(norm="composite", attention="math")


def test_kernels_and_facts_seen_in_a_recording(run_of):
    run = run_of("before.mstrata")
    assert kernels_of(run) == Kernels(norm="composite", linear="reference", measured=True)
    facts = facts_of(run)
    assert (facts.heads, facts.vocabulary, facts.sequence, len(facts.recurrent)) == (4, 256, 512, 9)
    assert kernels_of(run_of("encoder-decoder.mstrata")).norm == "layer"


@pytest.mark.parametrize("segment_layers", [None, 2])
def test_over_a_dry_run_nothing_of_the_residual_remains(tmp_path, segment_layers):
    """Four layers of the real model under fake tensors: predicted with its kernels to the byte. Under a plan the
    running segment's input is in its boundary and in what is made again, as the count has it."""
    pytest.importorskip("torch")
    from memstrata.capture import presets

    path = tmp_path / "dry.mstrata"
    presets.job("teaching", None, presets.Sizes(tokens=1024, layers=4, segment_layers=segment_layers)).run(path)
    run = Run(open_file(path), name="dry")
    shape, plan = shape_of(run), plan_in_force(run)
    full = kernels_of_shape(shape, kernels_of(run), facts_of(run))
    missed = residual(run, full, plan)
    stream = 1024 * 5120 * 2
    assert missed.bytes == (0 if segment_layers is None else -stream)
    assert plan == Plan.NONE or len(plan.segments) == 2
    by_widths = residual(run, shape, plan)
    assert by_widths.bytes > 0 and len(by_widths.items) > 5


def test_what_is_not_known_adds_nothing():
    assert all(c.bytes for c in changes(TEACHING, Kernels(attention="math"), ModelFacts()))
    names = {change.name for change in changes(TEACHING, Kernels(attention="math"), ModelFacts())}
    assert "attention scores" not in names
