"""torch's own memory history: switched on and off, used while somebody else records it, and cut by the step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from gpu_steps import codes, mlp, one, train

from memstrata.capture import Recorder
from memstrata.capture.allocation_sources import cuda_history
from memstrata.capture.allocation_sources.cuda import CudaSource
from memstrata.capture.format import files
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.schema import Action, Severity
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run

SMALL, BEFORE = 12_345, 54_321
"""Sizes that nothing else asks for."""


@pytest.fixture
def users_history() -> Iterator[None]:
    torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=100_000)
    yield
    torch.cuda.memory._record_memory_history(None)


def bytes_tensor(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def allocated_so_far() -> int:
    return int(torch.cuda.memory_stats()["allocation.all.allocated"])


def test_history_is_off_again(tmp_path: Path) -> None:
    recording = train(tmp_path / "a.mstrata")
    assert not cuda_history.is_on()
    assert sum(map(len, torch.cuda.memory._snapshot()["device_traces"])) == 0
    assert codes(recording) == set()


def test_every_allocation_of_the_step_is_there(tmp_path: Path) -> None:
    model, x = mlp(), torch.randn(64, 1024, device="cuda")
    with Recorder(tmp_path / "a.mstrata"):
        before = allocated_so_far()
        model(x).square().mean().backward()
        made = allocated_so_far() - before
    events = files.read(tmp_path / "a.mstrata").events
    assert int((events.action == Action.alloc).sum()) == made > 10


def test_a_users_history_goes_on_and_keeps_what_it_has(tmp_path: Path, users_history: None) -> None:
    kept = [bytes_tensor(BEFORE) for _ in range(50)]
    recording = train(tmp_path / "a.mstrata")
    assert cuda_history.is_on() and len(kept) == 50
    sizes = [event["size"] for trace in torch.cuda.memory._snapshot()["device_traces"] for event in trace]
    assert sizes.count(BEFORE) >= 50
    assert not (recording.events.bytes == BEFORE).any()
    assert identities.check(Run(recording)) == [] and codes(recording) == set()


def test_the_step_is_cut_at_its_very_first_allocation(tmp_path: Path, users_history: None) -> None:
    model, x = mlp(), torch.randn(64, 1024, device="cuda")
    for number in range(20):
        path = tmp_path / f"{number}.mstrata"
        held = [bytes_tensor(BEFORE)]
        with Recorder(path):
            held.append(bytes_tensor(SMALL))
            model(x).sum().backward()
            held.append(bytes_tensor(SMALL))
        held.append(bytes_tensor(BEFORE))
        events = files.read(path).events
        allocated = events.bytes[events.action == Action.alloc]
        assert (allocated == SMALL).sum() == 2 and (allocated == BEFORE).sum() == 0
        assert allocated[0] == SMALL


def test_a_users_ring_that_is_too_small_is_said_and_left(tmp_path: Path) -> None:
    torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=20)
    try:
        recording = one(tmp_path / "a.mstrata")
        [lost] = [problem for problem in recording.meta.problems if problem.code == "history_overflowed"]
        assert lost.severity == Severity.error and "was left as it was" in lost.text
        device = torch.cuda.current_device()
        assert len(torch.cuda.memory._snapshot()["device_traces"][device]) == 20
    finally:
        torch.cuda.memory._record_memory_history(None)


def test_a_ring_of_our_own_that_is_too_small_is_said(tmp_path: Path) -> None:
    before = allocated_so_far()
    recording = one(tmp_path / "a.mstrata", source=CudaSource(ring=20))
    [lost] = [problem for problem in recording.meta.problems if problem.code == "history_overflowed"]
    kept = int((recording.events.action == Action.alloc).sum())
    assert 0 < lost.count + kept <= allocated_so_far() - before
    assert len(recording.events) <= 20


def test_a_history_of_the_state_only_is_said(tmp_path: Path) -> None:
    torch.cuda.memory._record_memory_history("state")
    try:
        assert "history_overflowed" in codes(one(tmp_path / "a.mstrata"))
    finally:
        torch.cuda.memory._record_memory_history(None)


def test_a_history_switched_off_inside_the_step_is_said(tmp_path: Path) -> None:
    model = mlp()
    with Recorder(tmp_path / "a.mstrata"):
        model(torch.randn(64, 1024, device="cuda"))
        torch.cuda.memory._record_memory_history(None)
    assert "history_ended" in codes(files.read(tmp_path / "a.mstrata"))


@pytest.mark.parametrize("stacks", ["python", "all"])
def test_stacks_have_python_frames_and_on_request_those_of_cpp(tmp_path: Path, stacks: str) -> None:
    recording = one(tmp_path / "a.mstrata", source=CudaSource(stacks=stacks))
    names = {recording.strings[int(name)] for name in recording.frames.name}
    assert "one" in names and ("forward" in names or "_call_impl" in names)
    assert any("at::" in name for name in names) == (stacks == "all")


def test_the_clock_of_the_history_is_that_of_the_host(tmp_path: Path) -> None:
    recording = train(tmp_path / "a.mstrata")
    time, spans = recording.events.time, recording.spans
    assert (np.diff(time) >= 0).all()
    slack = 2_000_000  # nanoseconds
    assert time[0] >= spans.start_time.min() - slack and time[-1] <= spans.end_time.max() + slack


def test_a_running_history_is_cut_as_often_as_one_likes() -> None:
    source = CudaSource(ring=100_000)
    source.start()
    try:
        for number in range(3):
            first = source.moment()
            held = [bytes_tensor(SMALL + number) for _ in range(4)]
            strings = StringTable()
            cut = source.cut(source.take(), first, strings, StackTable(strings)).tables["events"]
            allocated = cut.bytes[cut.action == Action.alloc].tolist()  # type: ignore[attr-defined]
            assert allocated == [SMALL + number] * 4 and len(held) == 4
            assert cuda_history.is_on()
    finally:
        source.stop()
    assert not cuda_history.is_on()
