"""Compiled models: one opaque piece each, nothing recompiled and nothing broken because the step is recorded."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from memstrata.capture import Recorder
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Phase
from memstrata.viewer.sources import open_file

from .recordings import WIDTH, batch, codes, module_paths, tensors_of
from .test_training_unchanged import replaced

BACKEND = "aot_eager"
"""Inductor needs a C++ compiler and behaves alike as far as hooks go."""


class Piece(nn.Module):
    def __init__(self, breaks: bool = False) -> None:
        super().__init__()
        self.linear, self.breaks = nn.Linear(WIDTH, WIDTH), breaks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.relu(self.linear(x))
        if self.breaks:
            torch._dynamo.graph_break()
        return y.sin()


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def pieces(*breaks: bool) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(*map(Piece, breaks))


def graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def recorded(path: Path, call: nn.Module, model: nn.Module | None = None) -> Recording:
    """Record one call; warnings are errors, as training may have asked for."""
    filters, before = list(warnings.filters), replaced()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Recorder(path, model=model):
            call(batch()).sum().backward()
    assert replaced() == before and list(warnings.filters) == filters
    return open_file(path)


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("warm", [False, True])
def test_a_compiled_model_is_one_piece(tmp_path: Path, fullgraph: bool, warm: bool) -> None:
    outcomes = []
    for records in (False, True):
        torch._dynamo.reset()
        model = pieces(False, False)
        call = torch.compile(model, backend=BACKEND, fullgraph=fullgraph)
        torch.manual_seed(2)
        if warm:
            call(batch()).sum().backward()
        before = graphs()
        if records:
            recording = recorded(tmp_path / "a.mstrata", call)
        else:
            call(batch()).sum().backward()
        assert graphs() - before == (0 if warm else 1)  # recording a warm call compiles nothing
        outcomes.append(tensors_of(model))
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))
    assert set(module_paths(recording, Phase.forward)) == {""}
    assert len(recording.saved_tensors) > 0 and set(recording.saved_tensors.module.tolist()) == {0}
    assert "compiled" in codes(recording) and "recorder_failure" not in codes(recording)
    assert recording.meta.graph_breaks == 0 and recording.meta.compiled_regions == graphs()


def test_graph_breaks_are_counted(tmp_path: Path) -> None:
    model = Piece(breaks=True)
    call = torch.compile(model, backend=BACKEND)
    call(batch()).sum().backward()
    meta = recorded(tmp_path / "a.mstrata", call).meta
    assert meta.graph_breaks == 1 and meta.compiled_regions == graphs() == 2


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_compiled_layer_is_one_layer(tmp_path: Path, in_place: bool, fullgraph: bool) -> None:
    """`module.compile()` calls no hook of its own: what is seen of it is its entry."""
    model = pieces(False, False)
    if in_place:
        model[0].compile(backend=BACKEND, fullgraph=fullgraph)
    else:
        model[0] = torch.compile(model[0], backend=BACKEND, fullgraph=fullgraph)
    model(batch()).sum().backward()
    before, entries = graphs(), [m._compiled_call_impl for m in model]
    recording = recorded(tmp_path / "a.mstrata", model)
    assert graphs() == before and [m._compiled_call_impl for m in model] == entries
    paths = module_paths(recording, Phase.forward)
    assert "0" in paths and "0.linear" not in paths and paths[-2:] == ["1", "1.linear"]
    saved, modules = recording.saved_tensors, recording.modules
    packers = {recording.strings[int(modules.path[m])] for m in saved.module}
    assert packers & {"0", "0._orig_mod"} and "1" in packers
    assert "compiled" in codes(recording)
    model(batch()).sum().backward()
    assert graphs() == before


def test_a_compiled_function_around_the_model(tmp_path: Path) -> None:
    model = pieces(False)
    forward = torch.compile(lambda x: model(x).square(), backend=BACKEND, fullgraph=True)
    forward(batch()).sum().backward()
    before = graphs()
    with Recorder(tmp_path / "a.mstrata", model=model):
        model(batch()).sum().backward()
        forward(batch()).sum().backward()
    assert graphs() == before
    assert "recorder_failure" not in codes(open_file(tmp_path / "a.mstrata"))


def test_the_part_that_is_compiled_stands_for_the_model_given(tmp_path: Path) -> None:
    model = pieces(False, False)
    call = torch.compile(model, backend=BACKEND)
    call(batch()).sum().backward()
    recording = recorded(tmp_path / "a.mstrata", call, model=model)
    assert recording.meta.model == "Sequential" and set(module_paths(recording, Phase.forward)) == {""}
    assert "compiled" in codes(recording)
