"""What autograd can do, in bytes by hand: lifetimes, views, leaks, transforms, custom Functions, frozen parts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from memstrata.capture import record_step
from memstrata.capture.format.schema import Category, Fate, Phase
from memstrata.viewer.analysis.shape import shape_of
from memstrata.viewer.look.units import bytes_text
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .recordings import codes, fates, gradients, mlp, module_paths, record

ROWS, WIDTH = 1024, 512
MIB = 1 << 20
ONE = 2 * MIB
"""Bytes of one activation."""


def x() -> torch.Tensor:
    return torch.linspace(-1, 1, ROWS * WIDTH).view(ROWS, WIDTH)


def problem(run: Run, code: str) -> str:
    """The sentence of the only problem with this code, whose rounded bytes are known exactly."""
    (found,) = (p for p in run.problems if p.code == code)
    assert re.findall(r"[\d.,]+ [KMG]?i?B\b", found.text) == [bytes_text(size) for size in found.sizes] != []
    return found.text


class Viewing(nn.Module):
    """Keeps a column of a large tensor, which keeps all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(ROWS, 1))

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        column = (y + 0)[:, :1]
        return self.scale * column


def test_a_small_view_that_keeps_a_large_storage_is_said(tmp_path: Path) -> None:
    model = Viewing()
    run = Run(record(tmp_path / "a.mstrata", lambda: model(x()).sum().backward(), model=model))
    assert run.saved_bytes_by_fate()[Fate.kept] == ONE  # the storage, once
    text = problem(run, "views_keep_storages")
    assert "4.00 KiB keeps 2.00 MiB at test_features_autograd.py:" in text and "(forward)" in text
    whole = Run(record(tmp_path / "b.mstrata", lambda: mlp(1, WIDTH)(x()).sum().backward()))
    assert "views_keep_storages" not in {p.code for p in whole.problems}


def test_views_that_cover_a_storage_together_keep_nothing_more(tmp_path: Path) -> None:
    class Split(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)

        def forward(self, y: torch.Tensor) -> torch.Tensor:
            a, b = self.up(y).chunk(2, -1)
            return a * b

    model = Split()
    run = Run(record(tmp_path / "a.mstrata", lambda: model(x()).sum().backward(), model=model))
    assert run.saved_bytes_by_fate()[Fate.kept] == 2 * ONE
    assert "views_keep_storages" not in {p.code for p in run.problems}


class Leaking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.seen = mlp(1, WIDTH), list[torch.Tensor]()

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.body(y))
        self.seen.append(hidden.detach())
        return hidden


@pytest.mark.parametrize("leaks", [False, True])
def test_an_activation_that_outlives_its_step_is_named_with_its_stack(tmp_path: Path, leaks: bool) -> None:
    model = Leaking()
    if not leaks:
        model.seen = None  # type: ignore[assignment]
        model.forward = lambda y: torch.tanh(model.body(y))  # type: ignore[method-assign]

    @record_step(tmp_path / "a.mstrata", warmup=1)
    def step() -> None:
        model(x()).sum().backward()

    step()
    step()
    run = Run(open_file(tmp_path / "a.mstrata"))
    if leaks:
        text = problem(run, "activations_outlive_step")
        assert text.startswith("2.00 MiB that was saved") and "test_features_autograd.py:" in text
        assert "(forward)" in text and run.categories_at(run.n_events)[Category.activation] == ONE
    else:
        assert "activations_outlive_step" not in {p.code for p in run.problems}
        assert Category.activation not in run.categories_at(run.n_events)


def test_what_one_step_keeps_through_the_next_is_a_leak(tmp_path: Path) -> None:
    model = Leaking()
    step = record_step(tmp_path / "a.mstrata", warmup=1, steps=2)(lambda: model(x()).sum().backward())
    for _ in range(4):
        step()
    run = Run(open_file(tmp_path / "a.mstrata"))
    assert problem(run, "activations_leak").startswith("2.00 MiB that was saved for the backward of one step")


def test_a_retained_graph_keeps_its_activations_until_it_is_let_go_of(tmp_path: Path) -> None:
    model = mlp(1, WIDTH)

    def step() -> None:
        loss = model(x()).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    run = Run(record(tmp_path / "a.mstrata", step, model=model))
    assert run.saved_bytes_by_fate()[Fate.kept] == 3 * ONE == run.activation_curve.max()
    second = run.spans.start_position[(run.spans.module == -1) & (run.spans.phase == Phase.backward)][1]
    assert run.activation_curve[int(second)] == 3 * ONE and run.activation_curve[-1] == 0


def test_double_backward_keeps_what_the_first_backward_saved(tmp_path: Path) -> None:
    weight = nn.Linear(WIDTH, 1, bias=False)

    def step() -> None:
        y = x().requires_grad_()
        (gradient,) = torch.autograd.grad(weight(y).pow(3).sum(), y, create_graph=True)
        gradient.square().sum().backward()

    run = Run(record(tmp_path / "a.mstrata", step, model=weight))
    assert set(fates(run.recording)) == {"kept"} and check(run) == []
    saved = run.recording.saved_tensors
    # pow() keeps its input and the backward that builds a graph keeps what it used: columns of ROWS numbers; the
    # gradient itself is kept by square(), and the input of the model is known
    inside = saved.phase == Phase.backward
    assert inside.any() and int(saved.storage_bytes[inside].max()) == ROWS * 4
    assert ONE <= run.saved_bytes_by_fate()[Fate.kept] <= ONE + 8 * ROWS * 4
    assert module_paths(run.recording, Phase.recompute) == []


class Remembering(torch.autograd.Function):
    """Saves its input, its output and an attribute of its own."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor) -> torch.Tensor:
        out = y.exp()
        ctx.save_for_backward(y, out)
        ctx.mask = y > 0
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        y, out = ctx.saved_tensors
        assert y.shape == out.shape
        return gradient * out * ctx.mask


def test_a_custom_function_keeps_what_it_saved(tmp_path: Path) -> None:
    class Custom(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(WIDTH, WIDTH, bias=False)

        def forward(self, y: torch.Tensor) -> torch.Tensor:
            return Remembering.apply(self.body(y))

    torch.manual_seed(0)
    model = Custom()
    model(x()).sum().backward()
    plain = gradients(model)
    model.zero_grad()
    run = Run(record(tmp_path / "a.mstrata", lambda: model(x()).sum().backward(), model=model))
    assert all(torch.equal(a, b) for a, b in zip(plain, gradients(model), strict=True))
    assert run.saved_bytes_by_fate()[Fate.kept] == 2 * ONE
    # what a Function keeps as an attribute goes past autograd: nobody can tell what it is
    at_peak = int(run.curve.argmax())
    assert run.categories_at(at_peak)[Category.activation] == 2 * ONE


def test_function_transforms_inside_the_step_leave_what_autograd_keeps(tmp_path: Path) -> None:
    model = mlp(1, WIDTH)
    held = {name: p.detach() for name, p in model.named_parameters()}
    seen: list[torch.Tensor] = []

    def step() -> None:
        loss = lambda params, y: torch.func.functional_call(model, params, (y,)).sum()
        seen.extend(torch.func.grad(loss)(held, x()).values())
        seen.append(torch.func.vmap(torch.func.grad(lambda y: y.pow(3).sum()))(torch.full((2, 2), 2.0)))
        model(x()).sum().backward()

    run = Run(record(tmp_path / "a.mstrata", step, model=model))
    assert torch.equal(seen[-1], torch.full((2, 2), 12.0)) and "recorder_failure" not in codes(run.recording)
    assert run.saved_bytes_by_fate()[Fate.kept] == 3 * ONE
    assert all(torch.equal(a, b) for a, b in zip(seen, gradients(model), strict=False))


def test_in_place_operations_are_counted_once(tmp_path: Path) -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

        def forward(self, y: torch.Tensor) -> torch.Tensor:
            z = torch.relu_(self.a(y))  # relu's result is b's input: one storage
            out: torch.Tensor = self.b(z)
            out += y
            return out

    model = InPlace()
    run = Run(record(tmp_path / "a.mstrata", lambda: model(x()).sum().backward(), model=model))
    assert run.saved_bytes_by_fate()[Fate.kept] == ONE == run.activation_curve.max()


def test_tied_weights_and_a_module_called_twice(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH, bias=False)
            self.head = nn.Linear(WIDTH, WIDTH, bias=False)
            self.head.weight = self.layer.weight

        def forward(self, y: torch.Tensor) -> torch.Tensor:
            return self.head(torch.tanh(self.layer(torch.tanh(self.layer(y)))))

    model = Tied()
    run = Run(record(tmp_path / "a.mstrata", lambda: model(x()).sum().backward(), model=model))
    assert run.category_curve(Category.parameter).max() == WIDTH * WIDTH * 4
    assert run.category_curve(Category.gradient).max() == WIDTH * WIDTH * 4
    assert run.saved_bytes_by_fate()[Fate.kept] == 2 * ONE
    spans = run.recording.spans
    assert module_paths(run.recording, Phase.forward).count("layer") == 2
    assert set(spans.call[spans.phase == Phase.forward].tolist()) >= {0, 1}


def test_layers_without_anything_trained_before_them_are_predicted_to_keep_nothing(tmp_path: Path) -> None:
    model = mlp(4, WIDTH)
    model[:2].requires_grad_(False)
    run = Run(record(tmp_path / "a.mstrata", lambda: model(x()).sum().backward(), model=model))
    shape = shape_of(run)
    assert shape is not None and [bool(layer.terms) for layer in shape.layers] == [False, False, True, True]
    assert "nothing is trained in or before 0 to 1: no gradient passes there, and nothing is kept" in shape.assumptions
    assert run.saved_bytes_by_layer()[0] == run.saved_bytes_by_layer()[1] == 0 < run.saved_bytes_by_layer()[2]
    # an adapter's trick: gradients of the input are asked for, so the frozen layers keep their activations after all
    asked = Run(record(tmp_path / "b.mstrata", lambda: model(x().requires_grad_()).sum().backward(), model=model))
    shape = shape_of(asked)
    assert shape is not None and all(layer.terms for layer in shape.layers)


@pytest.mark.parametrize("model, shape, expected", [
    (nn.Conv1d(3, 4, 3), (2, 3, 100), (2, 100)),
    (nn.Sequential(nn.Conv1d(3, 4, 3), nn.GELU()), (2, 3, 100), (2, 100)),
    (nn.Linear(16, 4), (2, 100, 16), (2, 100)),
    (nn.LSTM(16, 4), (100, 2, 16), (2, 100)),
    (nn.LSTM(16, 4, batch_first=True), (2, 100, 16), (2, 100)),
])  # fmt: skip
def test_batch_and_sequence_are_read_as_the_first_operation_reads_them(
    tmp_path: Path, model: nn.Module, shape: tuple[int, ...], expected: tuple[int, int]
) -> None:
    def step() -> None:
        out = model(torch.ones(shape))
        (out[0] if isinstance(out, tuple) else out).sum().backward()

    meta = record(tmp_path / "a.mstrata", step, model=model).meta
    assert (meta.batch, meta.sequence) == expected
