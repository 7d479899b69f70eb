"""A step that an error ends before its optimizer ran: what the optimizer holds was there all the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from memstrata.capture import Recorder, record_step
from memstrata.capture.format import files
from memstrata.capture.format.schema import Category
from memstrata.viewer.analysis.trust import trust_of
from memstrata.viewer.analysis.warnings import warnings_of
from memstrata.viewer.model.run import Run

from .recordings import codes, mlp, record

pytestmark = pytest.mark.usefixtures("one_thread")

PARAMETERS = 4 * 16 * 16 * 4
"""Bytes of `mlp()`: four square matrices of float32."""
ADAMW = 2 * PARAMETERS + 4 * 4
"""Bytes of AdamW's state: two moments of each, and a count for each matrix."""


class Boom(Exception):
    """What ends the step."""


class Training:
    """AdamW; `step` fails in the middle of forward in the call with a number. Gradients are never let go of."""

    def __init__(self, fails_in: int) -> None:
        self.model = mlp()
        self.optimizer: torch.optim.Optimizer = torch.optim.AdamW(self.model.parameters())
        self.calls, self.fails_in = 0, fails_in

        def fail(*_: object) -> None:
            if self.calls == self.fails_in:
                raise Boom

        self.model[1].register_forward_pre_hook(fail)

    def step(self) -> None:
        self.model(torch.randn(8, 16)).square().sum().backward()
        self.optimizer.step()
        self.calls += 1

    def run(self, calls: int) -> None:
        for _ in range(calls):
            self.step()


def decorated(path: Path, training: Training) -> None:
    step = record_step(path)(training.step)
    for _ in range(5):
        step()


def in_a_loop(path: Path, training: Training) -> None:
    with Recorder(path, warmup=3):
        training.run(5)


def in_a_loop_from_its_second_step(path: Path, training: Training) -> None:
    with Recorder(path, warmup=1, steps=9):
        training.run(5)


def in_a_block(path: Path, training: Training) -> None:
    training.run(3)
    with Recorder(path):
        training.step()


def armed_in_a_loop(path: Path, training: Training) -> None:
    training.run(3)
    with Recorder(path, on="oom", keep=0):
        try:
            training.step()
        except Boom as error:
            raise MemoryError from error


WAYS = (decorated, in_a_loop, in_a_loop_from_its_second_step, in_a_block, armed_in_a_loop)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_what_lived_before_the_step_is_there(tmp_path: Path, way: Callable[[Path, Training], None]) -> None:
    path = tmp_path / "a.mstrata"
    with pytest.raises((Boom, MemoryError)):
        way(path, Training(fails_in=3))
    recording = files.read(path)
    start = Run(recording).categories_at(0)
    assert start[Category.parameter] == start[Category.gradient] == PARAMETERS
    assert start[Category.optimizer_state] == ADAMW
    assert recording.meta.optimizer == "AdamW" and "optimizer_unseen" not in codes(recording)


def test_optimizers_that_take_turns_are_both_there(tmp_path: Path) -> None:
    """The first step, in which model and optimizers are looked for, runs one of the two."""
    training = Training(fails_in=3)
    halves = [torch.optim.AdamW(half.parameters()) for half in training.model]
    with pytest.raises(Boom), Recorder(tmp_path / "a.mstrata", warmup=3):
        for number in range(5):
            training.optimizer = halves[number % 2]
            training.step()
    assert Run(files.read(tmp_path / "a.mstrata")).categories_at(0)[Category.optimizer_state] == ADAMW


def test_a_step_in_which_gradients_only_add_up_shows_the_optimizer_s_state(tmp_path: Path) -> None:
    training = Training(fails_in=-1)
    training.run(1)
    run = Run(record(tmp_path / "a.mstrata", lambda: training.model(torch.randn(8, 16)).sum().backward()))
    assert run.categories_at(0)[Category.optimizer_state] == ADAMW


def test_optimizers_of_other_models_are_left_out(tmp_path: Path) -> None:
    other, training = Training(fails_in=-1), Training(fails_in=0)
    other.run(1)
    with pytest.raises(Boom), Recorder(tmp_path / "a.mstrata"):
        training.step()
    recording = files.read(tmp_path / "a.mstrata")
    assert Category.optimizer_state not in {c for c, b in Run(recording).categories_at(0).items() if b}
    assert "optimizer_unseen" not in codes(recording)  # it is there, and has no state yet


def test_a_state_that_cannot_be_seen_is_said(tmp_path: Path) -> None:
    """An optimizer that is none of torch's: its moments are tensors like any others."""
    model = mlp()
    model[1].register_forward_pre_hook(_fail)
    with contextlib.suppress(Boom), Recorder(tmp_path / "a.mstrata"):
        model(torch.randn(8, 16)).sum().backward()
    cut = Run(files.read(tmp_path / "a.mstrata"), name="cut")
    trust = trust_of(cut)
    assert trust is not None and "optimizer_unseen" in {problem.code for problem in trust.lost}
    training = Training(fails_in=-1)
    training.run(1)
    whole = Run(record(tmp_path / "whole.mstrata", training.step), name="whole")
    texts = [warning.text for warning in warnings_of(whole, cut) if warning.code == "optimizer_state_in_one_run"]
    assert texts == [
        "Only whole holds optimizer state when its step begins: cut shows none, since no optimizer was seen."
    ]


def test_nothing_is_missed_of_a_model_that_is_not_trained(tmp_path: Path) -> None:
    model = mlp().requires_grad_(False)
    model[1].register_forward_pre_hook(_fail)
    with contextlib.suppress(Boom), Recorder(tmp_path / "a.mstrata"):
        model(torch.randn(8, 16))
    assert {"step_raised", "optimizer_unseen"} & codes(files.read(tmp_path / "a.mstrata")) == {"step_raised"}


def _fail(module: nn.Module, args: object) -> None:
    raise Boom
