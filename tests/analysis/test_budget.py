"""The budget of a rank: every sharding stage and degree by hand."""

import pytest

from memstrata.capture.format.plan import PRESETS, Plan
from memstrata.viewer.analysis.budget import activations, budget, stage_activations, state
from memstrata.viewer.analysis.in_flight import in_flight
from memstrata.viewer.analysis.kernels import Kernels, ModelFacts
from memstrata.viewer.analysis.parallel import Parallel, parse_parallel
from memstrata.viewer.analysis.prediction import predict
from memstrata.viewer.analysis.shape import shape_of
from memstrata.viewer.analysis.shape_presets import preset
from memstrata.viewer.analysis.what_else import alternatives, without

TEACHING = PRESETS["teaching"]
PLAN = TEACHING.per_super_block()
GIB = 2**30
P = TEACHING.parameters


@pytest.mark.parametrize(
    "zero, sizes",
    [
        (0, (2 * P, 2 * P, 12 * P)),
        (1, (2 * P, 2 * P, 12 * P // 8)),
        (2, (2 * P, 2 * P // 8, 12 * P // 8)),
        (3, (2 * P // 8, 2 * P // 8, 12 * P // 8)),
    ],
)
def test_each_stage_shards_one_line_more(zero, sizes):
    assert state(P, Parallel(zero=zero, data=8)) == sizes


def test_tensor_and_pipeline_divide_the_weights():
    assert state(P, Parallel(tensor=4, pipeline=2)) == (2 * P // 8, 2 * P // 8, 12 * P // 8)


def test_zero_3_on_64_ranks_is_the_known_figure():
    lines = budget(TEACHING, PLAN, Parallel(zero=3, data=64))
    assert lines.persistent_bytes == 6_750_000_000
    assert lines.activations == 29 * GIB // 4
    assert lines.communication == 2 * (P // 64) * 2  # two gathered layers in bfloat16
    assert lines.temporaries is None and lines.allocator_overhead is None


def test_sequence_divides_every_token_and_tensor_what_lies_between_projections():
    one = Parallel()
    assert activations(TEACHING, Plan.NONE, one) == 96 * GIB
    assert activations(TEACHING, Plan.NONE, Parallel(sequence=4)) == 24 * GIB
    inside = 12288 + 1024 + 1024 + 6144 + 3 * 17408
    layer = 5 * 5120 + inside // 4
    assert activations(TEACHING, Plan.NONE, Parallel(tensor=4)) == 64 * layer * 8192 * 2


def test_the_loss_is_on_the_last_stage_and_the_embedding_on_the_first():
    shape = preset("llama-3-8b")
    parallel = Parallel(pipeline=3, microbatches=2)
    first, middle, last = (parallel.stage(shape, Plan.NONE, number)[0] for number in range(3))
    assert [len(stage.layers) for stage in (first, middle, last)] == [11, 11, 10]
    assert [bool(stage.ahead) for stage in (first, middle, last)] == [True, False, False]
    assert [bool(stage.behind) for stage in (first, middle, last)] == [False, False, True]
    layer, stream = shape.layers[0].bytes(8192), 8192 * 4096 * 2
    behind = 2 * stream + 8192 * (128256 * 4 + 8)
    assert stage_activations(shape, Plan.NONE, parallel) == [
        2 * (11 * layer + 8192 * 8), 2 * 11 * layer, 10 * layer + behind,
    ]  # fmt: skip
    assert activations(shape, Plan.NONE, Parallel(pipeline=32, microbatches=1)) == layer + behind


def test_what_the_loss_holds_where_backward_begins():
    shape = preset("llama-3-8b")
    whole = 8192 * 128256 * (2 + 4 + 4)  # logits in bfloat16, two gradients in float32
    assert budget(shape, Plan.NONE, Parallel()).temporaries == whole
    assert budget(shape, Plan.NONE, Parallel(tensor=8)).temporaries == whole // 8
    assert budget(shape, Plan.NONE, Parallel(sequence=2)).temporaries == whole // 2
    chunks = budget(shape, Plan.NONE, Parallel(), Kernels(loss="chunked")).temporaries
    assert chunks == 8192 * 128256 * (2 + 4 + 4 + 4) // 16
    assert budget(TEACHING, Plan.NONE, Parallel()).temporaries is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_temporaries_of_the_loss_are_what_a_real_step_holds(tmp_path, dtype):
    """Few layers and many classes: the peak of the step is where backward begins."""
    torch = pytest.importorskip("torch")
    from memstrata.capture import Recorder
    from memstrata.capture.format.schema import Category
    from memstrata.capture.models.hybrid import HybridConfig, HybridDecoder
    from memstrata.viewer.model.query import AllocationQuery
    from memstrata.viewer.model.run import Run
    from memstrata.viewer.sources import open_file

    config = HybridConfig(vocabulary=4096, hidden=32, heads=2, kv_heads=1, ffn=48, layers=4)
    model = HybridDecoder(config).to(getattr(torch, dtype))
    tokens, labels = torch.randint(0, 4096, (1, 128)), torch.randint(0, 4096, (128,))

    def step():
        logits = model(tokens)
        torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels).backward()

    step()
    path = tmp_path / "loss.mstrata"
    with Recorder(path, model=model):
        step()
    run = Run(open_file(path), name="loss")
    predicted = budget(shape_of(run), Plan.NONE, Parallel()).temporaries
    held = AllocationQuery(position=run.peak_position, category=Category.temporary).bytes(run)
    assert predicted == 128 * 4096 * ((4 if dtype == "float32" else 2) + 4 + 4)
    assert predicted <= held < predicted * 1.01


def test_microbatches_in_flight_by_stage():
    assert in_flight(Parallel(pipeline=4, microbatches=8)) == [4, 3, 2, 1]
    assert in_flight(Parallel(pipeline=4, microbatches=2)) == [2, 2, 2, 1]
    assert in_flight(Parallel()) == [1]


def test_a_stage_holds_the_boundaries_of_every_microbatch_in_flight():
    parallel = Parallel(pipeline=4, microbatches=8)
    own, cut = parallel.stage(TEACHING, PLAN)
    assert (len(own.layers), len(cut.segments)) == (16, 4)
    said = predict(own, cut)
    stream = 8192 * 5120 * 2
    assert said.timeline_peak_bytes == 4 * stream + 6 * GIB
    assert activations(TEACHING, PLAN, parallel) == 3 * 4 * stream + 4 * stream + 6 * GIB


@pytest.mark.parametrize(
    "text, said",
    [
        ("zero=4", "zero is a sharding stage from 0 to 3, not 4"),
        ("data=0", "data: there is at least one rank, not 0"),
        ("ranks=2", "there is no degree called 'ranks'; there is zero, data, tensor, sequence, pipeline, microbatches"),
        ("data=two", "data is a whole number, not 'two'"),
    ],
)
def test_degrees_that_cannot_be(text, said):
    with pytest.raises(ValueError) as error:
        parse_parallel(text)
    assert str(error.value) == said


def test_degrees_that_do_not_divide():
    with pytest.raises(ValueError, match="pipeline=65 is more than the model's 64 layers"):
        budget(TEACHING, PLAN, Parallel(pipeline=65))
    with pytest.raises(ValueError, match="sequence=3 does not divide 8,192 tokens"):
        budget(TEACHING, PLAN, Parallel(sequence=3))
    with pytest.raises(ValueError, match="tensor=7 does not divide the 12,288 values of attention query output"):
        budget(TEACHING, PLAN, Parallel(tensor=7))


def test_what_else_by_shapes():
    shape = preset("llama-3-8b")
    plan, facts = shape.per_super_block(), ModelFacts(vocabulary=128256)
    found = {a.name: a.saved_bytes for a in alternatives(shape, plan, Parallel(), Kernels(), facts)}
    logits = 8192 * 128256 * 4
    assert found["cross-entropy in chunks"] == logits * 15 // 16
    assert found["8-bit optimizer states"] == 6 * shape.parameters
    assert found["optimizer in backward"] == 2 * shape.parameters - 2 * shape.parameters // 32
    stream = 8192 * 4096 * 2
    assert found["boundaries offloaded"] == (len(plan.segments) - 2) * stream
    chunked = alternatives(shape, plan, Parallel(), Kernels(loss="chunked"), facts)
    assert "cross-entropy in chunks" not in {a.name for a in chunked}


def test_what_else_over_a_recording_is_the_curve_without_those_allocations(run_of):
    run = run_of("after.mstrata")
    found = {each.name: each for each in without(run)}
    states = found["8-bit optimizer states"]
    measured = states.query.bytes(run)
    assert 0 < states.saved_bytes <= measured * 3 // 4
    assert states.peak_bytes == run.peak_bytes - states.saved_bytes
    assert all(each.saved_bytes > 0 and each.text for each in found.values())
