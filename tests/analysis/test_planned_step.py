"""A step under a plan as single allocations: the planner's sums, and what an allocator makes of them."""

import json

import numpy as np
import pytest

from memstrata.viewer.analysis.allocator.replay import replay
from memstrata.viewer.analysis.allocator.sequence import Op
from memstrata.viewer.analysis.planned_step import planned_sequence, verdict
from memstrata.viewer.analysis.planner import Planner
from memstrata.viewer.analysis.segment_effect import RANDOM_STATE_BYTES
from memstrata.viewer.cli import main
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

MIB = 2**20


@pytest.fixture(scope="module", params=["before", "uniform"])
def planner(request, samples):
    return Planner(Run(open_file(str(samples / f"{request.param}.mstrata"))))


def requested(played):
    """Requested bytes alive after each operation."""
    signs = np.where(played.kind == Op.alloc, 1, np.where(played.kind == Op.free, -1, 0))
    return np.cumsum(signs * played.bytes)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_the_allocations_add_up_to_what_the_planner_says(planner, length):
    ranges = planner.every(length)
    curve = requested(planned_sequence(planner.facts, ranges))
    missing = planner.outcome(ranges).peak_bytes - int(curve.max())
    assert 0 <= missing <= len(ranges) * RANDOM_STATE_BYTES  # generator states are no allocations of the step
    assert int(curve[-1]) == planner.run.end_bytes and curve.min() >= 0


def test_no_plan_is_the_measured_step(planner):
    played = planned_sequence(planner.facts, ())
    assert int(requested(played).max()) == planner.run.peak_bytes
    assert len(played) == int((planner.run.allocations.end <= planner.run.n_events).sum()) + len(
        planner.run.allocations
    )


def test_a_plan_fits_where_the_whole_step_does_not(samples):
    planner = Planner(Run(open_file(str(samples / "before.mstrata"))))
    whole, blocks = verdict(planner, (), 500 * MIB), verdict(planner, planner.every(4), 500 * MIB)
    assert not whole.fits and whole.place.startswith("forward")
    assert blocks.fits and blocks.spare_bytes == 500 * MIB - blocks.reserved_peak_bytes > 0
    again = replay(planned_sequence(planner.facts, planner.every(4)), capacity=blocks.reserved_peak_bytes)
    assert again.oom is None


def test_the_checkpointed_run_itself_needs_as_much(samples):
    """The same plan really run: its own allocations through the same allocator."""
    from memstrata.viewer.analysis.allocator.recorded import recorded
    from memstrata.viewer.analysis.allocator.what_if import what_if

    planner = Planner(Run(open_file(str(samples / "before.mstrata"))))
    planned = verdict(planner, planner.every(4), None).reserved_peak_bytes
    measured = what_if(recorded(Run(open_file(str(samples / "after.mstrata"))))).replay.peak_reserved_bytes
    assert planned == pytest.approx(measured, rel=0.05)


def test_the_command_says_whether_it_fits(samples, capsys):
    file = str(samples / "before.mstrata")
    assert main(["allocator", file, "--segment-layers", "4", "--capacity", "500MiB"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("before.mstrata with 3 segments, on 500 MiB: fits, with ")
    assert "kernels: cpu" in out and "estimate" in out
    assert main(["allocator", file, "--segment-layers", "12", "--capacity", "500MiB", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["fits"] is False and said["place"] and said["spare_bytes"] is None


@pytest.mark.parametrize(
    ("file", "options", "sentence"),
    [
        ("after", ["--segment-layers", "4"], "after.mstrata"),
        ("before", ["--segment-layers", "99"], "1 to 12 layers"),
        ("before", ["--segment-layers", "4", "--empty-cache-at", "3"], "new order"),
    ],
)
def test_what_cannot_be_planned_is_one_sentence(samples, capsys, file, options, sentence):
    assert main(["allocator", str(samples / f"{file}.mstrata"), *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and sentence in err
