"""What a recording says of itself."""

import dataclasses

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.schema import Severity
from memstrata.viewer.analysis.trust import DOUBTFUL, UNCHANGED, trust_of
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file


def test_a_whole_step_lost_nothing_and_changed_nothing(samples):
    trust = trust_of(Run(open_file(str(samples / "before.mstrata"))))
    assert (trust.lost, trust.results_affected, trust.results) == ((), False, UNCHANGED)


def test_a_step_that_raised_lost_its_rest(samples):
    trust = trust_of(Run(open_file(str(samples / "raised.mstrata"))))
    assert [problem.code for problem in trust.lost] == ["step_raised"]
    assert trust.results_affected is False


def test_a_part_that_failed_leaves_it_open(samples):
    recording = open_file(str(samples / "before.mstrata"))
    failed = Problem("recorder_failure", Severity.error, "Part of the recorder failed.", 1)
    recording = recording.replace_meta(problems=(*recording.meta.problems, failed))
    trust = trust_of(Run(recording))
    assert (trust.results_affected, trust.results) == (None, DOUBTFUL)
    assert dataclasses.asdict(trust)["lost"][0]["code"] == "recorder_failure"


def test_nobody_knows_how_a_snapshot_was_made(snapshots):
    assert trust_of(Run(open_file(str(snapshots / "torch26-train-from-start.pickle")))) is None
