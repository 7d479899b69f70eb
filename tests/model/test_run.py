"""The facade: figures, capabilities, devices."""

from __future__ import annotations

import pytest

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.schema import NONE, Severity, StorageKind
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run

from .recordings import Step, two_layers


def test_the_peak_is_the_first_of_equals_and_its_event_the_one_before() -> None:
    step = Step()
    for time, (made, size) in enumerate([(True, 5), (False, 5), (True, 5), (True, 0)]):
        (step.alloc if made else step.free)(512, size, time)
    run = step.run()
    assert (run.peak_position, run.peak_bytes) == (1, 5)


def test_a_start_that_is_never_exceeded_is_the_peak() -> None:
    step = Step()
    step.free(512, 9, 0)
    run = step.run()
    assert (run.peak_position, run.peak_bytes, run.baseline_bytes, run.end_bytes) == (0, 9, 9, 0)


def test_what_is_available_follows_from_the_file() -> None:
    assert Step().run().capabilities == frozenset()
    step = two_layers()
    step.blocks = [(512, 8)]
    step.alloc(512, 8, 250, stack=step.frames(("f", "a.py", 1)))
    step.alloc(1024, 8, 251)
    step.saved(512, 8, 260)
    step.known(StorageKind.input, 1024, 8, start=260)
    assert step.run().capabilities == {
        "time", "timeline", "reserved", "layers", "spans", "saved_tensors", "stacks", "known_storages", "pools"
    }  # fmt: skip


def test_problems_of_the_file_and_of_the_reading_are_one_list() -> None:
    step = Step()
    step.alloc(512, 8, 1)
    step.alloc(512, 8, 2)
    recorded = Problem("recorder_failure", Severity.error, "A hook failed.", 2)
    run = step.run(problems=(recorded, recorded))
    assert [(p.code, p.count) for p in run.problems] == [("recorder_failure", 4), ("lost_frees", 1)]


def test_the_busiest_device_is_chosen_and_others_can_be_asked_for() -> None:
    step = Step()
    step.alloc(512, 8, 1, device=0)
    step.alloc(512, 80, 2, device=2)
    run = Run(step.recording(devices=3), name="x.mstrata")
    assert (run.device.ordinal, run.name) == (2, "x.mstrata")
    assert run.on(0).peak_bytes == 8
    assert run.on(1).peak_bytes == 0
    assert run.on(2) is run


def test_frees_that_come_first_count_when_a_device_is_chosen() -> None:
    step = Step()
    step.alloc(512, 8, 1, device=0)
    step.free(512, 80, 2, device=1)
    assert Run(step.recording(devices=2)).device.ordinal == 1


def test_swapped_neighbours_do_not_turn_time_back() -> None:
    step = Step()
    for number, time in enumerate((10, 30, 20, 40)):
        step.alloc(512 * (number + 1), 1, time)
    run = step.run()
    assert [run.time_of(p) * 1e9 for p in range(5)] == pytest.approx([0, 0, 20, 20, 30])


def test_a_broken_run_is_found_out() -> None:
    """The identities are worth something only if they fail where something is wrong."""
    step = two_layers()
    step.alloc(512, 8, 250)
    run = step.run()
    run.curve = run.curve + 1  # type: ignore[misc]
    wrong = identities.check(run)
    assert "the rows of the table do not sum to the curve" in wrong
    assert any("category" in sentence for sentence in wrong)
    assert any(sentence.startswith("baseline 1") for sentence in wrong)


def test_positions_without_a_device() -> None:
    run = Run(Step().recording(devices=0))
    assert (run.device_row, run.n_events, run.curve.tolist()) == (NONE, 0, [0])
    assert run.attribution.category.tolist() == []
    assert identities.check(run) == []
