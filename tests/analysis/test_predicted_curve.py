"""The predicted curve over real recordings: its maximum is the prediction, exactly."""

import numpy as np
import pytest

from memstrata.capture.format.plan import Plan
from memstrata.capture.format.schema import Phase
from memstrata.viewer.analysis.predicted_curve import Base, at_every_position, predicted_curve
from memstrata.viewer.analysis.prediction import predict
from memstrata.viewer.analysis.shape import plan_in_force, shape_of

RECORDINGS = ["before", "after", "uniform", "uniform-checkpointed", "encoder-decoder", "irregular"]


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_maximum_is_the_prediction(run_of, name):
    run = run_of(f"{name}.mstrata")
    curve = predicted_curve(run)
    assert curve.peak_bytes == predict(shape_of(run), plan_in_force(run)).timeline_peak_bytes > 0


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_curve_begins_and_ends_at_nothing_and_is_never_below(run_of, name):
    run = run_of(f"{name}.mstrata")
    curve = predicted_curve(run)
    assert (curve.positions[0], curve.bytes[0], curve.bytes[-1]) == (0, 0, 0)
    assert (curve.bytes >= 0).all()
    assert (np.diff(curve.positions) >= 0).all()
    assert curve.positions[-1] <= run.n_events


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 12])
def test_any_plan_can_be_laid_over_a_step_without_checkpoints(run_of, length):
    run = run_of("before.mstrata")
    shape = shape_of(run)
    curve = predicted_curve(run, plan=shape.every(length))
    assert curve.peak_bytes == predict(shape, shape.every(length)).timeline_peak_bytes


@pytest.mark.parametrize(
    "segments", [(("layers.3.mlp",), ("layers.4",)), (("",),), (("layers.1.mixer", "layers.1.mlp"),)]
)
def test_segments_need_not_be_layers(run_of, segments):
    run, plan = run_of("before.mstrata"), Plan(segments)
    assert predicted_curve(run, plan=plan).peak_bytes == predict(shape_of(run), plan).timeline_peak_bytes


def test_forward_rises_by_layer_and_backward_falls_by_layer(run_of):
    run = run_of("before.mstrata")
    shape, curve = shape_of(run), predicted_curve(run)
    rises = np.diff(curve.bytes)
    layers = [layer.bytes(shape.tokens) for layer in shape.layers]
    (ids,), (norm, head, *loss) = ([t.bytes(shape.tokens) for t in terms] for terms in (shape.ahead, shape.behind))
    up = [ids, *layers, norm, head + sum(loss)]  # the loss is done with the module that runs last
    assert rises.tolist() == [*up, -sum(loss), -head, -norm, *(-size for size in reversed(layers)), -ids]
    forward = next(last for phase, _, last in run.spans.phases() if phase == Phase.forward)
    assert curve.peak_position <= forward


def test_a_plan_makes_a_sawtooth_where_the_recomputation_was_measured(run_of):
    run = run_of("after.mstrata")
    shape, curve = shape_of(run), predicted_curve(run)
    dense = at_every_position(curve.positions, curve.bytes, run.n_events)
    recomputed = [(first, last) for phase, first, last in run.spans.phases() if phase == Phase.recompute]
    made = [sum(layer.bytes(shape.tokens) for layer in shape.layers[i : i + 4]) for i in (8, 4, 0)]
    assert len(recomputed) == 3
    for (first, last), size in zip(recomputed, made, strict=True):
        assert dense[last] - dense[first] == size


def test_on_top_of_what_is_no_activation(run_of):
    run = run_of("after.mstrata")
    alone, whole = predicted_curve(run), predicted_curve(run, base=Base.measured)
    dense = at_every_position(alone.positions, alone.bytes, run.n_events)
    assert whole.positions.tolist() == list(range(run.n_events + 1))
    # the gap between measured and predicted is the same as that of the activations alone
    assert np.array_equal(run.curve - whole.bytes, run.activation_curve - dense)


def test_a_position_may_hold_two_values():
    dense = at_every_position(np.array([0, 2, 2, 4]), np.array([0, 7, 3, 5]), 5)
    assert dense.tolist() == [0, 0, 7, 3, 5, 5]


def test_two_passes_through_the_layers_make_two_hills(run_of):
    """Gradient accumulation: every call of the layers is a pass of its own."""
    run = run_of("before.mstrata")
    spans = run.spans
    once = predicted_curve(run)
    twice = type(run)(run.recording, name="twice")
    twice.__dict__["spans"] = _repeated(spans)
    curve = predicted_curve(twice)
    assert curve.peak_bytes == once.peak_bytes
    assert (curve.bytes == once.peak_bytes).sum() == 2


def _repeated(spans):
    """The same spans again after the last event, as call 1."""
    import dataclasses

    shift = spans.n_events
    columns = {}
    for f in dataclasses.fields(spans):
        value = getattr(spans, f.name)
        if f.name == "n_events":
            columns[f.name] = 2 * shift
            continue
        moved = value + 1 if f.name == "call" else value + shift if f.name.endswith("position") else value
        columns[f.name] = np.concatenate([value, moved])
    return dataclasses.replace(spans, **columns)


def test_no_curve_without_layers_or_spans(run_of, snapshots):
    from memstrata.viewer.model.run import Run
    from memstrata.viewer.sources import open_file

    run = Run(open_file(snapshots / "torch26-train-from-start.pickle"), name="snapshot")
    assert predicted_curve(run) is None
