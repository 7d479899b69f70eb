"""A plain snapshot: phases and categories inferred from stacks, annotations and lifetimes, and marked so."""

from __future__ import annotations

import dataclasses
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memstrata.capture.format import schema
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Action, Category, Phase
from memstrata.viewer.analysis.diff import Diff
from memstrata.viewer.analysis.headline import headline
from memstrata.viewer.model import identities
from memstrata.viewer.model.grouping import available
from memstrata.viewer.model.inference import Why, infer
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.snapshot_pickle import as_recorded
from memstrata.viewer.sources import open_file

TRAINING = (
    "torch26-train-from-start", "torch26-train-mid-run", "torch211-train", "torch210-compile-train",
    "torch21-train-deep-stacks",
)  # fmt: skip
PYTHON_ONLY = ("npu26-expandable-unmap", "torch211-windows-python-frames")
NO_BACKWARD = (
    "torch24-linear-grad", "torch24-linear-nograd", "torch21-inference-ten-streams", "torch23-train",
    "torch26-compile-forward-annotations", "torch28-oom-three-gpus-expandable", "torch25-inference-segment-churn",
)  # fmt: skip


class Refusing(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(global_name)


def opened(folder: Path, name: str) -> Run:
    return Run(open_file(folder / f"{name}.pickle"), name=name)


def stacks_as_written(folder: Path, name: str, run: Run) -> list[list[tuple[str, str]]]:
    """(function, file) of each event of the run's device, read from the file by Python's own unpickler."""
    file = io.BytesIO((folder / f"{name}.pickle").read_bytes())
    trace = Refusing(file, encoding="utf-8", errors="replace").load()["device_traces"][run.device.ordinal]
    return [[(f["name"], f["filename"].replace("\\", "/")) for f in event.get("frames", [])] for event in trace]


def phases(run: Run) -> list[Phase]:
    assert run.inferred is not None
    return [Phase(p) for p in run.inferred.phases.phase.tolist()]


def inferred_bytes(run: Run, category: Category) -> int:
    rows = run.attribution.inferred & (run.attribution.category == category)
    return int(run.allocations.bytes[rows].sum())


@pytest.mark.parametrize("name", TRAINING)
def test_engine_optimizer_and_module_frames_name_the_phase(snapshots: Path, name: str) -> None:
    run = opened(snapshots, name)
    seen = set()
    for frames, phase in zip(stacks_as_written(snapshots, name, run), phases(run), strict=True):
        functions = {function for function, _ in frames}
        in_engine = any("torch::autograd::Engine::" in function for function in functions)
        if any("/torch/optim/optimizer.py" in file and function == "zero_grad" for function, file in frames):
            assert phase == Phase.other
        elif any("/torch/optim/" in file for _, file in frames):
            assert phase == Phase.optimizer
        elif in_engine:
            assert phase == Phase.backward  # none of these files uses checkpoints
        elif "_call_impl" in functions:
            assert phase == Phase.forward
        elif any(file.endswith("torch/autograd/__init__.py") for _, file in frames):
            assert phase == Phase.backward
        seen.add(phase)
    assert {Phase.forward, Phase.backward} <= seen
    assert (Phase.optimizer in seen) == (name != "torch21-train-deep-stacks")


@pytest.mark.parametrize("name", PYTHON_ONLY)
def test_a_backward_pass_without_frames_lies_between_the_call_of_backward_and_its_return(
    snapshots: Path, name: str
) -> None:
    run = opened(snapshots, name)
    frames = stacks_as_written(snapshots, name, run)
    none = [i for i, stack in enumerate(frames) if not stack]
    found = phases(run)
    assert len(none) > 3700 and {found[i] for i in none} == {Phase.backward}
    assert not any(run.inferred.phases.evident[none])  # by what lies around them, not by a stack
    names = run.grouping("frame").names
    assert "no stack (backward, inferred: its threads have no Python frames)" in names
    if name.startswith("npu"):
        assert [phase for phase, _, _ in run.phases if phase != Phase.other] == 3 * [
            Phase.forward, Phase.backward, Phase.optimizer,
        ]  # fmt: skip


def test_steps_end_with_their_optimizer_steps(snapshots: Path) -> None:
    run = opened(snapshots, "torch26-train-from-start")
    marks = run.recording.marks
    ends = [
        int(marks.event[row])
        for row in range(len(marks))
        if run.recording.strings[int(marks.text[row])] == "Optimizer.step#NIUAdam.step ends"
    ]
    assert run.inferred is not None
    assert run.inferred.steps == ((0, ends[0]), (ends[0], ends[1]), (ends[1], ends[2]))
    assert len(opened(snapshots, "npu26-expandable-unmap").inferred.steps) == 3
    assert len(opened(snapshots, "torch211-train").inferred.steps) == 1
    assert opened(snapshots, "torch211-windows-python-frames").inferred.steps == ()


def test_parameters_gradients_and_adam_state_are_found_one_one_and_two(snapshots: Path) -> None:
    run = opened(snapshots, "torch26-train-mid-run")
    at_peak = run.categories_at(run.peak_position)
    parameters = at_peak[Category.parameter]
    assert parameters == 3_877_647_360
    assert at_peak[Category.gradient] == parameters  # of the step before; this step's come after zero_grad freed them
    assert at_peak[Category.optimizer_state] == 2 * parameters
    assert at_peak[Category.activation] == 7_218_368_512
    assert run.coverage_at(run.peak_position) == 0.0
    assert run.inferred_coverage_at(run.peak_position) == pytest.approx(0.9964, abs=1e-4)
    assert sum(at_peak.values()) == run.peak_bytes


def test_where_parameters_and_state_look_alike_neither_is_guessed(snapshots: Path) -> None:
    compiled = opened(snapshots, "torch210-compile-train")  # adds to older gradients: no sizes to go by
    assert inferred_bytes(compiled, Category.parameter) == 0
    assert compiled.not_inferred_at(compiled.peak_position)[0][0] == Why.before
    rebinding = opened(snapshots, "torch26-train-from-start")  # its own Adam makes parameters anew in each step
    assert inferred_bytes(rebinding, Category.optimizer_state) == 0
    assert inferred_bytes(rebinding, Category.parameter) == 0
    assert dict(rebinding.not_inferred_at(rebinding.n_events))[Why.replaced] > 0
    assert inferred_bytes(rebinding, Category.autocast_cache) == 35_143_680


def test_the_peak_of_a_training_step_is_where_it_lies(snapshots: Path) -> None:
    found = {name: headline(opened(snapshots, name))[0].text for name in (*TRAINING, *PYTHON_ONLY)}
    assert found["torch211-train"] == "Peak 11.6 GiB in backward (inferred)"
    assert found["torch26-train-mid-run"] == "Peak 21.3 GiB in forward (inferred)"
    assert found["npu26-expandable-unmap"] == "Peak 570 MiB in the optimizer step (inferred)"
    assert all(text.endswith("(inferred)") for text in found.values())


@pytest.mark.parametrize("name", NO_BACKWARD)
def test_without_a_backward_pass_nothing_is_inferred_of_training(snapshots: Path, name: str) -> None:
    run = opened(snapshots, name)
    assert set(phases(run)) <= {Phase.forward, Phase.other}
    categories = set(run.attribution.category.tolist())
    assert categories <= {Category.unattributed, Category.workspace, Category.communication}
    assert {why for why, _ in run.not_inferred_at(run.peak_position)} == {Why.no_training}
    assert run.inferred is not None and run.inferred.steps == ()


def test_the_sum_is_closed_and_marked_in_every_file(snapshot_file: Path) -> None:
    run = Run(open_file(snapshot_file), name=snapshot_file.name)
    assert identities.check(run) == []
    known = run.attribution.category != Category.unattributed
    assert (run.attribution.inferred == known).all()  # a plain snapshot recorded no category
    assert (run.grouping("category").title == "category (inferred)") == known.any()
    position = run.peak_position
    guessed = sum(run.inferred_categories_at(position).values())
    rest = sum(size for _, size in run.not_inferred_at(position))
    assert guessed + rest == run.peak_bytes
    offered = [key for key in available(run) if key in ("inferred_phase", "operator", "user_module")]
    assert all(run.grouping(key).title.endswith("(inferred)") for key in offered)


def test_operators_and_forwards_are_named_by_their_stacks(snapshots: Path) -> None:
    run = opened(snapshots, "torch211-train")
    grouping, sizes = run.grouping("operator"), run.groups_at("operator", [run.peak_position])[:, 0]
    held = dict(zip(grouping.names, sizes.tolist()))
    frames = stacks_as_written(snapshots, "torch211-train", run)
    softmax = [i for i in run.allocations.alive(run.peak_position).tolist() if run.allocations.stack[i] >= 0]
    want = 0
    for row in softmax:
        ops = [f.split("::")[2] for f, _ in frames[int(run.allocations.start[row]) - 1] if f.startswith("at::_ops::")]
        want += int(run.allocations.bytes[row]) if [o for o in ops if "empty" not in o][:1] == ["exp"] else 0
    assert held["exp (operator)"] == want > 1 << 30
    assert "model.py:39 forward" in run.grouping("user_module").names


# A recording written out as a snapshot: what the recorder saw is the truth.


def exported(recording: Recording, folder: Path, annotated: bool, python_only: bool, first: int = 0) -> Run:
    """The same events as a plain snapshot, without the recorder's stamps; `python_only` as on CUDA, where the threads
    of the engine have no Python frames below a custom function."""
    value = as_recorded(recording)
    trace = value["device_traces"][-1][first:]
    value["device_traces"][-1] = trace
    if not annotated:
        value["external_annotations"] = []
    for event in trace:
        event.pop("user_metadata", None)
        if python_only:
            frames = event["frames"]
            engine = [i for i, f in enumerate(frames) if f["name"].startswith("autograd::engine")]
            event["frames"] = [f for f in frames[: engine[-1] if engine else None] if f["filename"]]
    path = folder / f"{annotated}-{python_only}-{first}.pickle"
    path.write_bytes(pickle.dumps(value, 2))
    return Run(open_file(path), name=path.name)


def matched(truth: Run, guess: Run, first: int = 0) -> tuple[Any, Any]:
    """Rows of the same allocations in both; what was there before has no event to be recognised by but its address."""
    lived = truth.allocations
    keys = {
        (int(a), max(int(s) - first, 0), int(e) - first): i
        for i, (a, s, e) in enumerate(zip(lived.address, lived.start, lived.end))
    }
    lives = zip(guess.allocations.address.tolist(), guess.allocations.start.tolist(), guess.allocations.end.tolist())
    pairs = [(keys[life], i) for i, life in enumerate(lives) if life in keys]
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])


def precision_and_recall(truth: Run, guess: Run, position: int, first: int = 0) -> tuple[float, float]:
    """Of the bytes alive at a position: rightly inferred / inferred, rightly inferred / all."""
    a, b = matched(truth, guess, first)
    alive = (truth.allocations.start[a] <= position) & (position < truth.allocations.end[a])
    a, b = a[alive], b[alive]
    size = truth.allocations.bytes[a]
    assert size.sum() >= 0.99 * truth.curve[position]
    named = guess.attribution.inferred[b]
    right = named & (guess.attribution.category[b] == truth.attribution.category[a])
    return float(size[right].sum() / size[named].sum()), float(size[right].sum() / size.sum())


VARIANTS = [(True, False), (False, False), (False, True)]
FLOORS = {
    "before": (0.999, 0.85),
    "after": (0.999, 0.68),
    "uniform": (0.97, 0.73),
    "uniform-checkpointed": (0.92, 0.47),
    "encoder-decoder": (0.999, 0.55),
    "irregular": (0.999, 0.86),
}
"""Precision and recall by bytes at the peak; what is missed are parameters and optimizer state older than the trace."""


@pytest.mark.parametrize(("annotated", "python_only"), VARIANTS)
@pytest.mark.parametrize("name", FLOORS)
def test_what_is_inferred_is_what_was_recorded(
    samples: Path, tmp_path: Path, name: str, annotated: bool, python_only: bool
) -> None:
    recording = open_file(samples / f"{name}.mstrata")
    truth = Run(recording)
    guess = exported(recording, tmp_path, annotated, python_only)
    precision, recall = precision_and_recall(truth, guess, truth.peak_position)
    assert precision >= FLOORS[name][0]
    assert recall >= FLOORS[name][1]
    persistent = (Category.parameter, Category.optimizer_state, Category.input)
    missed = truth.peak_bytes - sum(truth.categories_at(truth.peak_position).get(c, 0) for c in persistent)
    assert recall * truth.peak_bytes >= 0.94 * missed  # all but these is found
    agree = np.array(phases(guess)) == truth.spans.phase_of_events()
    assert agree.mean() >= 0.98


@pytest.mark.parametrize("phase", [Phase.forward, Phase.backward])
def test_a_trace_whose_beginning_was_lost_is_still_right(samples: Path, tmp_path: Path, phase: Phase) -> None:
    recording = open_file(samples / "before.mstrata")
    truth = Run(recording)
    begin, end = next((a, b) for p, a, b in truth.spans.phases() if p == phase)
    first = (begin + end) // 2
    guess = exported(recording, tmp_path, annotated=False, python_only=False, first=first)
    position = max(truth.peak_position, first + 10)
    precision, recall = precision_and_recall(truth, guess, position, first)
    assert precision >= 0.98
    assert recall >= 0.5


def test_a_step_that_raised_leaves_no_gradients(samples: Path, tmp_path: Path) -> None:
    """An annotation ends when an error leaves it, too: that is no sign that backward came to its end."""
    recording = open_file(samples / "raised.mstrata")
    for annotated in (True, False):
        guess = exported(recording, tmp_path, annotated, python_only=False)
        assert precision_and_recall(Run(recording), guess, Run(recording).peak_position)[0] == 1.0
        assert Why.cut in dict(guess.not_inferred_at(guess.n_events))


def test_recomputation_is_told_from_forward(samples: Path, tmp_path: Path) -> None:
    recording = open_file(samples / "after.mstrata")
    truth, guess = Run(recording), exported(recording, tmp_path, annotated=False, python_only=True)
    found = np.array(phases(guess))
    again = truth.spans.phase_of_events() == Phase.recompute
    assert (found[again] == Phase.recompute).all()
    assert truth.categories_at(truth.peak_position)[Category.rematerialized] == inferred_at(
        guess, truth.peak_position, Category.rematerialized
    )


def inferred_at(run: Run, position: int, category: Category) -> int:
    return run.inferred_categories_at(position)[category]


@pytest.mark.parametrize("name", ["before", "after", "irregular"])
def test_a_recording_is_never_inferred(samples: Path, name: str) -> None:
    run = Run(open_file(samples / f"{name}.mstrata"))
    assert run.inferred is None and not run.phases_inferred
    assert not run.attribution.inferred.any()
    assert run.inferred_coverage_at(run.peak_position) == 0.0 < run.coverage_at(run.peak_position)
    assert not [key for key in available(run) if "inferred" in run.grouping(key).title]


def test_a_comparison_says_which_side_is_inferred(samples: Path, tmp_path: Path) -> None:
    recording = open_file(samples / "before.mstrata")
    a, b = Run(recording, name="a"), exported(recording, tmp_path, annotated=True, python_only=False)
    rows = {row.category: row for row in Diff(a, b).by_category}
    assert rows["activation"].label == "activation (inferred in B)"
    assert rows["activation"].difference_bytes == 0
    assert rows["optimizer state"].label == "optimizer state"
    assert {row.label for row in Diff(b, b).by_category} >= {"activation (inferred)", "unattributed"}


def test_a_million_events_of_many_steps(snapshots: Path) -> None:
    small = opened(snapshots, "torch211-train")
    times = 1_000_000 // small.n_events
    events = small.recording.events
    columns = {f.name: np.tile(getattr(events, f.name), times) for f in schema.columns_of(schema.Events)}
    period = int(events.time[-1] - events.time[0]) + 1000
    columns["time"] = np.concatenate([events.time + i * period for i in range(times)])
    big = Run(dataclasses.replace(small.recording, events=schema.from_columns(schema.Events, **columns)))
    moved, allocations = big.events, big.allocations
    found = infer(big.recording, moved, allocations)
    assert len(found.steps) == times - 1  # the annotation that ends a step stands in the first copy only
    assert (moved.action == Action.alloc).sum() > 300_000
