"""Plans predicted from one recording, against the same model recorded with the plan applied."""

import sys
from pathlib import Path

import numpy as np
import pytest

from memstrata.capture.format.plan import Plan
from memstrata.viewer.analysis.plan_search import Search
from memstrata.viewer.analysis.planner import Planner
from memstrata.viewer.analysis.step_facts import why_not
from memstrata.viewer.model.run import Run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MIB = 2**20


def all_ranges(layers):
    """Every way to cut layers 0 .. layers - 1 into segments and layers without one."""
    if not layers:
        yield ()
        return
    yield from all_ranges(layers - 1)
    for first in range(layers):
        for rest in all_ranges(first):
            yield (*rest, (first, layers))


def test_the_demo_with_its_checkpoints_is_predicted(hybrid_planner, run_of):
    after, outcome = run_of("after.mstrata"), hybrid_planner.outcome(hybrid_planner.every(4))
    assert outcome.peak_bytes == pytest.approx(after.peak_bytes, rel=0.001)
    assert outcome.activation_peak_bytes == pytest.approx(int(after.activation_curve.max()), rel=0.001)


def test_uniform_blocks_by_hand(uniform_planner):
    """A block of Linear-GELU-Linear-GELU saves its input and three tensors more, 4 MiB each. While the last segment of
    n blocks runs again, there are the boundaries of the segments after the first (whose boundary is the model's own
    input, no activation), and what the segment makes again: four tensors for each block, less its own input."""
    for length in (1, 2, 4, 8):
        by_hand = (8 // length - 1) + (4 * length - 1)
        assert uniform_planner.outcome(uniform_planner.every(length)).activation_peak_bytes == by_hand * 4 * MIB


def test_no_plan_is_the_measurement(hybrid_planner):
    outcome = hybrid_planner.outcome(Plan.NONE)
    assert outcome.peak_bytes == hybrid_planner.run.peak_bytes and outcome.extra_seconds == 0
    assert (outcome.bytes == hybrid_planner.run.curve).all() and not outcome.recomputed


def test_a_curve_returns_to_the_measured_one(hybrid_planner):
    """What a plan drops, makes again or holds is all over at the end of backward."""
    curve = hybrid_planner.outcome(((0, 3), (5, 11))).bytes
    assert curve[0] == hybrid_planner.run.curve[0] and curve[-1] == hybrid_planner.run.curve[-1]
    assert (curve >= 0).all()


def test_the_line_shows_the_recomputation_before_what_it_leaves(hybrid_planner):
    outcome = hybrid_planner.outcome(hybrid_planner.every(12))
    positions, line = outcome.line()
    ((at, high),) = outcome.recomputed
    assert line.max() == outcome.peak_bytes and (np.diff(positions) >= 0).all()
    assert line[positions == at].tolist() == [high, outcome.bytes[at]]


@pytest.mark.parametrize("name", ["uniform.mstrata", "encoder-decoder.mstrata"])
def test_the_best_plan_is_exact_against_every_plan(run_of, name):
    planner = Planner(run_of(name))
    lists = [[tuple((a + first, b + first) for a, b in ranges) for ranges in all_ranges(stop - first)]
             for first, stop in planner.lists]  # fmt: skip
    plans = [()]
    for each in lists:
        plans = [(*one, *two) for one in plans for two in each]
    everything = [planner.outcome(plan) for plan in plans]
    search = Search(planner)
    assert len(everything) in (1597, 34 * 5)
    assert search.lowest().peak_bytes == min(o.peak_bytes for o in everything)
    for budget in sorted({o.peak_bytes for o in everything})[::3]:
        fastest = min(o.extra_seconds for o in everything if o.peak_bytes <= budget)
        found = search.best(budget)
        assert found.peak_bytes <= budget and found.extra_seconds == pytest.approx(fastest, rel=1e-9)
    assert search.best(min(o.peak_bytes for o in everything) - 1) is None


def test_the_frontier_gives_up_time_for_bytes(hybrid_planner):
    frontier = Search(hybrid_planner).frontier()
    assert frontier[0].ranges == () and len(frontier) > 8
    peaks, times = [o.peak_bytes for o in frontier], [o.extra_seconds for o in frontier]
    assert peaks == sorted(set(peaks), reverse=True) and times == sorted(set(times))
    assert all(peaks[-1] <= hybrid_planner.outcome(hybrid_planner.every(k)).peak_bytes for k in range(1, 13))


def test_a_plan_by_paths_is_the_plan_by_ranges(hybrid_planner):
    plan = Plan((("layers.3", "layers.4"), ("layers.0",)))
    assert hybrid_planner.ranges_of(plan) == ((0, 1), (3, 5))
    assert hybrid_planner.outcome(plan).peak_bytes == hybrid_planner.outcome(((0, 1), (3, 5))).peak_bytes


@pytest.mark.parametrize(
    ("segments", "sentence"),
    [
        ((("layers.0", "layers.2"),), "is not a run of layers"),
        ((("head",),), "is not a run of layers"),
        (((),), "is not a run of layers"),
        ((("layers.0",), ("layers.0", "layers.1")), "share a layer"),
    ],
)
def test_what_is_no_plan_of_layers_is_refused(hybrid_planner, segments, sentence):
    with pytest.raises(ValueError, match=sentence):
        hybrid_planner.outcome(Plan(segments))


def test_segment_lengths_that_do_not_exist_are_refused(hybrid_planner):
    for length in (0, 13):
        with pytest.raises(ValueError, match=r"a segment has 1 to 12 layers in this model, not"):
            hybrid_planner.every(length)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("after.mstrata", "recorded with checkpoints in force"), ("irregular.mstrata", "were offloaded")],
)
def test_recordings_that_cannot_be_planned_say_why(run_of, name, sentence):
    assert sentence in why_not(run_of(name))
    with pytest.raises(ValueError, match=sentence):
        Planner(run_of(name))


@pytest.fixture(scope="module")
def bench():
    """The models and the comparison of `make plans`."""
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import plan_models
        import plans
    finally:
        sys.path.remove(str(BENCHMARKS))
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors gain nothing from several
    yield plan_models, plans
    torch.set_num_threads(before)


@pytest.mark.parametrize("number", range(4), ids=["uniform", "hybrid", "GPT-2", "encoder"])
def test_the_prediction_holds_when_the_plan_is_applied(bench, tmp_path, number):
    models, plans = bench
    for row in plans.rows_of(models.TUNED[number], tmp_path, ("2", "uneven"), timed=False):
        assert abs(row.activations_error) <= plans.ACTIVATIONS_WITHIN, row
        assert abs(row.peak_error) <= plans.WHOLE_STEP_WITHIN, row
        assert row.gradients_equal, row


@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_the_teaching_model_as_a_dry_run(teaching, tmp_path, length):
    """Eight of its 64 layers at full width, without a GPU; `make plans` takes all of them."""
    from memstrata.capture.presets import Sizes, job
    from memstrata.viewer.sources import open_file

    outcome = teaching.outcome(teaching.every(length))
    job("teaching", None, Sizes(layers=8, segment_layers=length)).run(tmp_path / "a.mstrata")
    run = Run(open_file(str(tmp_path / "a.mstrata")))
    assert outcome.peak_bytes == pytest.approx(run.peak_bytes, rel=0.01)
    assert outcome.activation_peak_bytes == pytest.approx(int(run.activation_curve.max()), rel=0.01)


@pytest.fixture(scope="module")
def teaching(tmp_path_factory):
    from memstrata.capture.presets import Sizes, job
    from memstrata.viewer.sources import open_file

    path = tmp_path_factory.mktemp("teaching") / "plain.mstrata"
    job("teaching", None, Sizes(layers=8)).run(path)
    return Planner(Run(open_file(str(path))))
