"""The demo: a small hybrid decoder trained for real, one step recorded without and one with checkpointing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F

from .models.hybrid import HybridConfig, HybridDecoder
from .models.text import batches
from .recorder import WARMUP, record_step


@dataclass(frozen=True)
class DemoConfig:
    """Sizes of the demo: a CPU step takes about a second on two cores."""

    model: HybridConfig = field(default_factory=HybridConfig)
    batch: int = 4
    tokens: int = 512
    warmup: int = 2 * WARMUP
    """Unrecorded steps before the recorded one; more than the default, for a step time that can be compared."""
    seed: int = 0


def run(folder: str | Path, config: DemoConfig | None = None, say: Callable[[str], None] = print) -> tuple[Path, Path]:
    """Train twice from the same seed and return the recordings `before.mstrata` and `after.mstrata` in `folder`.

    Raises CaptureError if the folder cannot be written.
    """
    config = config or DemoConfig()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    before, after = folder / "before.mstrata", folder / "after.mstrata"
    for path, checkpointing in ((before, False), (after, True)):
        how = "one checkpoint per super-block" if checkpointing else "no checkpointing"
        say(f"Training {config.warmup + 1} steps with {how}, recording the last ...")
        losses = train(path, config, checkpointing)
        say(f"  loss {losses[0]:.3f} -> {losses[-1]:.3f}")
    return before, after


def train(path: str | Path, config: DemoConfig, checkpointing: bool) -> list[float]:
    """Train, recording the step after the warm-up; returns the loss of each step."""
    torch.manual_seed(config.seed)
    model = HybridDecoder(config.model, checkpointing)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    @record_step(path, warmup=config.warmup, super_block=config.model.super_block)
    def step(inputs: torch.Tensor, targets: torch.Tensor) -> float:
        optimizer.zero_grad()
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    data = batches(config.seed, config.batch, config.tokens)
    return [step(*next(data)) for _ in range(config.warmup + 1)]
