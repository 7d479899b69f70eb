"""What the recording says ran when, and which checkpoint recomputed what."""

from __future__ import annotations

import functools
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Phase

from .recordings import WIDTH, Block, batch, module_paths, record
from .test_real_training import closure, inside_backward


def phases(recording: Recording) -> list[str]:
    spans = recording.spans
    return [Phase(p).name for p, m in zip(spans.phase, spans.module, strict=True) if m == -1]


def test_the_closure_of_an_optimizer_runs_forward_and_backward(tmp_path: Path) -> None:
    step, _ = closure()
    step()
    recording = record(tmp_path / "a.mstrata", step)
    rounds = [phase for phase in phases(recording) if phase != "other"]
    assert rounds[:5] == ["optimizer", "forward", "backward", "optimizer", "forward"] and rounds[-1] == "optimizer"
    assert "layers.0" in module_paths(recording, Phase.forward) and module_paths(recording, Phase.optimizer) == []
    names = {recording.strings[int(name)].split("[")[0] for name in recording.known_storages.name}
    assert any(name.startswith("old_dirs of ") for name in names)


def test_an_optimizer_inside_backward_interrupts_it(tmp_path: Path) -> None:
    step, _ = inside_backward()
    step()
    rounds = [phase for phase in phases(record(tmp_path / "a.mstrata", step)) if phase != "other"]
    assert rounds[0] == "forward" and len(rounds) > 3
    assert set(rounds[1::2]) == {"backward"} and set(rounds[2::2]) == {"optimizer"}


def test_forward_goes_on_after_a_backward_inside_it(tmp_path: Path) -> None:
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                leaf = x.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(leaf.pow(3).sum(), leaf)
            return x * gradient

    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Inner(), nn.Linear(WIDTH, WIDTH))
    recording = record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward())
    assert [p for p in phases(recording) if p != "other"] == ["forward", "backward", "forward", "backward"]


def test_the_plan_of_nested_checkpoints_names_what_each_recomputes(tmp_path: Path) -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.groups = nn.ModuleList(nn.ModuleList(Block() for _ in range(2)) for _ in range(2))

        def run(self, group: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
            for block in group:
                x = checkpoint(block, x, use_reentrant=False)
            return x

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for group in self.groups:
                x = checkpoint(functools.partial(self.run, group), x, use_reentrant=False)
            return x

    model = Nested()
    plan = record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward()).meta.plan
    assert plan == (
        ("groups.0.0", "groups.0.1"), ("groups.0.0",), ("groups.0.1",),
        ("groups.1.0", "groups.1.1"), ("groups.1.0",), ("groups.1.1",),
    )  # fmt: skip


def test_a_checkpointed_method_names_its_modules_and_a_function_without_any_the_one_around_it(tmp_path: Path) -> None:
    class Method(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def body(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.b(torch.tanh(self.a(x) * 2)) + x
            return y

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = checkpoint(self.body, x, use_reentrant=False)
            y: torch.Tensor = checkpoint(torch.tanh, x, use_reentrant=False)
            return y

    model = nn.Sequential(Method(), Method())
    plan = record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward()).meta.plan
    assert plan == (("0.a", "0.b"), ("0",), ("1.a", "1.b"), ("1",))
