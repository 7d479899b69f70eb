"""Mixed precision and gradient accumulation: the weight cache in bytes, and losses that a scaler multiplied."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Category, Phase
from memstrata.viewer.analysis.warnings import loss_differs
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .recordings import codes, mlp, record

ROWS, WIDTH, LAYERS = 8, 512, 8
COPY = WIDTH * WIDTH * 2
"""Bytes of one weight in bfloat16."""
BOUNDARY = ROWS * WIDTH * 2


@pytest.mark.parametrize("cached", [True, False])
def test_the_weight_cache_of_checkpointed_layers_is_its_own_entry(tmp_path: Path, cached: bool) -> None:
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])

    def step() -> None:
        y = torch.randn(ROWS, WIDTH, requires_grad=True) * 1
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=cached):
            for layer in model:
                y = checkpoint(layer, y, use_reentrant=False)
        y.float().sum().backward()

    run = Run(record(tmp_path / "a.mstrata", step, model=model))
    spans = run.spans
    last = int(spans.end_position[(spans.module >= 0) & (spans.phase == Phase.forward)].max())
    cache, activations = run.category_curve(Category.autocast_cache), run.activation_curve
    assert cache[last] == (LAYERS * COPY if cached else 0)
    assert activations[last] == (LAYERS - 1) * BOUNDARY + 2 * BOUNDARY  # the first input has four bytes
    total = (cache[last] + activations[last]) / 2**20
    assert total == pytest.approx(4.07 if cached else 0.07, abs=0.005)
    backward = int(spans.start_position[(spans.module == -1) & (spans.phase == Phase.backward)].min())
    assert cache[backward] == 0  # let go of when autocast exits
    layers = run.attribution.layer[run.attribution.category == Category.activation]
    assert layers.tolist() == [-1, *range(1, LAYERS)]  # a boundary belongs to the layer it leads into


def scaled(path: Path, scale: float, recorded: bool = True) -> Recording:
    torch.manual_seed(0)
    model, scaler = mlp(1), torch.amp.GradScaler("cpu", init_scale=scale)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(4, 16)

    def step() -> None:
        scaler.scale(model(x).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()

    return record(path, step, model=model)


def test_the_loss_of_a_scaler_is_recorded_with_its_factor(tmp_path: Path) -> None:
    before = torch.amp.GradScaler.scale
    large, small = scaled(tmp_path / "a.mstrata", 1024.0), scaled(tmp_path / "b.mstrata", 8.0)
    assert torch.amp.GradScaler.scale is before
    assert (large.meta.loss_scale, small.meta.loss_scale) == (1024.0, 8.0)
    assert large.meta.loss == pytest.approx(128 * small.meta.loss)
    a, b = Run(large, name="a"), Run(small, name="b")
    assert loss_differs(a, b) is None
    plain = record(tmp_path / "c.mstrata", lambda: mlp(1)(torch.ones(4, 16)).square().sum().backward())
    assert plain.meta.loss_scale is None
    assert loss_differs(a, Run(plain, name="c")) is not None  # 64 times as much, and no scaler


def test_a_scaler_that_is_switched_off_scales_nothing(tmp_path: Path) -> None:
    model, scaler = mlp(1), torch.amp.GradScaler("cpu", enabled=False)
    recording = record(tmp_path / "a.mstrata", lambda: scaler.scale(model(torch.ones(2, 16)).sum()).backward())
    assert recording.meta.loss_scale is None and recording.meta.loss is not None


def test_several_losses_scaled_at_once_are_passed_over(tmp_path: Path) -> None:
    model, scaler = mlp(1), torch.amp.GradScaler("cpu")

    def step() -> None:
        losses = [model(torch.ones(2, 16)).sum() for _ in range(2)]
        for loss in scaler.scale(losses):
            loss.backward()

    recording = record(tmp_path / "a.mstrata", step)
    assert recording.meta.loss_scale is None and "recorder_failure" not in codes(recording)


def test_accumulated_gradients_are_one_storage_for_each_parameter(tmp_path: Path) -> None:
    model = mlp(1)

    def step() -> None:
        for _ in range(3):
            (model(torch.ones(32, 16)).square().mean() / 3).backward()

    run = Run(record(tmp_path / "a.mstrata", step, model=model))
    gradients = run.category_curve(Category.gradient)
    assert gradients[-1] == 2 * 16 * 16 * 4 == gradients.max()
    # each round frees what it saved before the next one begins
    assert run.activation_curve.max() == 4 * 32 * 16 * 4
    starts = run.spans.start_position[(run.spans.module == -1) & (run.spans.phase == Phase.forward)]
    assert len(starts) == 3 and np.all(run.activation_curve[starts] == 0)


def test_a_weight_used_by_two_layers_is_cast_once(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))
    model[1].weight = model[0].weight

    def step() -> None:
        x = torch.randn(4, 64, requires_grad=True) * 1  # autocast caches the copy of any leaf
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
        y.float().sum().backward()

    record(tmp_path / "a.mstrata", step, model=model)
    run = Run(open_file(tmp_path / "a.mstrata"))
    assert run.category_curve(Category.autocast_cache).max() == 64 * 64 * 2
    assert run.category_curve(Category.parameter).max() == 64 * 64 * 4
