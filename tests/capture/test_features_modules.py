"""Modules under two names, inside themselves, and never called by name; a head that sets the peak."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from memstrata.capture.format.schema import Category, Fate, Phase
from memstrata.viewer.analysis.warnings import never_checkpointed, peak_outside_layers
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run

from .recordings import WIDTH, batch, codes, mlp, module_paths, record


def test_a_block_under_two_names_has_one_path_and_two_calls(tmp_path: Path) -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(WIDTH, WIDTH)
            self.second = self.first

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.second(torch.tanh(self.first(x)))
            return y

    model = Shared()
    run = Run(record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward(), model=model))
    assert module_paths(run.recording, Phase.forward) == ["", "first", "first"]
    assert run.category_curve(Category.parameter).max() == (WIDTH + 1) * WIDTH * 4


def test_a_module_that_calls_itself(tmp_path: Path) -> None:
    class Recursive(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor, depth: int = 3) -> torch.Tensor:
            y: torch.Tensor = torch.tanh(self.linear(x))
            return self(y, depth - 1) if depth else y

    model = Recursive()
    recording = record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward(), model=model)
    assert module_paths(recording, Phase.forward) == ["", "linear"] * 4
    forward = recording.spans.phase == Phase.forward
    calls = recording.spans.call[forward & (recording.spans.module == 0)]
    assert calls.tolist() == [0, 1, 2, 3] and check(Run(recording)) == []


def test_what_is_never_called_is_booked_on_its_parent(tmp_path: Path) -> None:
    """Attention multiplies by the weights of its output projection itself: that module never runs."""
    model = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True, dropout=0.0)
    run = Run(record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward(), model=model))
    paths = module_paths(run.recording, Phase.forward)
    assert "self_attn" in paths and "self_attn.out_proj" not in paths
    saved, modules = run.recording.saved_tensors, run.recording.modules
    packers = {run.recording.strings[int(modules.path[m])] for m in saved.module if m >= 0}
    assert "self_attn" in packers and "self_attn.out_proj" not in packers

    direct = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))

    class Direct(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = direct

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.inner.forward(x).exp()
            return y

    whole = Direct()
    recording = record(tmp_path / "b.mstrata", lambda: whole(batch()).sum().backward(), model=whole)
    assert "inner" not in module_paths(recording, Phase.forward) and "recorder_failure" not in codes(recording)
    assert 0 in recording.saved_tensors.module.tolist()


class WithHead(nn.Module):
    def __init__(self, checkpointed: bool) -> None:
        super().__init__()
        self.body, self.head, self.checkpointed = mlp(8, 256), nn.Linear(256, 32_000, bias=False), checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.body:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed and self.training else block(x)
        y: torch.Tensor = self.head(x)
        return y


def test_a_large_vocabulary_sets_the_peak_and_checkpointing_saves_little(tmp_path: Path) -> None:
    runs = []
    for checkpointed in (False, True):
        model, loss = WithHead(checkpointed), nn.CrossEntropyLoss()
        x, target = torch.randn(512, 256), torch.arange(512)
        step = lambda model=model, x=x, target=target, loss=loss: loss(model(x), target).backward()
        runs.append(Run(record(tmp_path / "a.mstrata", step, model=model), name=f"{checkpointed}.mstrata"))
    before, after = runs
    one = 512 * 256 * 4
    kept = [run.saved_bytes_by_fate()[Fate.kept] for run in runs]
    assert kept[0] - kept[1] == (8 * 4 - 8) * one  # only the boundaries are left of 32 activations, the last the head's
    assert before.peak_bytes - after.peak_bytes <= kept[0] - kept[1] < 0.15 * before.peak_bytes
    found = peak_outside_layers(before, after)
    assert found is not None and "more checkpointing will not lower it" in found.text


def test_a_model_in_evaluation_mode_never_checkpoints_and_it_is_said(tmp_path: Path) -> None:
    runs = []
    for name, checkpointed in (("a", False), ("b", True)):
        model = WithHead(checkpointed).eval()
        step = lambda model=model: model(torch.randn(4, 256)).sum().backward()
        runs.append(Run(record(tmp_path / f"{name}.mstrata", step, model=model), name=name))
    found = never_checkpointed(*runs)
    assert found is not None and "never checkpointed" in found.text
