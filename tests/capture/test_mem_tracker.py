"""Held against torch's own MemTracker: it counts storages of tensors, and sees nothing inside a kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from memstrata.capture.format.schema import Category, Phase
from memstrata.viewer.model.run import Run

from .recordings import mlp, record

mem_tracker = pytest.importorskip("torch.distributed._tools.mem_tracker")

CPU = torch.device("cpu")


class Tracker(mem_tracker.MemTracker):  # type: ignore[misc, name-defined]
    """MemTracker, with its total after each operator."""

    def __init__(self) -> None:
        super().__init__()
        self.totals: list[int] = []

    def _update_peak_stats(self, state: Any) -> None:
        super()._update_peak_stats(state)
        self.totals.append(self._curr_mem_snap[CPU]["Total"])


class Checkpointed(nn.Module):
    def __init__(self, body: nn.Sequential) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.body:
            x = checkpoint(block, x, use_reentrant=False)
        return x


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: mlp(4, 64), (256, 64)),
    "checkpointed": (lambda: Checkpointed(mlp(4, 64)), (256, 64)),
    "transformer": (transformer, (4, 32, 64)),
    "convolutions": (convolutions, (4, 3, 16, 16)),
}


def both(path: Path, name: str) -> tuple[Tracker, Run]:
    """The same step, the third of its training, measured by both, one after the other."""
    make, shape = MODELS[name]
    measured: list[Any] = []
    for tracked in (True, False):
        torch.manual_seed(0)
        model, x = make(), torch.ones(shape)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

        def step(model: nn.Module = model, x: torch.Tensor = x, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        step()
        step()
        if tracked:
            tracker = Tracker()
            tracker.track_external(model, optimizer, x)
            with tracker:
                step()
            measured.append((tracker, tracker.memory_tracking[model]))
        else:
            measured.append(Run(record(path, step, model=model, optimizer=optimizer)))
    (tracker, stats), run = measured
    tracker.forward_ended = stats.snapshots[mem_tracker._ModState.POST_FW][-1][CPU]
    return tracker, run


def of(snapshot: dict[Any, int], *kinds: str) -> int:
    return sum(size for kind, size in snapshot.items() if getattr(kind, "name", "") in kinds)


RANDOM_STATES = {"checkpointed": 4}
"""What each checkpoint remembers to draw the same numbers again: no operator makes it, so MemTracker misses it."""


def distinct(values: list[int]) -> list[int]:
    """The values without repetitions of the one before."""
    return [value for i, value in enumerate(values) if i == 0 or value != values[i - 1]]


@pytest.mark.parametrize("name", MODELS)
def test_storages_agree_exactly(tmp_path: Path, name: str) -> None:
    tracker, run = both(tmp_path / "a.mstrata", name)
    root = (run.spans.module == 0) & (run.spans.phase == Phase.forward)
    position = int(run.spans.end_position[root][0])
    ours, theirs = run.categories_at(position), tracker.forward_ended
    random_states = RANDOM_STATES.get(name, 0) * torch.get_rng_state().nbytes
    assert int(run.curve[position]) == theirs["Total"] + random_states
    assert ours[Category.parameter] == of(theirs, "PARAM")
    assert ours.get(Category.buffer, 0) == of(theirs, "BUFFER")
    assert ours[Category.optimizer_state] == of(theirs, "OPT")
    assert ours[Category.input] == of(theirs, "OTH")
    # the model's output is no activation of ours: autograd saved it for nobody
    assert ours[Category.activation] + ours.get(Category.temporary, 0) == of(theirs, "ACT") + random_states
    assert int(run.end_bytes) == tracker.totals[-1]


@pytest.mark.parametrize("name", ["mlp", "convolutions"])
def test_what_it_sees_after_each_operator_is_on_our_curve(tmp_path: Path, name: str) -> None:
    tracker, run = both(tmp_path / "a.mstrata", name)
    curve, place = run.curve.tolist(), 0
    for total in distinct(tracker.totals):
        assert total in curve[place:], f"{total} after position {place}"
        place = curve.index(total, place)


@pytest.mark.parametrize("name", MODELS)
def test_at_its_peak_it_gives_other_names_to_the_same_bytes(tmp_path: Path, name: str) -> None:
    tracker, run = both(tmp_path / "a.mstrata", name)
    theirs = tracker.get_tracker_snapshot("peak")[CPU]
    random_states = [n * torch.get_rng_state().nbytes for n in range(RANDOM_STATES.get(name, 0) + 1)]
    hits = [int(at) for more in random_states for at in np.flatnonzero(run.curve == theirs["Total"] + more)]
    assert hits, "its peak is a moment of ours"
    ours = run.categories_at(hits[0])
    assert ours[Category.parameter] == of(theirs, "PARAM") and ours[Category.optimizer_state] == of(theirs, "OPT")
    kept = ours[Category.activation] + ours.get(Category.rematerialized, 0)
    made = sum(ours.get(category, 0) for category in (Category.gradient, Category.temporary))
    if name != "checkpointed":  # there temporaries of a recomputation are activations to it
        assert of(theirs, "ACT") == kept + LOSS  # the loss and its gradient, which autograd saved for nobody
        assert of(theirs, "TEMP", "GRAD") == made - LOSS
    else:
        assert of(theirs, "ACT", "TEMP", "GRAD") + int(run.curve[hits[0]]) - theirs["Total"] == kept + made
    assert run.peak_bytes - theirs["Total"] == INSIDE_OPERATORS[name]


LOSS = 2 * 4
INSIDE_OPERATORS = {"mlp": 49_152, "checkpointed": 52_992, "transformer": 0, "convolutions": 92_448}
"""By how much our peak is higher: it lies inside an operator, whose scratch memory MemTracker never sees (the copy that
GELU's backward makes of an expanded gradient, a convolution's reordered input). Measured with torch 2.13."""
