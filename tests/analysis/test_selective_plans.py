"""Selective checkpoints predicted from one plain recording, against the printed code recorded."""

import sys
from pathlib import Path

import numpy as np
import pytest

from memstrata.capture.format.schema import Category
from memstrata.viewer.analysis.operators import NO_OPERATORS, operators, parse_keep
from memstrata.viewer.analysis.plan_code import torch_code
from memstrata.viewer.analysis.plan_search import Search
from memstrata.viewer.analysis.planned_step import verdict
from memstrata.viewer.analysis.planner import Planner
from memstrata.viewer.model.curves import live_bytes

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MIB = 2**20


def keeping(planner, text):
    return planner.keeping(parse_keep(text, planner.operators))


@pytest.mark.parametrize(("length", "made_again"), [(1, 1), (2, 3), (4, 7), (8, 15)])
def test_uniform_blocks_by_hand(uniform_planner, length, made_again):
    """A block of Linear-GELU-Linear-GELU has two outputs of `addmm`, 4 MiB each: 16 of them in 8 blocks are kept. Of
    what it saves the inputs of both GELUs are such outputs; what is made again is both GELUs' outputs, but for the one
    that the next segment starts from. The boundaries are those after the first, which is the model's own input."""
    outcome = keeping(uniform_planner, "matmul").outcome(uniform_planner.every(length))
    assert outcome.cached_bytes == 16 * 4 * MIB
    assert outcome.activation_peak_bytes == ((8 // length - 1) + made_again) * 4 * MIB


def test_what_each_operator_keeps_by_hand(uniform_planner, hybrid_planner):
    (only,) = uniform_planner.choices
    assert (only.operator, only.outputs, only.bytes) == ("addmm", 16, 16 * 4 * MIB)
    assert 0 < only.seconds < uniform_planner.run.recording.meta.step_seconds_recorded
    found = {choice.operator: choice for choice in hybrid_planner.choices}
    # three full-attention layers: a hidden state and a log-sum-exp for 2,048 tokens and 4 heads
    attention = found["_scaled_dot_product_flash_attention_for_cpu"]
    assert (attention.outputs, attention.bytes) == (6, 3 * (2048 * 256 * 4 + 2048 * 4 * 4))


def test_kept_operators_are_not_run_again(uniform_planner):
    ranges = uniform_planner.every(2)
    plain, kept = uniform_planner.outcome(ranges), keeping(uniform_planner, "matmul").outcome(ranges)
    spared = uniform_planner.choices[0].seconds * uniform_planner.time_scale
    assert plain.cached_bytes == 0 and 0 < kept.extra_seconds < plain.extra_seconds
    assert plain.extra_seconds - kept.extra_seconds == pytest.approx(spared, rel=0.15)  # the last one never runs again


def test_the_search_is_one_over_selective_plans(uniform_planner):
    search = Search(keeping(uniform_planner, "matmul"))
    lowest, frontier = search.lowest(), search.frontier()
    assert lowest.cached_bytes > 0 and frontier[0].ranges == ()
    planner = keeping(uniform_planner, "matmul")
    assert lowest.peak_bytes <= min(planner.outcome(planner.every(k)).peak_bytes for k in range(1, 9))


def test_what_cannot_be_kept_is_one_sentence(uniform_planner, hybrid_planner):
    with pytest.raises(ValueError, match=r"^no operator called 'silu' can be kept; there is matmul, attention, conv"):
        parse_keep("matmul,silu", hybrid_planner.operators)
    with pytest.raises(ValueError, match=r"^no operator called 'attention' ran in a layer of this step"):
        parse_keep("attention", uniform_planner.operators)
    with pytest.raises(ValueError, match="selective"):
        verdict(keeping(uniform_planner, "matmul"), uniform_planner.every(2), None)


def test_a_recording_that_does_not_name_operators_says_so(hybrid_planner, monkeypatch):
    frames = hybrid_planner.run.recording.frames
    python = np.flatnonzero([hybrid_planner.run.recording.strings[int(name)] == "forward" for name in frames.name])[0]
    monkeypatch.setitem(vars(frames), "name", np.full_like(frames.name, frames.name[python]))
    with pytest.raises(ValueError, match="does not say which operator") as error:
        operators(hybrid_planner.facts)
    assert str(error.value) == NO_OPERATORS


@pytest.fixture(scope="module")
def bench():
    """The models of `make plans`."""
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import plan_models
        import plans
    finally:
        sys.path.remove(str(BENCHMARKS))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch, plan_models, plans
    torch.set_num_threads(before)


def cache_peak(run):
    rows = run.attribution.category == Category.selective_cache
    return int(live_bytes(run.allocations, run.n_events, rows).max())


@pytest.mark.parametrize(
    ("number", "keep", "plan"),
    [(0, "matmul", "4"), (1, "matmul,attention", "1"), (2, "matmul,attention", "uneven"), (2, "attention", "2"),
     (3, "matmul,attention", "2")],
)  # fmt: skip
def test_the_printed_code_keeps_what_was_predicted(bench, tmp_path, number, keep, plan):
    torch, models, plans = bench
    case = models.TUNED[number]
    plain = plans.Training(case)
    planner = keeping(Planner(plain.recorded(tmp_path / "plain.mstrata")), keep)
    ranges = models.ranges_of(plan, len(planner.run.layers))
    outcome, training = planner.outcome(ranges), plans.Training(case)
    names = {"model": training.model}
    exec(compile(torch_code(planner, ranges), "plan", "exec"), names)  # our own output, not a file's
    training.model = names["model"]
    run = training.recorded(tmp_path / "selective.mstrata")
    assert all(torch.equal(a, b) for a, b in zip(plain.gradients(), training.gradients(), strict=True))
    assert cache_peak(run) > 0 and outcome.cached_bytes == pytest.approx(cache_peak(run), rel=0.001)
    assert outcome.activation_peak_bytes == pytest.approx(int(run.activation_curve.max()), rel=0.001)
    # what a layer lets go of before it ends is not known, so a peak inside a forward is at most overstated
    assert run.peak_bytes * 0.999 <= outcome.peak_bytes <= run.peak_bytes * 1.02
