"""Several steps in one recording, the steps around them, and where a step ends in a loop that does not say."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from memstrata.capture import CaptureError, Recorder, record_step
from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Phase
from memstrata.viewer.analysis.steps import steady_state, steps_of, throughput
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.json import report_json
from memstrata.viewer.report.text import report_text

from .recordings import codes, mlp, tensors_of

WIDTH = 16
pytestmark = pytest.mark.usefixtures("one_thread")


class Training:
    """AdamW on a small model; `step` trains on so many rows."""

    def __init__(self) -> None:
        self.model = mlp()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.random = torch.Generator().manual_seed(1)
        self.losses: list[float] = []

    def step(self, rows: int = 8) -> None:
        self.optimizer.zero_grad()
        loss = self.model(torch.randn(rows, WIDTH, generator=self.random)).square().sum()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())


def loop(path: Path, train: Callable[[], Any], **options: Any) -> Recording:
    """Record a training loop and read the file."""
    with Recorder(path, **options):
        train()
    return files.read(path)


def indices(recording: Recording, recorded: bool) -> list[int]:
    return recording.steps.index[recording.steps.recorded == recorded].tolist()


def test_three_calls_in_one_recording_with_the_calls_around_them(tmp_path: Path) -> None:
    training, path = Training(), tmp_path / "a.mstrata"
    step = record_step(path, steps=3)(training.step)
    for rows in range(4, 10):
        step(rows)
    first = files.read(path)
    assert (indices(first, True), indices(first, False)) == ([3, 4, 5], [0, 1, 2])
    for rows in range(10, 14):
        step(rows)
    recording = files.read(path)
    steps = recording.steps
    assert (indices(recording, True), indices(recording, False)) == ([3, 4, 5], [0, 1, 2, 6, 7, 8])
    assert steps.tokens.tolist() == [-1, 5, 6, 7, 8, 9, 10, 11, 12]  # the model is only looked for in the first
    assert steps.loss[3:6].tolist() == training.losses[3:6] and np.isnan(steps.loss[[0, 1, 2, 6, 7, 8]]).all()
    assert (steps.end_time > steps.start_time).all() and (steps.start_time[1:] >= steps.end_time[:-1]).all()
    seconds = (steps.end_time - steps.start_time) / 1e9
    meta = recording.meta
    assert meta.step_seconds_unrecorded == pytest.approx(np.median(seconds[[1, 2, 6, 7, 8]]))
    assert meta.step_seconds_recorded == pytest.approx(np.median(seconds[3:6]))
    timed = [1, 2, 6, 7, 8]
    assert throughput(recording) == pytest.approx(steps.tokens[timed].sum() / seconds[timed].sum())
    assert meta.step_index == 3 and meta.trigger is None
    assert identities.check(Run(recording)) == []


def test_spans_and_saved_tensors_of_each_step_lie_within_it(tmp_path: Path) -> None:
    training, path = Training(), tmp_path / "a.mstrata"
    step = record_step(path, steps=3, warmup=0)(training.step)
    for _ in range(3):
        step()
    recording = files.read(path)
    spans, steps, saved = recording.spans, recording.steps, recording.saved_tensors
    for row in range(3):
        start, end = steps.start_time[row], steps.end_time[row]
        inside = (spans.start_time >= start) & (spans.end_time <= end)
        phases = [Phase(p).name for p in spans.phase[inside & (spans.module == -1)] if p != Phase.other]
        assert phases == ["forward", "backward", "optimizer"]
        assert ((saved.time >= start) & (saved.time <= end)).sum() == len(saved) / 3


def test_what_each_step_needs_and_leaves_behind(tmp_path: Path) -> None:
    """A step that keeps a (1024, 16) float32 tensor for ever: 64 KiB more each time, and its line is named."""
    training, path = Training(), tmp_path / "a.mstrata"
    kept: list[torch.Tensor] = []

    @record_step(path, steps=3)
    def leaking_step() -> None:
        training.step()
        kept.append(torch.zeros(1024, WIDTH))

    for _ in range(6):
        leaking_step()
    run = Run(files.read(path))
    recorded = [s for s in steps_of(run) if s.recorded]
    assert [s.growth_bytes for s in recorded] == [None, 65536, 65536]
    assert [s.end_bytes - recorded[0].end_bytes for s in recorded] == [0, 65536, 131072]
    assert all(s.peak_bytes == run.curve[s.peak_position] == s.query.bytes(run) for s in recorded)
    for step in recorded[1:]:
        assert step.remainders[0].bytes == 65536 and "leaking_step" in step.remainders[0].frame
        assert sum(r.bytes for r in step.remainders) == step.growth_bytes
    assert steady_state(steps_of(run)).peak_bytes == recorded[0].peak_bytes - (
        (recorded[1].peak_bytes + recorded[2].peak_bytes) / 2
    )
    text = report_text(run.recording, "a.mstrata")
    assert "+64.0 KiB" in text and "left behind by step 4" in text and "leaking_step" in text
    steps = report_json(run.recording, "a.mstrata")["steps"]
    assert [s["growth_bytes"] for s in steps if s["recorded"]] == [None, 65536, 65536]
    assert steps[0] == {
        "index": 0, "recorded": False, "seconds": steps[0]["seconds"], "tokens": None, "tokens_per_second": None,
        "loss": None, "peak_bytes": None, "end_bytes": None, "growth_bytes": None, "growth": [],
    }  # fmt: skip


def test_what_one_step_hands_to_the_next_is_no_growth(tmp_path: Path) -> None:
    """The caller holds the result of a call until the next one: freed between the calls, and seen."""
    training, path, held = Training(), tmp_path / "a.mstrata", [torch.empty(0)]

    @record_step(path, steps=3, warmup=1)
    def step() -> torch.Tensor:
        training.step()
        return torch.zeros(1024, WIDTH)

    for _ in range(4):
        held[0] = step()
    recorded = [s for s in steps_of(Run(files.read(path))) if s.recorded]
    assert [s.growth_bytes for s in recorded] == [None, 65536, 0]  # two alive at once: one is let go after the call


def test_a_model_that_runs_between_two_recorded_calls_is_left_out_and_said(tmp_path: Path) -> None:
    training, path = Training(), tmp_path / "a.mstrata"
    step = record_step(path, steps=2, warmup=0)(training.step)
    step()
    with torch.no_grad():
        for _ in range(5):
            training.model(torch.randn(4096, WIDTH))
    step()
    recording = files.read(path)
    assert "frees_missed" in codes(recording) and len(recording.steps) == 2
    large = recording.events.bytes >= 4096 * WIDTH * 4
    assert large.sum() == 1  # the input, made before the model was called
    assert identities.check(Run(recording)) == []


def test_the_results_of_a_recorded_run_are_those_of_an_unrecorded_one(tmp_path: Path) -> None:
    found = []
    for how in ("plain", "calls", "loop", "armed"):
        training = Training()
        step: Callable[[], None] = training.step
        if how == "calls":
            step = record_step(tmp_path / "a.mstrata", steps=2, warmup=1)(step)
        if how in ("loop", "armed"):
            options: dict[str, Any] = {"steps": 2, "warmup": 1} if how == "loop" else {"on": "peak"}
            with Recorder(tmp_path / f"{how}.mstrata", **options):
                for _ in range(6):
                    step()
        else:
            for _ in range(6):
                step()
        found.append(tensors_of(training.model))
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_a_loop_is_cut_at_its_optimizer_steps(tmp_path: Path) -> None:
    training, path, seen = Training(), tmp_path / "a.mstrata", list[bool]()

    def steps() -> None:
        for number in range(8):
            training.step(4 + number)
            seen.append(path.exists())

    recording = loop(path, steps, steps=2, warmup=3)
    assert (indices(recording, True), indices(recording, False)) == ([3, 4], [0, 1, 2, 5, 6, 7])
    assert seen.index(True) == 5  # at the first forward after the last recorded step
    steps_table = recording.steps
    assert steps_table.tokens[steps_table.recorded].tolist() == [7, 8]
    assert steps_table.loss[steps_table.recorded].tolist() == training.losses[3:5]
    bounds = np.sort(np.concatenate([steps_table.start_time[:5], steps_table.end_time[:5]]))
    assert (bounds[1:-1:2] <= bounds[2::2]).all()
    rows = np.flatnonzero((recording.spans.module == -1) & (recording.spans.phase == Phase.optimizer))
    assert len(rows) == 2 and recording.spans.end_time.max() <= steps_table.end_time[4]
    assert (recording.events.time <= steps_table.end_time[4]).all()
    assert (recording.events.time >= steps_table.start_time[3]).all()
    assert identities.check(Run(recording)) == []


def accumulate(training: Training) -> None:
    for _ in range(3):
        training.optimizer.zero_grad()
        for _ in range(2):
            training.model(torch.randn(4, WIDTH)).sum().backward()
        training.optimizer.step()


def two_at_once(training: Training) -> None:
    halves = [torch.optim.SGD(part.parameters(), lr=0.1) for part in training.model.children()]
    for _ in range(3):
        training.model(torch.randn(4, WIDTH)).sum().backward()
        for optimizer in halves:
            optimizer.step()
            optimizer.zero_grad()


def inside_backward(training: Training) -> None:
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in training.model.parameters()}
    handles = [p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step()) for p in optimizers]
    for _ in range(3):
        training.model(torch.randn(4, WIDTH)).sum().backward()
    for handle in handles:
        handle.remove()


def closures(training: Training) -> None:
    optimizer = torch.optim.LBFGS(training.model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = training.model(torch.ones(4, WIDTH)).square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)


def evaluated(training: Training) -> None:
    for _ in range(3):
        training.step(4)
        with torch.no_grad():
            training.model(torch.randn(2, WIDTH))


@pytest.mark.parametrize("train", [accumulate, two_at_once, inside_backward, closures, evaluated])
def test_three_rounds_are_three_steps(tmp_path: Path, train: Callable[[Training], None]) -> None:
    training = Training()
    recording = loop(tmp_path / "a.mstrata", lambda: train(training), steps=2)
    assert indices(recording, True) == [0, 1]
    steps, spans = recording.steps, recording.spans
    backward = spans.start_time[(spans.module == -1) & (spans.phase == Phase.backward)]
    for row in range(2):
        assert ((backward >= steps.start_time[row]) & (backward <= steps.end_time[row])).any()
    per_step = {accumulate: 8, evaluated: 4}.get(train, 4)
    if train is not closures:
        assert set(steps.tokens[:1].tolist()) == {per_step}
    assert "recorder_failure" not in codes(recording)


def test_the_steps_are_counted_and_a_loop_that_is_too_short_writes_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    training = Training()
    with Recorder(tmp_path / "a.mstrata", steps=1, warmup=3) as recorder:
        for _ in range(3):
            training.step()
        with torch.no_grad():
            training.model(torch.randn(2, WIDTH))
    assert (recorder.steps_seen, recorder.written, list(tmp_path.iterdir())) == (3, False, [])
    assert capfd.readouterr().err == "memstrata: only 3 steps ran: nothing was recorded; use warmup=2.\n"


def test_the_last_step_of_a_loop_is_recorded_though_no_forward_follows(tmp_path: Path) -> None:
    training = Training()
    recording = loop(tmp_path / "a.mstrata", lambda: [training.step() for _ in range(4)], steps=1, warmup=3)
    assert indices(recording, True) == [3]
    assert recording.steps.loss[3] == training.losses[3]


def test_a_loop_without_an_optimizer_is_one_step(tmp_path: Path) -> None:
    model = mlp()
    recording = loop(tmp_path / "a.mstrata", lambda: model(torch.randn(4, WIDTH)).sum().backward(), steps=2)
    assert indices(recording, True) == [0]


def test_an_error_in_a_loop_is_raised_and_what_ran_until_then_is_written(tmp_path: Path) -> None:
    training, path = Training(), tmp_path / "a.mstrata"
    with pytest.raises(KeyError), Recorder(path, steps=3):
        training.step()
        training.model(torch.randn(4, WIDTH))
        raise KeyError
    recording = files.read(path)
    assert recording.steps.index.tolist() == [0, 1]
    assert recording.steps.end_time[0] > 0 and recording.steps.end_time[1] == -1
    assert "step_raised" in codes(recording)


def test_nothing_is_left_installed_and_nothing_is_held(tmp_path: Path) -> None:
    from torch.nn.modules import module as nn_module
    from torch.optim import optimizer as torch_optimizer

    dictionaries = (
        nn_module._global_forward_pre_hooks, nn_module._global_forward_hooks,
        torch_optimizer._global_optimizer_pre_hooks, torch_optimizer._global_optimizer_post_hooks,
    )  # fmt: skip
    before = [len(found) for found in dictionaries]
    gc.collect()
    old = {id(o) for o in gc.get_objects()}  # what earlier tests left behind, in the traceback of a failure say
    training = Training()
    step = record_step(tmp_path / "a.mstrata", steps=2, warmup=1)(training.step)
    for _ in range(7):
        step()
    assert [len(found) for found in dictionaries] == before
    loop(tmp_path / "b.mstrata", lambda: [training.step() for _ in range(8)], steps=2, warmup=1)
    assert [len(found) for found in dictionaries] == before
    gc.collect()
    assert not [o for o in gc.get_objects() if type(o).__name__ in ("Saved", "ModuleCall") and id(o) not in old]


def test_a_file_that_was_moved_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    training, path = Training(), tmp_path / "a.mstrata"
    step = record_step(path, warmup=0)(training.step)
    step()
    path.rename(tmp_path / "b.mstrata")
    for _ in range(4):
        step()
    assert [p.name for p in tmp_path.iterdir()] == ["b.mstrata"]


def test_a_function_that_is_dropped_early_leaves_what_it_timed(tmp_path: Path) -> None:
    training, path = Training(), tmp_path / "a.mstrata"
    step = record_step(path, warmup=0)(training.step)
    for _ in range(3):
        step()
    assert len(files.read(path).steps) == 1
    del step
    recording = files.read(path)
    assert indices(recording, False) == [1, 2] and recording.meta.step_seconds_unrecorded is not None


def test_calls_of_itself_and_of_other_threads_are_no_steps(tmp_path: Path) -> None:
    from threading import Thread

    training, path = Training(), tmp_path / "a.mstrata"

    @record_step(path, steps=2, warmup=0)
    def step(depth: int) -> None:
        training.step()
        if depth:
            step(depth - 1)

    step(1)
    other = Thread(target=step, args=(0,))
    other.start()
    other.join()
    step(0)
    assert indices(files.read(path), True) == [0, 1]


@pytest.mark.parametrize("options, words", [
    ({"steps": 0}, "At least one step"),
    ({"on": "fire"}, "'oom', 'peak', 'signal', not 'fire'"),
    ({"on": "oom", "steps": 2}, "exclude each other"),
    ({"on": "oom", "keep": -1}, "cannot be -1"),
    ({"keep": 2}, "needs on"),
    ({"on": "oom", "signal": 10}, "needs it"),
    ({"warmup": -2}, "cannot be -2"),
])  # fmt: skip
def test_misuse_is_said_before_training(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    for ask in (Recorder, record_step):
        with pytest.raises(CaptureError, match=words):
            ask(tmp_path / "a.mstrata", **options)
