"""Helpers of the recorder's tests: record something real, and read what was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from memstrata.capture import Recorder
from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Fate, Phase


def record(path: Path, step: Callable[[], Any], **options: Any) -> Recording:
    """Record one call of `step` and read the file."""
    with Recorder(path, **options):
        step()
    return files.read(path)


def fates(recording: Recording) -> Counter[str]:
    """How many packs had each fate."""
    return Counter(Fate(fate).name for fate in recording.saved_tensors.fate)


def saved_bytes(recording: Recording, fate: Fate) -> int:
    """Bytes of distinct storages saved with this fate, without those that are known (parameters, inputs)."""
    saved = recording.saved_tensors
    rows = [i for i in range(len(saved)) if saved.known[i] < 0 and saved.storage[i] >= 0]
    kept = {int(saved.storage[i]) for i in rows if saved.fate[i] == Fate.kept}
    counted = [i for i in rows if saved.fate[i] == fate and (fate == Fate.kept or int(saved.storage[i]) not in kept)]
    return sum({int(saved.storage[i]): int(saved.storage_bytes[i]) for i in counted}.values())


def module_paths(recording: Recording, phase: Phase) -> list[str]:
    """Paths of the modules with a span in this phase, in order."""
    spans, modules = recording.spans, recording.modules
    rows = [i for i in range(len(spans)) if spans.phase[i] == phase and spans.module[i] >= 0]
    return [recording.strings[int(modules.path[spans.module[i]])] for i in rows]


def codes(recording: Recording) -> set[str]:
    """The codes of the problems."""
    return {problem.code for problem in recording.meta.problems}


def mlp(depth: int = 2, width: int = 16) -> nn.Sequential:
    """Blocks of Linear-GELU-Linear-GELU, the same weights every time."""
    torch.manual_seed(0)

    def block() -> nn.Sequential:
        linear = [nn.Linear(width, width, bias=False) for _ in range(2)]
        return nn.Sequential(linear[0], nn.GELU(), linear[1], nn.GELU())

    return nn.Sequential(*[block() for _ in range(depth)])


def gradients(model: nn.Module) -> list[torch.Tensor]:
    """Copies of all gradients."""
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


WIDTH = 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.drop(self.down(torch.relu(self.up(self.norm(x)))))
        return y


class Net(nn.Module):
    """Blocks, each called through `around`."""

    def __init__(self, around: Callable[[nn.Module, torch.Tensor], torch.Tensor] = lambda block, x: block(x)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.around = around

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.around(layer, x)
        return x


def batch() -> torch.Tensor:
    return torch.randn(2, 8, WIDTH)


def tensors_of(model: nn.Module) -> list[torch.Tensor]:
    """Copies of all parameters and gradients."""
    return [t.detach().clone() for p in model.parameters() for t in (p, p.grad) if t is not None]
