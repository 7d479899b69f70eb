"""What the GPU tests record: small models trained for real, and scripts that need a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from memstrata.capture import Recorder, record_step
from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording

ROWS, WIDTH = 4096, 1024
ONE = ROWS * WIDTH * 4
"""Bytes of one activation of `mlp`."""
TYPES = Path(__file__).resolve().parents[2] / "build" / "types"


def mlp(depth: int = 4, device: str = "cuda") -> nn.Sequential:
    """Blocks of Linear-GELU, the same weights every time."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.GELU()) for _ in range(depth)]
    return nn.Sequential(*blocks).to(device)


def train(path: Path, checkpointed: bool = False, calls: int = 4) -> Recording:
    """AdamW steps, the fourth recorded."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())

    @record_step(path)
    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        for block in model:
            x = checkpoint(block, x, use_reentrant=False) if checkpointed else block(x)
        x.square().mean().backward()
        optimizer.step()

    for _ in range(calls):
        step(torch.randn(ROWS, WIDTH, device="cuda"))
    return files.read(path)


def one(path: Path, model: nn.Module | None = None, **options: Any) -> Recording:
    """One forward and backward, recorded."""
    model = mlp() if model is None else model
    x = torch.randn(ROWS, WIDTH, device="cuda")
    with Recorder(path, **options):
        model(x).square().mean().backward()
    return files.read(path)


def codes(recording: Recording) -> set[str]:
    """The codes of the problems."""
    return {problem.code for problem in recording.meta.problems}


def in_a_process(script: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh interpreter: CUDA reads its settings once, and some failures end a process."""
    env = {**os.environ, "PYTHONPATH": str(TYPES), **environment}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
