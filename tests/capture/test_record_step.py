"""The decorator and the context manager: which call is recorded, what is found, what bad input does."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from memstrata.capture import CaptureError, Recorder, record_step
from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Action, Phase, StorageKind
from memstrata.capture.format.units import bytes_text
from memstrata.capture.summary import peak_bytes

from .recordings import codes, gradients, mlp, module_paths, record


def train(path: Path, calls: int, **options: Any) -> tuple[Any, nn.Module]:
    """A decorated AdamW step called `calls` times."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())

    @record_step(path, **options)
    def step(x: torch.Tensor) -> float:
        """Trains."""
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return float(loss)

    for _ in range(calls):
        step(torch.randn(8, 16))
    return step, model


def test_the_fourth_call_is_recorded_by_default(tmp_path: Path) -> None:
    path = tmp_path / "a.mstrata"
    train(path, 3)
    assert not path.exists()
    step, _ = train(path, 4)
    meta = files.read(path).meta
    assert meta.step_index == 3 and step.__doc__ == "Trains."
    assert meta.step_seconds_recorded > 0 and meta.step_seconds_unrecorded > 0
    written = path.stat().st_mtime_ns
    step(torch.randn(8, 16))
    assert path.stat().st_mtime_ns == written


@pytest.mark.parametrize("warmup, known", [(0, False), (1, False), (2, True)])
def test_the_unrecorded_step_time_needs_two_other_calls(tmp_path: Path, warmup: int, known: bool) -> None:
    train(tmp_path / "a.mstrata", warmup + 1, warmup=warmup)
    assert (files.read(tmp_path / "a.mstrata").meta.step_seconds_unrecorded is not None) == known


def test_model_optimizer_and_device_are_found(tmp_path: Path) -> None:
    train(tmp_path / "a.mstrata", 4)
    recording = files.read(tmp_path / "a.mstrata")
    meta, known = recording.meta, recording.known_storages
    assert (meta.model, meta.optimizer, meta.devices[0].name, meta.source) == ("Sequential", "AdamW", "cpu", "cpu")
    kinds = [StorageKind(k) for k in known.kind]
    assert kinds.count(StorageKind.parameter) == 4
    assert kinds.count(StorageKind.optimizer_state) == 3 * 4  # exp_avg, exp_avg_sq, step
    assert kinds.count(StorageKind.gradient) == 2 * 4  # those of the step before, freed by zero_grad, and the new ones
    gone = [k for k, end in zip(kinds, known.end_time, strict=True) if end >= 0]
    assert gone.count(StorageKind.gradient) == 4
    names = {recording.strings[int(n)] for n in known.name}
    assert {"0.0.weight", "gradient of 0.0.weight", "exp_avg of 0.0.weight", "args[0]"} <= names


def test_bytes_of_parameters_gradients_and_state_by_hand(tmp_path: Path) -> None:
    train(tmp_path / "a.mstrata", 4)
    recording = files.read(tmp_path / "a.mstrata")
    weight = 16 * 16 * 4
    frees = recording.events.action == Action.free_completed
    assert (recording.events.bytes[frees] == weight).sum() >= 4  # the gradients zero_grad let go of
    end = int(recording.blocks.requested_bytes.sum())
    state = 4 * (2 * weight + 4)  # `step` is a float32 scalar
    activations_alive = 8 * 16 * 4  # the input of the call is still held by the test
    assert end >= 4 * weight + 4 * weight + state + activations_alive
    assert end < 4 * weight + 4 * weight + state + activations_alive + 2048


def test_events_pair_perfectly_and_are_in_order(tmp_path: Path) -> None:
    train(tmp_path / "a.mstrata", 4)
    events = files.read(tmp_path / "a.mstrata").events
    assert (np.diff(events.time) >= 0).all()
    alive: dict[int, int] = {}
    for action, address, size in zip(events.action, events.address, events.bytes, strict=True):
        if action == Action.alloc:
            assert int(address) not in alive
            alive[int(address)] = int(size)
        else:
            assert alive.pop(int(address), int(size)) == size


def test_phases_cover_the_step_without_gaps(tmp_path: Path) -> None:
    train(tmp_path / "a.mstrata", 4)
    spans = files.read(tmp_path / "a.mstrata").spans
    rows = np.flatnonzero(spans.module == -1)
    assert (spans.end_time[rows[:-1]] == spans.start_time[rows[1:]]).all()
    phases = [Phase(spans.phase[r]).name for r in rows]
    assert [p for p in phases if p != "other"] == ["forward", "backward", "optimizer"]


def test_each_layer_has_one_backward_span_in_reverse_order(tmp_path: Path) -> None:
    model = mlp(4)
    recording = record(tmp_path / "a.mstrata", lambda: model(torch.randn(8, 16)).sum().backward())
    assert module_paths(recording, Phase.backward) == ["3", "2", "1", "0"]


def test_the_recorded_model_is_the_one_the_optimizer_holds(tmp_path: Path) -> None:
    teacher, student, loss = mlp(4), mlp(2), nn.MSELoss()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)

    def step() -> None:
        x = torch.randn(8, 16)
        with torch.no_grad():
            target = teacher(x)
        loss(student(x), target).backward()
        optimizer.step()

    recording = record(tmp_path / "a.mstrata", step)
    assert len(recording.layers) == 2
    assert "2" not in module_paths(recording, Phase.forward)


def test_a_model_whose_blocks_are_called_one_by_one_is_found(tmp_path: Path) -> None:
    model = mlp(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        x = torch.randn(8, 16)
        for block in model:
            x = block(x)
        x.sum().backward()
        optimizer.step()

    recording = record(tmp_path / "a.mstrata", step)
    assert len(recording.layers) == 3 and recording.meta.shapes == {"args[0]": [8, 16]}


@dataclass
class Output:
    logits: torch.Tensor
    extra: dict[str, torch.Tensor]


class Keywords(nn.Module):
    """Keyword-only input, dataclass output, an in-place add, one layer called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, *, tokens: torch.Tensor) -> Output:
        y = self.layer(self.layer(tokens).relu_()) * 1
        y += tokens
        return Output(y, {"mean": y.mean()})


def test_keyword_inputs_and_dataclass_outputs(tmp_path: Path) -> None:
    model = Keywords()
    recording = record(tmp_path / "a.mstrata", lambda: model(tokens=torch.randn(2, 3, 16)).logits.sum().backward())
    assert recording.meta.shapes == {"tokens": [2, 3, 16]}
    assert (recording.meta.batch, recording.meta.sequence) == (2, 3)
    spans = recording.spans
    rows = [i for i in range(len(spans)) if spans.module[i] == 1 and spans.phase[i] == Phase.forward]
    assert [int(spans.call[i]) for i in rows] == [0, 1]
    assert "recorder_failure" not in codes(recording)


def test_a_forward_that_raises_and_is_caught_leaves_no_open_module(tmp_path: Path) -> None:
    class Fragile(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fine = nn.Linear(16, 16)

        def forward(self, x: torch.Tensor, fail: bool) -> torch.Tensor:
            if fail:
                raise ValueError
            return self.fine(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Fragile(), Fragile()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                self.a(x, fail=True)
            except ValueError:
                pass
            return self.b(x, fail=False)

    model = Model()
    recording = record(tmp_path / "a.mstrata", lambda: model(torch.randn(2, 16)).sum().backward())
    saved, modules = recording.saved_tensors, recording.modules
    assert {recording.strings[int(modules.path[m])] for m in saved.module} == {"b.fine", ""} - (
        set() if (saved.module == 0).any() else {""}
    )


def test_a_forward_in_a_worker_thread_has_its_own_spans(tmp_path: Path) -> None:
    model = mlp(2)
    outputs: list[torch.Tensor] = []

    def step() -> None:
        model(torch.randn(8, 16)).sum().backward()
        worker = threading.Thread(target=lambda: outputs.append(model(torch.randn(8, 16))))
        worker.start()
        worker.join()
        outputs[0].sum().backward()

    recording = record(tmp_path / "a.mstrata", step)
    assert module_paths(recording, Phase.forward).count("0") == 2
    assert len(set(recording.spans.thread.tolist())) >= 2


def test_a_model_without_parameters_is_recorded(tmp_path: Path) -> None:
    x = torch.randn(4, 4, requires_grad=True)
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    recording = record(tmp_path / "a.mstrata", lambda: model(x).sum().backward())
    assert "no_parameters" in codes(recording)
    assert [recording.strings[int(recording.modules.path[m])] for m in recording.layers.module] == ["0", "1"]


def test_a_step_without_a_module_says_so_and_writes_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Recorder(tmp_path / "a.mstrata") as recorder:
        torch.randn(3, requires_grad=True).sum().backward()
    assert not recorder.written and list(tmp_path.iterdir()) == []
    assert "memstrata: the step was not recorded: it ran no torch.nn.Module." in capfd.readouterr().err


def test_the_last_line_names_file_peak_and_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, path = mlp(), tmp_path / "a.mstrata"
    recording = record(path, lambda: model(torch.randn(8, 16)).sum().backward())
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert last.startswith(f"memstrata: recorded {path}: peak ") and last.endswith(f"memstrata view {path}")
    assert bytes_text(peak_bytes(recording)) in last


@pytest.mark.parametrize("arguments, words", [
    ({"path": "/nowhere/at/all/a.mstrata"}, "does not exist"),
    ({"path": "."}, "is a folder"),
    ({"path": "a.mstrata", "warmup": -1}, "cannot be -1"),
    ({"path": "a.mstrata", "super_block": 0}, "at least one layer"),
    ({"path": "a.mstrata", "source": "tpu"}, "'cpu' or 'cuda'"),
    ({"path": lambda: None}, "needs parentheses"),
])  # fmt: skip
def test_misuse_is_said_before_training(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        record_step(**arguments)


def test_a_full_disk_loses_no_earlier_file_and_training_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "a.mstrata"
    path.write_bytes(b"an earlier file")
    model = mlp(1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))  # no file may grow beyond 1 KiB
    try:
        with Recorder(path) as recorder:
            model(torch.randn(2, 16)).sum().backward()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not recorder.written and gradients(model)
    assert path.read_bytes() == b"an earlier file" and list(tmp_path.iterdir()) == [path]
    assert "memstrata: the step was not recorded: " in capfd.readouterr().err


def test_a_profiler_that_is_running_already_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = mlp(1)
    with torch.profiler.profile(), Recorder(tmp_path / "a.mstrata") as recorder:
        model(torch.randn(2, 16)).sum().backward()
    assert not recorder.written
    assert "another profiler" in capfd.readouterr().err


M8_PEAKS = {"none": 152, "every linear": 152, "whole": 152, "per block": 68, "all but the last": 68}


@pytest.mark.parametrize("how", M8_PEAKS)
def test_peaks_of_a_known_model(tmp_path: Path, how: str) -> None:
    """8 blocks of Linear-GELU-Linear-GELU, 2048 x 512 float32, sum loss; MiB measured independently."""

    class Checkpointed(nn.Module):
        def __init__(self, body: nn.Module) -> None:
            super().__init__()
            self.body = body

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.utils.checkpoint.checkpoint(self.body, x, use_reentrant=False)

    model: nn.Module = mlp(8, 512)
    if how == "every linear":
        for block in model.children():
            block[0], block[2] = Checkpointed(block[0]), Checkpointed(block[2])  # type: ignore[index, operator]
    elif how == "whole":
        model = Checkpointed(model)
    elif how != "none":
        last = 8 if how == "per block" else 7
        model = nn.Sequential(*[Checkpointed(b) if i < last else b for i, b in enumerate(model.children())])
    x = torch.randn(2048, 512)
    recording: Recording = record(tmp_path / "a.mstrata", lambda: model(x).sum().backward(), model=model)
    assert peak_bytes(recording) / 2**20 == pytest.approx(M8_PEAKS[how], abs=0.1)


def test_stacks_hold_the_users_frames_and_none_of_the_recorders(tmp_path: Path) -> None:
    model = mlp(1)

    def my_step() -> None:
        model(torch.randn(8, 16)).sum().backward()

    recording = record(tmp_path / "a.mstrata", my_step)
    for stacks in (recording.saved_tensors.stack, recording.events.stack[recording.events.action == Action.alloc]):
        frames = [recording.stack_frames(int(stack)) for stack in stacks]
        assert all(any(name == "my_step" for name, _, _ in stack) for stack in frames)
        files_seen = {file for stack in frames for _, file, _ in stack}
        assert not {f for f in files_seen if "capture/" in f and "tests/" not in f}


def test_a_compiled_model_is_recorded_and_said(tmp_path: Path) -> None:
    results = []
    for recorded in (False, True):
        model = mlp(2)
        compiled = torch.compile(model, backend="aot_eager")
        x = torch.ones(8, 16)
        compiled(x).sum().backward()  # compiled before the recording, as in training
        model.zero_grad()
        if recorded:
            recording = record(tmp_path / "a.mstrata", lambda c=compiled, x=x: c(x).sum().backward())
        else:
            compiled(x).sum().backward()
        results.append(gradients(model))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert "compiled" in codes(recording) and "recorder_failure" not in codes(recording)
