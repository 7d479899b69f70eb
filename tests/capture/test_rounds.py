"""Steps as people really write them: several rounds, closures, optimizers inside backward, nested checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

from memstrata.capture import Recorder
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Fate, Phase, StorageKind
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run

from .recordings import codes, fates, gradients, mlp, module_paths, record, saved_bytes

ONE = 32 * 16 * 4


def x() -> torch.Tensor:
    torch.manual_seed(5)
    return torch.randn(32, 16)


def phases(recording: Recording) -> list[str]:
    """The phases of the step in order, recomputations and the rest left out."""
    spans = recording.spans
    rows = [i for i in range(len(spans)) if spans.module[i] == -1 and spans.phase[i] != Phase.recompute]
    return [name for name in (Phase(spans.phase[i]).name for i in rows) if name != "other"]


def checked(path: Path, step: Callable[[], object], **options: object) -> Recording:
    """Record, and hold the recording against the accounting identities."""
    recording = record(path, step, **options)
    assert identities.check(Run(recording)) == []
    assert "recorder_failure" not in codes(recording)
    return recording


def bit_equal(folder: Path, model: nn.Module, step: Callable[[], object]) -> Recording:
    """The recording of a step whose gradients are the same to the bit without it."""
    step()
    plain = gradients(model)
    model.zero_grad()
    recording = checked(folder / "a.mstrata", step, model=model)
    recorded = gradients(model)
    assert len(plain) == len(recorded) > 0
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))
    return recording


def test_gradient_accumulation_has_a_round_for_each_batch(tmp_path: Path) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        for _ in range(3):
            model(x()).sum().backward()
        optimizer.step()

    recording = checked(tmp_path / "a.mstrata", step)
    assert phases(recording) == ["forward", "backward"] * 3 + ["optimizer"]
    assert module_paths(recording, Phase.backward).count("0") == 3


def test_an_optimizers_closure_runs_forward_and_backward_inside_it(tmp_path: Path) -> None:
    model = mlp(1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x()).square().sum()
        loss.backward()
        return loss

    found = phases(checked(tmp_path / "a.mstrata", lambda: optimizer.step(closure)))
    assert found[0] == found[-1] == "optimizer"
    assert found.count("backward") >= 2 and found.count("forward") >= 2


def test_an_optimizer_inside_backward(tmp_path: Path) -> None:
    model = mlp(2)
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def after(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(after)
    recording = checked(tmp_path / "a.mstrata", lambda: model(x()).sum().backward())
    assert phases(recording).count("optimizer") == 4 and module_paths(recording, Phase.recompute) == []
    known = recording.known_storages
    assert (known.kind == StorageKind.gradient).sum() == 4 and gradients(model) == []


def test_nested_checkpoints(tmp_path: Path) -> None:
    model = mlp(2)

    def inner(y: torch.Tensor) -> torch.Tensor:
        for block in model:
            y = checkpoint(block, y, use_reentrant=False)
        return y

    recording = bit_equal(tmp_path, model, lambda: checkpoint(inner, x(), use_reentrant=False).sum().backward())
    assert fates(recording)["dropped"] > 0 and fates(recording)["rematerialized"] > 0


def test_selective_checkpointing_gives_the_same_gradients(tmp_path: Path) -> None:
    model = mlp(2)
    keep = lambda: create_selective_checkpoint_contexts([torch.ops.aten.mm.default])

    def step() -> None:
        checkpoint(model, x(), use_reentrant=False, context_fn=keep).sum().backward()

    recording = bit_equal(tmp_path, model, step)
    assert saved_bytes(recording, Fate.rematerialized) > 0


def test_checkpoint_sequential(tmp_path: Path) -> None:
    model = mlp(4)
    recording = checked(
        tmp_path / "a.mstrata",
        lambda: checkpoint_sequential(model, 2, x(), use_reentrant=False).sum().backward(),
        model=model,
    )
    assert recording.meta.plan == (("0", "1"),)  # torch never checkpoints the last segment
    assert saved_bytes(recording, Fate.kept) == 8 * ONE  # the boundary and the last two blocks' seven


def test_a_hook_left_open_stays_in_force_without_the_recorder(tmp_path: Path) -> None:
    model, left = mlp(1), ExitStack()
    pack = lambda t: t.detach()

    def step() -> None:
        left.enter_context(saved_tensors_hooks(pack, lambda t: t))
        model(x()).sum().backward()

    push = torch._C._autograd._push_saved_tensors_default_hooks
    with left:
        record(tmp_path / "a.mstrata", step)
        assert torch._C._autograd._top_saved_tensors_default_hooks(False)[0] is pack
    assert torch._C._autograd._push_saved_tensors_default_hooks is push
    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None


def test_memory_of_numpy_at_one_address_after_another(tmp_path: Path) -> None:
    model, buffer = mlp(1), np.ones((32, 16), np.float32)

    def step() -> None:
        for _ in range(3):
            model(torch.from_numpy(buffer)).sum().backward()

    checked(tmp_path / "a.mstrata", step)


def test_a_lazy_module_of_an_optimizers_model(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.LazyLinear(4))
    unused = nn.ModuleDict({"model": model, "never": nn.LazyLinear(3)})

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = unused

        def forward(self, y: torch.Tensor) -> torch.Tensor:
            return self.parts["model"](y)

    whole = Whole()
    checked(tmp_path / "a.mstrata", lambda: whole(x()).sum().backward())


def test_a_forward_on_another_thread_is_said_to_be_seen_in_part(tmp_path: Path) -> None:
    model = mlp(1)

    def step() -> None:
        model(x()).sum().backward()
        worker = threading.Thread(target=lambda: model(x()).sum().backward())
        worker.start()
        worker.join()

    assert "other_threads" in codes(checked(tmp_path / "a.mstrata", step))


def test_a_step_without_a_backward_and_one_in_inference_mode(tmp_path: Path) -> None:
    model = mlp(1)
    assert phases(checked(tmp_path / "a.mstrata", lambda: model(x()))) == ["forward"]
    with torch.inference_mode():
        recording = checked(tmp_path / "b.mstrata", lambda: model(x()))
    assert fates(recording) == {}


def test_an_interrupt_is_raised_and_recorded(tmp_path: Path) -> None:
    model = mlp(1)
    with pytest.raises(KeyboardInterrupt), Recorder(tmp_path / "a.mstrata") as recorder:
        model(x())
        raise KeyboardInterrupt
    assert recorder.written


def test_batch_norm_and_rnn(tmp_path: Path) -> None:
    norm = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16))
    recording = checked(tmp_path / "a.mstrata", lambda: norm(x()).sum().backward())
    kinds = [StorageKind(k) for k in recording.known_storages.kind]
    assert kinds.count(StorageKind.buffer) == 3  # mean, variance, number of batches
    lstm = nn.LSTM(16, 16, num_layers=2)
    checked(tmp_path / "b.mstrata", lambda: lstm(torch.randn(8, 4, 16))[0].sum().backward())
