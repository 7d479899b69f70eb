"""Saved-tensor hooks, tensor modes and tensor classes of the user: as if nobody recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from memstrata.capture import Recorder, saved_tensors
from memstrata.viewer.sources import open_file

from .recordings import WIDTH, batch, codes, fates, mlp, record, tensors_of
from .test_training_unchanged import replaced


@pytest.fixture
def no_hooks_left() -> Iterator[None]:
    yield
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None


def doubled(packed: list[int]) -> saved_tensors_hooks:
    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.numel())
        return tensor.detach()

    return saved_tensors_hooks(pack, lambda tensor: tensor * 2)


@pytest.mark.usefixtures("no_hooks_left")
def test_a_hook_left_open_by_the_step_stays_as_its_owner_made_it(tmp_path: Path) -> None:
    model, packed, stack = mlp(1), list[int](), contextlib.ExitStack()
    hooks = doubled(packed)

    def step() -> None:
        stack.enter_context(hooks)
        model(torch.ones(2, WIDTH)).sum().backward()

    record(tmp_path / "a.mstrata", step)
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    assert top == (hooks.pack_hook, hooks.unpack_hook)
    count = len(packed)
    model(torch.ones(2, WIDTH))
    assert len(packed) == 2 * count
    stack.close()


@pytest.mark.usefixtures("no_hooks_left")
def test_a_hook_from_before_the_step_may_end_inside_it(tmp_path: Path) -> None:
    gradients = []
    for recorded in (False, True):
        model, stack = mlp(1), contextlib.ExitStack()
        stack.enter_context(doubled([]))
        with Recorder(tmp_path / "a.mstrata") if recorded else contextlib.nullcontext():
            model(torch.ones(2, WIDTH)).sum().backward()
            stack.close()
            model(torch.ones(2, WIDTH)).sum().backward()
        gradients.append(tensors_of(model))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    recording = open_file(tmp_path / "a.mstrata")
    assert len(recording.saved_tensors) > 0 and "hooks_before_recording" in codes(recording)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_torch_that_cannot_name_the_hooks_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    monkeypatch.setattr(saved_tensors, "_TOP", None)  # before torch 2.8
    model, packed, before = mlp(1), list[int](), replaced()

    def step() -> None:
        model(batch()).sum().backward()
        if not hidden:
            torch.func.grad(lambda x: x.pow(2).sum())(torch.ones(2))

    with doubled(packed) if hidden else contextlib.nullcontext():
        recording = record(tmp_path / "a.mstrata", step)
    assert replaced() == before
    assert (len(packed) > 0) == hidden == ("hooks_hidden" in codes(recording))
    assert (len(recording.saved_tensors) > 0) != hidden


def test_hooks_that_are_disabled_when_the_recording_begins_are_seen_once_enabled(tmp_path: Path) -> None:
    model = mlp(1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.autograd.graph.disable_saved_tensors_hooks("none here"))
        with Recorder(tmp_path / "a.mstrata"):
            model(batch()).sum().backward()
            stack.close()
            model(batch()).sum().backward()
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    assert fates(open_file(tmp_path / "a.mstrata"))["kept"] == 5


def test_tensor_modes_and_classes_of_the_user_do_not_see_the_bookkeeping(tmp_path: Path) -> None:
    seen: list[str] = []

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return super().__torch_function__(function, types, args, kwargs or {})

    model, x = mlp(1), batch().as_subclass(Mine)
    record(tmp_path / "a.mstrata", lambda: model(x).sum().backward())
    assert not [name for name in seen if "detach" in name or "untyped_storage" in name or "numel" in name]
