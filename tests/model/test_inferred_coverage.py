"""Each kind of inference says how much it covers; steps part the events of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memstrata.capture.format.schema import Phase
from memstrata.viewer.analysis.inferred import inferred_sentence
from memstrata.viewer.model.inferred_coverage import inferred_coverage
from memstrata.viewer.model.run import Run
from memstrata.viewer.model.step_positions import step_positions
from memstrata.viewer.sources import open_file
from memstrata.viewer.state.selection import moment, step_text

from .test_inference import PYTHON_ONLY, TRAINING, opened
from .test_inference_rules import ENGINE, LOOP, MODULE, STEP, made_of

FORWARD = ("forward", "/home/user/model.py")
MM = ("at::_ops::mm::call(at::Tensor const&)", "??")


def test_every_share_by_hand(tmp_path: Path) -> None:
    """Four allocations of 1,000 bytes each; the first three are alive at position 4."""
    run = made_of(
        tmp_path,
        [("+", 1, [LOOP]), ("+", 2, [MM, FORWARD, MODULE, LOOP]), ("+", 3, [FORWARD, MODULE, LOOP]),
         ("+", 4, [ENGINE]), ("-", 2, [ENGINE]), ("-", 3, [ENGINE]), ("+", 5, STEP)],
    )  # fmt: skip
    found = inferred_coverage(run, 3)
    assert found is not None
    assert (found.category, found.phase) == (1.0, 2 / 3)  # the first, made before forward, is the gradient's parameter
    assert (found.operator, found.module) == (1 / 3, 2 / 3)
    assert (found.events_in_phases, found.evident) == (6 / 7, 6 / 7)
    assert (found.steps, found.events_in_steps) == (0, 0.0)  # the trace ends inside the optimizer's step
    assert inferred_sentence(run, 3) == (
        "Inferred for the bytes: category of 100.0%, phase of birth of 66.7%, operator of 33.3%, module of 66.7%."
        " For the events: phase of 85.7% (85.7% by their own stack or annotation), 0 whole steps with 0.0% of them."
    )
    assert inferred_coverage(run, 0) is None  # nothing is alive


@pytest.mark.parametrize("name", (*TRAINING, *PYTHON_ONLY))
def test_the_shares_of_a_real_step_are_those_of_its_groupings(snapshots: Path, name: str) -> None:
    run = opened(snapshots, name)
    found = inferred_coverage(run, run.peak_position)
    assert found is not None and found.category == run.inferred_coverage_at(run.peak_position)
    for key, share in (("operator", found.operator), ("user_module", found.module)):
        names, sizes = run.grouping(key).names, run.groups_at(key, [run.peak_position])[:, 0]
        told = sum(size for said, size in zip(names, sizes.tolist()) if not said.startswith("no "))
        assert told == round(share * run.peak_bytes)
    assert run.inferred is not None
    known = np.array(run.inferred.phases.phase) != Phase.other
    assert found.events_in_phases == known.mean() >= found.evident > 0.25
    assert found.steps == len(run.inferred.steps) == len(step_positions(run))


def test_the_cursor_says_in_which_step_it_is(snapshots: Path, samples: Path) -> None:
    run = opened(snapshots, "torch26-train-from-start")
    (_, one), (_, two), _ = step_positions(run)
    assert [step_text(run, position) for position in (0, one, one + 1, two)] == [
        "", ", step 1 of 3 (inferred)", ", step 2 of 3 (inferred)", ", step 2 of 3 (inferred)"
    ]  # fmt: skip
    assert ", step 2 of 3 (inferred), " in moment(run, two)
    recorded = Run(open_file(samples / "before.mstrata"))
    assert step_text(recorded, recorded.peak_position) == ""


def test_a_recording_infers_nothing_and_has_its_own_steps(samples: Path) -> None:
    run = Run(open_file(samples / "before.mstrata"))
    assert inferred_coverage(run, run.peak_position) is None and inferred_sentence(run, run.peak_position) == ""
    assert step_positions(run) == ()  # one recorded step parts nothing
