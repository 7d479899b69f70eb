"""The run before says what the plan of the run after does: predicted from the first alone, measured in the second."""

import json

import pytest

from memstrata.viewer.analysis.diff import Diff
from memstrata.viewer.cli import main


@pytest.fixture(scope="module")
def diff(run_of):
    return Diff(run_of("before.mstrata"), run_of("after.mstrata"))


def test_the_prediction_from_before_is_what_was_measured_after(diff):
    planned = diff.planned
    assert planned.outcome.ranges == ((0, 4), (4, 8), (8, 12))
    assert abs(planned.peak_error) < 0.001 and abs(planned.activation_error) < 0.001
    assert int(planned.curve.max()) == planned.outcome.peak_bytes and len(planned.curve) == diff.a.n_events + 1
    assert planned.text == (
        "Planned from before.mstrata: peak 358 MiB, measured 358 MiB (+0.0%); activations 212 MiB, measured 212 MiB"
        " (+0.0%)"
    )


@pytest.mark.parametrize(
    ("a", "b"), [("after", "before"), ("before", "before"), ("uniform", "after"), ("after", "after")]
)
def test_nothing_is_said_without_a_plan_or_of_another_model(run_of, a, b):
    assert Diff(run_of(f"{a}.mstrata"), run_of(f"{b}.mstrata")).planned is None


def test_it_stands_in_text_and_json(samples, capsys):
    files = [str(samples / name) for name in ("before.mstrata", "after.mstrata")]
    assert main(["diff", *files]) == 0
    assert "Planned from before.mstrata: peak 358 MiB, measured 358 MiB" in " ".join(capsys.readouterr().out.split())
    assert main(["diff", *files, "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)["planned_from_a"]
    assert len(planned["segments"]) == 3 and planned["estimate"]
