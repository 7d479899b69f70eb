"""The recorder's own bookkeeping fails: it is counted and switched off, and training goes on as if nothing was."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from memstrata.capture import layers, phases, saved_tensors, selective
from memstrata.capture.format.schema import Phase, Severity
from memstrata.capture.storages import Storages
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run

from .recordings import batch, mlp, record, tensors_of
from .test_training_unchanged import replaced


def training() -> tuple[nn.Module, Callable[[], None]]:
    """A step in which every watch has something to see."""
    torch.manual_seed(4)
    model = mlp(2)
    optimizer = torch.optim.AdamW(model.parameters())
    keep = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])

    def step() -> None:
        y = checkpoint(model[0], batch(), use_reentrant=False, context_fn=keep)
        y = checkpoint(model[1], y, use_reentrant=False)
        y.square().mean().backward()
        optimizer.step()

    return model, step


class Broken(Exception):
    """Raised by bookkeeping that a test broke."""


def broken(*args: Any, **kwargs: Any) -> Any:
    raise Broken("on purpose")


FAILURES: dict[str, tuple[Any, str, str]] = {
    "entering a module": (layers.ModuleWatch, "_note_root", "ModuleWatch"),
    "leaving a module": (layers.ModuleWatch, "_close", "ModuleWatch"),
    "beginning a backward": (phases, "_is_loss", "PhaseWatch"),
    "naming gradients": (phases, "note_gradients", "PhaseWatch"),
    "an optimizer step": (phases, "note_state", "PhaseWatch"),
    "packing": (saved_tensors, "python_frames", "SavedTensorWatch"),
    "unpacking": (saved_tensors, "Unpack", "SavedTensorWatch"),
    "a recomputation": (saved_tensors, "Interval", "SavedTensorWatch"),
    "a checkpoint's function": (saved_tensors, "enclosed", "SavedTensorWatch"),
    "the selective cache": (selective, "cached", "SelectiveCacheWatch"),
    "storages": (Storages, "parts", "SavedTensorWatch"),
}


@pytest.mark.parametrize("where", FAILURES)
def test_a_part_that_fails_is_counted_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    home, name, watch = FAILURES[where]
    before, outcomes = replaced(), []
    for recorded in (False, True):
        model, step = training()
        step()
        torch.manual_seed(6)
        if recorded:
            with monkeypatch.context() as patched:
                patched.setattr(home, name, broken)
                recording = record(tmp_path / "a.mstrata", step, model=model)
        else:
            step()
        outcomes.append(tensors_of(model))
    assert replaced() == before
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))
    failures = [p for p in recording.meta.problems if p.code == "recorder_failure"]
    assert [(p.severity, p.count) for p in failures] == [(Severity.error, 1)]
    assert watch in failures[0].text and "Broken: on purpose" in failures[0].text
    run = Run(recording)
    assert check(run) == [] and run.peak_bytes > 0
    others = {  # what the others saw is there all the same
        "ModuleWatch": (run.spans.phase == Phase.backward).any() and len(recording.saved_tensors) > 0,
        "PhaseWatch": (run.spans.module >= 0).any() and len(recording.saved_tensors) > 0,
        "SavedTensorWatch": (run.spans.module >= 0).any() and (run.spans.phase == Phase.optimizer).any(),
        "SelectiveCacheWatch": (run.spans.module >= 0).any() and len(recording.saved_tensors) > 0,
    }
    assert others[watch]


def test_a_part_that_cannot_be_put_back_does_not_keep_the_others_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, model = replaced(), mlp(1)
    monkeypatch.setattr(selective.SelectiveCacheWatch, "remove", broken)
    with monkeypatch.context():
        recording = record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward(), model=model)
    if selective._MODE is not None and "__exit__" in vars(selective._MODE):
        del selective._MODE.__exit__
    assert replaced() == before
    assert [p.code for p in recording.meta.problems].count("recorder_failure") == 1
