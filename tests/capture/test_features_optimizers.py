"""Optimizers of every make, steps that fail, gradients that are freed, and threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Category, Fate, Phase, StorageKind
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run

from .recordings import WIDTH, codes, fates, mlp, module_paths, record, saved_bytes, tensors_of
from .test_training_unchanged import replaced

WEIGHTS = 2 * WIDTH * WIDTH * 4
ONE = 32 * WIDTH * 4


def x() -> torch.Tensor:
    return torch.linspace(-1, 1, 32 * WIDTH).view(32, WIDTH)


def phases(recording: Recording) -> list[str]:
    spans = recording.spans
    found = [Phase(p).name for p, m in zip(spans.phase, spans.module, strict=True) if m == -1]
    return [name for name in found if name != "other"]


OPTIMIZERS: dict[str, tuple[Callable[[Any], torch.optim.Optimizer], int]] = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), 0),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), WEIGHTS),
    "adamw foreach": (lambda p: torch.optim.AdamW(p, foreach=True), 2 * WEIGHTS + 2 * 4),
    "adamw loop": (lambda p: torch.optim.AdamW(p, foreach=False), 2 * WEIGHTS + 2 * 4),
    "adamw fused": (lambda p: torch.optim.AdamW(p, fused=True), 2 * WEIGHTS + 2 * 4),
    "adam amsgrad": (lambda p: torch.optim.Adam(p, amsgrad=True), 3 * WEIGHTS + 2 * 4),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_state_of_each_optimizer_by_hand(tmp_path: Path, name: str) -> None:
    make, expected = OPTIMIZERS[name]
    outcomes = []
    for recorded in (False, True):
        model = mlp(1)
        optimizer = make(model.parameters())

        def step(model: nn.Module = model, optimizer: torch.optim.Optimizer = optimizer) -> None:
            optimizer.zero_grad()
            model(x()).square().mean().backward()
            optimizer.step()

        step()
        if recorded:
            run = Run(record(tmp_path / "a.mstrata", step, model=model, optimizer=optimizer))
        else:
            step()
        outcomes.append(tensors_of(model))
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))
    assert run.category_curve(Category.optimizer_state).tolist() == [expected] * (run.n_events + 1)
    assert check(run) == []


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_freed_or_kept_by_zero_grad(tmp_path: Path, to_none: bool) -> None:
    model = mlp(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad(set_to_none=to_none)
        model(x()).sum().backward()
        optimizer.step()

    step()
    run = Run(record(tmp_path / "a.mstrata", step, model=model, optimizer=optimizer))
    gradients = run.category_curve(Category.gradient)
    assert gradients[0] == gradients[-1] == WEIGHTS
    assert gradients.min() == (0 if to_none else WEIGHTS) and gradients.max() == WEIGHTS
    frees = run.recording.known_storages.end_time[run.recording.known_storages.kind == StorageKind.gradient]
    assert (frees >= 0).sum() == (2 if to_none else 0)


class Failing(torch.optim.SGD):
    fails = True

    def step(self, closure: Any = None) -> Any:
        if self.fails:
            raise ArithmeticError("not this time")
        return super().step(closure)


def test_a_step_that_fails_and_is_caught_ends_its_phase(tmp_path: Path) -> None:
    model, before = mlp(1), replaced()
    optimizer = Failing(model.parameters(), lr=0.1)

    def step() -> None:
        model(x()).sum().backward()
        with pytest.raises(ArithmeticError):
            optimizer.step()
        model(x()).sum().backward()
        with pytest.raises(ArithmeticError):
            optimizer.step()
        optimizer.fails = False
        optimizer.step()

    recording = record(tmp_path / "a.mstrata", step)
    assert replaced() == before
    assert phases(recording) == ["forward", "backward", "optimizer", "forward", "backward", "optimizer", "optimizer"]
    assert module_paths(recording, Phase.optimizer) == [] and "recorder_failure" not in codes(recording)
    known = recording.known_storages
    assert (known.kind == StorageKind.gradient).sum() == 2


def test_a_closure_that_fails_is_the_programs_own_business(tmp_path: Path) -> None:
    model = mlp(1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> torch.Tensor:
        raise ArithmeticError("in the closure")

    def step() -> None:
        with pytest.raises(ArithmeticError, match="in the closure"):
            optimizer.step(closure)
        model(x()).sum().backward()

    recording = record(tmp_path / "a.mstrata", step)
    assert phases(recording) == ["optimizer", "forward", "backward"]


def test_a_worker_threads_forward_is_seen(tmp_path: Path) -> None:
    """Hooks belong to a thread: the worker gets its own pair, and gives it back."""
    model, left = mlp(1), list[object]()

    def work(out: list[torch.Tensor]) -> None:
        out.append(model(x()))
        left.append(torch._C._autograd._top_saved_tensors_default_hooks(True))

    def step() -> None:
        outputs: list[torch.Tensor] = []
        workers = [threading.Thread(target=work, args=(outputs,)) for _ in range(2)]
        for worker in workers:
            worker.start()
            worker.join()
        sum(y.sum() for y in outputs).backward()

    recording = record(tmp_path / "a.mstrata", step, model=model)
    assert left == [None, None]
    assert saved_bytes(recording, Fate.kept) == 2 * 3 * ONE
    assert len(set(recording.saved_tensors.thread.tolist())) == 2
    assert (recording.saved_tensors.unpack_time > 0).all()
    assert {"other_threads"} <= codes(recording) and "recorder_failure" not in codes(recording)


def test_hooks_of_the_workers_own_stay_the_only_ones(tmp_path: Path) -> None:
    model, packed = mlp(1), list[int]()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.numel())
        return tensor.detach()

    def work() -> None:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            model(x()).sum().backward()
        torch.func.grad(lambda y: y.pow(2).sum())(torch.ones(2))

    def step() -> None:
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()

    recording = record(tmp_path / "a.mstrata", step, model=model)
    assert len(packed) == len(recording.saved_tensors) > 0
    assert set(fates(recording)) == {"kept"}


def test_a_worker_may_use_function_transforms_and_checkpoints(tmp_path: Path) -> None:
    class Transforming(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(1)

        def forward(self, y: torch.Tensor) -> torch.Tensor:
            scale = torch.func.grad(lambda z: z.pow(2).sum())(torch.ones(1))
            out: torch.Tensor = torch.utils.checkpoint.checkpoint(self.body, y, use_reentrant=False) * scale
            return out

    model, errors = Transforming(), list[BaseException]()

    def work() -> None:
        try:
            model(x()).sum().backward()
        except BaseException as error:
            errors.append(error)

    def step() -> None:
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()

    recording = record(tmp_path / "a.mstrata", step, model=model)
    assert errors == [] and "recorder_failure" not in codes(recording)
    assert fates(recording)["dropped"] > 0 and saved_bytes(recording, Fate.rematerialized) == 3 * ONE
