"""Recording never changes what training computes, leaks nothing, and puts everything back."""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.optim import optimizer as torch_optimizer
from torch.utils.checkpoint import checkpoint

from memstrata.capture import Recorder, record_step
from memstrata.capture.format import files

from .recordings import codes, fates, gradients, mlp, record


class Dropped(nn.Module):
    """A block with dropout, checkpointed or not."""

    def __init__(self, checkpointed: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(64, 16))
        self.checkpointed = checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.body, x, use_reentrant=False) if self.checkpointed else self.body(x)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_gradients_are_bit_equal_with_and_without_recording(tmp_path: Path, checkpointed: bool) -> None:
    results = []
    for recorded in (False, True):
        torch.manual_seed(3)
        model = Dropped(checkpointed)
        x = torch.randn(8, 16)
        if recorded:
            record(tmp_path / "a.mstrata", lambda m=model, x=x: m(x).square().sum().backward())
        else:
            model(x).square().sum().backward()
        results.append([*gradients(model), torch.rand(4)])  # the random numbers after the step are the same too
    assert len(results[0]) == 5
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def replaced() -> tuple[object, ...]:
    """Everything the recorder replaces, as it is now."""
    autograd = torch._C._autograd
    return (
        autograd._push_saved_tensors_default_hooks,
        autograd._pop_saved_tensors_default_hooks,
        autograd._saved_tensors_hooks_disable,
        autograd._saved_tensors_hooks_enable,
        torch.autograd._engine_run_backward,
        dict(nn_module._global_forward_hooks),
        dict(nn_module._global_forward_pre_hooks),
        dict(torch_optimizer._global_optimizer_pre_hooks),
        dict(torch_optimizer._global_optimizer_post_hooks),
        autograd._top_saved_tensors_default_hooks(False),
    )


@pytest.mark.parametrize("fails", [None, "forward", "backward"])
def test_everything_is_put_back(tmp_path: Path, fails: str | None) -> None:
    before = replaced()
    model = mlp()

    def step() -> None:
        y = model(torch.randn(4, 16))
        if fails == "forward":
            raise ValueError("in forward")
        if fails == "backward":
            y.register_hook(lambda gradient: 1 / 0)
        y.sum().backward()

    if fails is None:
        record(tmp_path / "a.mstrata", step)
    else:
        with pytest.raises(ValueError if fails == "forward" else ZeroDivisionError):
            record(tmp_path / "a.mstrata", step)
    assert replaced() == before


@pytest.mark.parametrize("op", [torch.exp, torch.relu])
def test_an_output_saved_by_its_own_op_does_not_leak(tmp_path: Path, op: object) -> None:
    # Without a backward and without the garbage collector: else the cycle would be broken and hidden.
    model, died = mlp(1), []
    gc.collect()
    gc.disable()
    try:
        with Recorder(tmp_path / "a.mstrata", model=model):
            y = op(model(torch.randn(4, 16)))  # type: ignore[operator]
            weakref.finalize(y.untyped_storage(), died.append, True)
            del y
            assert died == [True]
    finally:
        gc.enable()


def test_nothing_of_the_model_is_kept_after_recording(tmp_path: Path) -> None:
    model = mlp()
    alive = weakref.ref(model)

    @record_step(tmp_path / "a.mstrata", warmup=1)
    def step(m: nn.Module) -> None:
        m(torch.randn(4, 16)).sum().backward()

    for _ in range(3):
        step(model)
    gc.collect()
    gc.disable()
    try:
        del model
        assert alive() is None
    finally:
        gc.enable()


def sentence(error: BaseException) -> str:
    """Torch's error without what differs between its versions: the hint, and `Add` for `AddBackward0`."""
    return re.sub(r"Backward\d*", "", str(error).split(" Hint")[0])


def test_a_saved_tensor_modified_in_place_still_raises(tmp_path: Path) -> None:
    def step(w: torch.Tensor) -> None:
        a = w * 2
        b = a * a
        a.add_(1)
        b.sum().backward()

    w = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError) as plain:
        step(w)
    with pytest.raises(RuntimeError) as recorded, Recorder(tmp_path / "a.mstrata"):
        mlp(1)(torch.randn(2, 16))
        step(w)
    assert sentence(recorded.value) == sentence(plain.value)


def test_users_who_allow_mutation_are_not_checked(tmp_path: Path) -> None:
    w = torch.ones(3, requires_grad=True)
    with Recorder(tmp_path / "a.mstrata"), torch.autograd.graph.allow_mutation_on_saved_tensors():
        mlp(1)(torch.randn(2, 16))
        a = w * 2
        b = a * a
        a.add_(1)
        b.sum().backward()
    assert torch.equal(w.grad, torch.full((3,), 8.0))


def test_a_users_hook_that_raises_passes_its_exception_unchanged(tmp_path: Path) -> None:
    error = KeyError("the user's own")

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        raise error

    with pytest.raises(KeyError) as raised, Recorder(tmp_path / "a.mstrata"):
        mlp(1)(torch.randn(2, 16))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            torch.ones(2, requires_grad=True).exp()
    assert raised.value is error


def test_hooks_in_force_before_recording_stay_in_force(tmp_path: Path) -> None:
    packed: list[tuple[int, ...]] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tuple(tensor.shape))
        return tensor.detach()

    model = mlp(1)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        recording = record(tmp_path / "a.mstrata", lambda: model(torch.randn(2, 16)).sum().backward())
    assert len(packed) == len(recording.saved_tensors) > 0
    assert "hooks_before_recording" in codes(recording)


def test_torch_func_works_inside_the_recorded_step(tmp_path: Path) -> None:
    model, seen = mlp(1), []

    def step() -> None:
        model(torch.randn(2, 16)).sum().backward()
        seen.append(torch.func.grad(lambda x: x.pow(3).sum())(torch.full((2,), 2.0)))
        model(torch.randn(2, 16)).sum().backward()

    recording = record(tmp_path / "a.mstrata", step)
    assert torch.equal(seen[0], torch.full((2,), 12.0))
    half = len(recording.saved_tensors) // 2
    assert fates(recording) == {"kept": 2 * half} and half > 0  # seen before and again after


def test_a_step_that_runs_out_of_memory_is_recorded_and_raised(tmp_path: Path) -> None:
    model, path = mlp(), tmp_path / "a.mstrata"
    with pytest.raises(torch.OutOfMemoryError, match="out of memory, truly"), Recorder(path):
        model(torch.randn(4, 16))
        raise torch.OutOfMemoryError("out of memory, truly")
    recording = files.read(path)
    assert "step_raised" in codes(recording)
    assert len(recording.events) > 0 and fates(recording)["kept"] > 0


def test_a_real_allocation_failure_is_recorded_and_raised(tmp_path: Path) -> None:
    model, path = mlp(), tmp_path / "a.mstrata"
    with pytest.raises(RuntimeError, match="allocate"), Recorder(path):
        torch.empty(1 << 60, dtype=torch.uint8)
        model(torch.randn(4, 16))
    # the model never ran, so there is nothing to write, and nothing half-written
    assert not path.exists() and list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="allocate"), Recorder(path):
        model(torch.randn(4, 16))
        torch.empty(1 << 60, dtype=torch.uint8)
    assert "step_raised" in codes(files.read(path))


def test_a_graph_that_outlives_the_recording_still_works(tmp_path: Path) -> None:
    model, kept = mlp(1), []
    record(tmp_path / "a.mstrata", lambda: kept.append(model(torch.ones(2, 16))))
    kept[0].sum().backward()
    expected = gradients(model)
    model.zero_grad()
    model(torch.ones(2, 16)).sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(expected, gradients(model), strict=True))
