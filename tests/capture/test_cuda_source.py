"""The CUDA source over a fake boundary: call order, synchronisations, what is left switched on, what is stamped.

The model runs on the CPU and asks the fake for memory; nothing here shows that a GPU behaves so (see `tests/gpu`).
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from memstrata.capture import Recorder
from memstrata.capture.allocation_sources.cuda import CudaSource
from memstrata.capture.errors import CaptureError
from memstrata.capture.format import files, stamps
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.recording import Recording, build
from memstrata.capture.format.schema import NONE, Action, Events, MarkKind, Phase
from memstrata.viewer.model.outside import outside_allocator
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.json import report_json
from memstrata.viewer.report.text import report_text

from .fake_cuda import FakeCuda

FORWARD, BACKWARD = 4096, 512


class _Ask(torch.autograd.Function):
    """Asks the fake for memory in forward and in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, fake: FakeCuda, device: int) -> Tensor:
        ctx.fake, ctx.device = fake, device
        ctx.save_for_backward(x)
        fake.alloc(FORWARD, device)
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        _ = ctx.saved_tensors
        ctx.fake.free(ctx.fake.alloc(BACKWARD, ctx.device), ctx.device)
        return gradient, None, None


class Layer(nn.Module):
    def __init__(self, fake: FakeCuda, device: int = 0) -> None:
        super().__init__()
        self.fake, self.device = fake, device
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return _Ask.apply(x * self.scale, self.fake, self.device)


class Model(nn.Module):
    def __init__(self, fake: FakeCuda, devices: tuple[int, ...] = (0, 0), checkpointed: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(fake, device) for device in devices)
        self.checkpointed = checkpointed

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        return x


def run(model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()


def record(path: Path, model: nn.Module, **options: Any) -> Recording:
    with Recorder(path, source=CudaSource(**options)):
        run(model)
    return files.read(path)


def stamped(recording: Recording, size: int) -> list[str]:
    events = recording.events
    rows = np.flatnonzero((events.action == Action.alloc) & (events.bytes == size))
    return [recording.strings[int(events.metadata[row])] for row in rows]


def codes(recording: Recording) -> set[str]:
    return {problem.code for problem in recording.meta.problems}


def test_one_synchronisation_before_the_step_and_one_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch, count=4)
    fake.alloc(1 << 10, device=1)  # the process uses one device of four
    record(tmp_path / "a.mstrata", Model(fake, devices=(1, 1)), ring=5000)
    assert [call for call in fake.calls if not call.startswith("memory")] == [
        "init", "synchronize 1", "history all all python 5000", "synchronize 1", "snapshot", "history None",
    ]  # fmt: skip
    inside = fake.calls[3:-3]
    assert inside and all(call == "memory 1" for call in inside)


def test_a_device_first_used_in_the_step_is_waited_for_at_its_end_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeCuda(monkeypatch, count=3)
    fake.alloc(1 << 10, device=0)
    recording = record(tmp_path / "a.mstrata", Model(fake, devices=(0, 2)))
    assert [call for call in fake.calls if call.startswith("synchronize")] == [f"synchronize {d}" for d in (0, 0, 2)]
    assert [(d.name, d.ordinal, d.total_bytes) for d in recording.meta.devices] == [
        ("cuda:0", 0, 80 << 30),
        ("cuda:2", 2, 80 << 30),
    ]
    assert [int((recording.events.device == row).sum()) for row in (0, 1)] == [4, 4]


def test_the_history_goes_off_again_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeCuda(monkeypatch)

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no")

    monkeypatch.setattr(torch.cuda.memory, "_snapshot", fail)
    with pytest.raises(KeyError, match="the training's own"), Recorder(tmp_path / "a.mstrata", source="cuda"):
        run(Model(fake))
        raise KeyError("the training's own")
    assert not fake.on and fake.text() == ""
    assert "the step was not recorded: torch gave no snapshot of the CUDA memory (no)." in capsys.readouterr().err


def test_a_users_history_is_neither_changed_nor_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    fake.switch("all", max_entries=1000)
    before = [fake.alloc(64) for _ in range(50)]
    fake.free(before[0])
    fake.calls.clear()
    recording = record(tmp_path / "a.mstrata", Model(fake))
    assert not [call for call in fake.calls if call.startswith("history")]
    assert fake.on and len(fake.traces[0]) == 52 + 2 + 2 * 3
    assert recording.events.bytes.tolist() == [FORWARD] * 2 + [BACKWARD] * 6
    assert codes(recording) == {"history_without_stacks"}  # the fake keeps none


def test_a_users_ring_that_is_too_small_is_said_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    fake.switch("all", max_entries=6)
    recording = record(tmp_path / "a.mstrata", Model(fake))
    [lost] = [problem for problem in recording.meta.problems if problem.code == "history_overflowed"]
    assert lost.count == 2 and lost.text.startswith("2 of the step's 4 allocations on cuda:0 are missing")
    assert fake.ring == 6


def test_a_ring_of_our_own_that_is_too_small_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    monkeypatch.setenv("MEMSTRATA_CUDA_RING", "6")
    recording = record(tmp_path / "a.mstrata", Model(fake))
    [lost] = [problem for problem in recording.meta.problems if problem.code == "history_overflowed"]
    assert "MEMSTRATA_CUDA_RING" in lost.text and "6 entries" in lost.text


@pytest.mark.parametrize(("setting", "value"), [("RING", "none"), ("RING", "0"), ("STACKS", "cpp")])
def test_settings_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch, setting: str, value: str) -> None:
    monkeypatch.setenv(f"MEMSTRATA_CUDA_{setting}", value)
    with pytest.raises(CaptureError, match=value):
        CudaSource()


@pytest.mark.parametrize("state", ["cudaMallocAsync", "capturing", "no caching"])
def test_where_there_can_be_no_history_the_step_runs_unrecorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    fake = FakeCuda(monkeypatch)
    fake.capturing = state == "capturing"
    if state == "no caching":
        monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    elif state != "capturing":
        fake.backend = state
    ran = []
    with Recorder(tmp_path / "a.mstrata", source="cuda"):
        ran.append(True)
    said = capsys.readouterr().err
    assert ran and said.startswith("memstrata: not recording: ") and said.count("\n") == 1
    assert fake.calls == ["init"] and not (tmp_path / "a.mstrata").exists()


def test_a_failed_device_does_not_hide_the_exception_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeCuda(monkeypatch)
    with pytest.raises(RuntimeError, match="device-side assert"), Recorder(tmp_path / "a.mstrata", source="cuda"):
        model = Model(fake)
        model(torch.ones(3, 4))
        fake.fails = RuntimeError("CUDA error: device-side assert triggered")
        raise fake.fails
    recording = files.read(tmp_path / "a.mstrata")
    assert "step_raised" in codes(recording) and len(recording.events) == 2 and not fake.on


def test_stamps_name_the_module_and_phase_of_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    recording = record(tmp_path / "a.mstrata", Model(fake))
    assert stamped(recording, FORWARD) == [f"memstrata: forward layers.{i}" for i in (0, 1)]
    assert stamped(recording, BACKWARD) == [f"memstrata: backward layers.{i}" for i in (1, 0)]
    assert fake.text() == ""


def test_a_recomputation_is_stamped_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    recording = record(tmp_path / "a.mstrata", Model(fake, checkpointed=True))
    forward = [f"memstrata: forward layers.{i}" for i in (0, 1)]
    again = [f"memstrata: recompute layers.{i}" for i in (1, 0)]
    assert stamped(recording, FORWARD) == forward + again
    assert stamped(recording, BACKWARD) == [f"memstrata: backward layers.{i}" for i in (1, 0)]


def test_the_users_own_text_is_kept_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    fake.stamp("epoch 3")
    model = Model(fake)

    def change(*_: Any) -> None:
        fake.stamp("epoch 3, second half")

    model.layers[1].register_forward_pre_hook(change)
    recording = record(tmp_path / "a.mstrata", model)
    assert stamped(recording, FORWARD) == ["epoch 3 | memstrata: forward layers.0", "epoch 3, second half"]
    assert stamped(recording, BACKWARD)[1] == "epoch 3, second half | memstrata: backward layers.0"
    assert fake.text() == "epoch 3, second half"


def test_where_torch_cannot_stamp_nothing_is_stamped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch, stamps=False)
    monkeypatch.delattr(torch._C, "_cuda_setMemoryMetadata", raising=False)
    recording = record(tmp_path / "a.mstrata", Model(fake))
    assert (recording.events.metadata == NONE).all() and len(recording.events) == 8


def test_spans_say_how_long_the_device_worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    fake.alloc(8)  # in use before the step
    recording = record(tmp_path / "a.mstrata", Model(fake))
    spans = recording.spans
    timed = spans.device_time != NONE
    host = spans.end_time - spans.start_time
    of_module, phases = spans.module != NONE, {Phase(p) for p in spans.phase[timed]}
    assert not timed[of_module & (spans.phase == Phase.forward)].any()  # its parameters are on the CPU
    assert timed[~of_module].all() and timed[of_module & (spans.phase == Phase.backward)].all()
    assert {Phase.forward, Phase.backward, Phase.optimizer} <= phases
    assert (np.abs(spans.device_time - host)[timed] < 50_000_000).all()  # the fake device runs with the host
    assert recording.meta.step_seconds_recorded is not None


def test_memory_of_the_whole_device_is_marked_at_phases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    fake.alloc(1 << 20)
    recording = record(tmp_path / "a.mstrata", Model(fake))
    marks = recording.marks
    rows = np.flatnonzero(marks.kind == MarkKind.device_memory)
    assert {recording.strings[int(marks.text[row])] for row in rows} == {"cuda:0"}
    assert marks.value[rows[0]] == (1 << 20) + (1 << 30)


def test_the_report_says_what_lies_outside_the_allocator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    fake.segments = True
    fake.alloc(1 << 20)
    recording = record(tmp_path / "a.mstrata", Model(fake))
    outside = outside_allocator(Run(recording))
    assert outside is not None and outside.bytes.tolist() == [1 << 30] * len(outside.position)
    assert len(outside.position) >= 2 and outside.device_bytes[0] == (1 << 30) + (1 << 20)
    assert re.search(r"outside the allocator +1.00 GiB +1.00 GiB +1.00 GiB", report_text(recording, "a"))
    assert report_json(recording, "a")["devices"][0]["outside_allocator_peak_bytes"] == 1 << 30


def test_a_stamp_is_believed_before_a_clock_that_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    good = record(tmp_path / "a.mstrata", Model(fake))
    late = dataclasses.replace(good.events, time=good.events.time + 10**9)
    run = Run(build(good.meta, good.strings, **{**dict(good.tables()), "events": late}))
    assert run.layers.names == ("layers.0", "layers.1")
    assert run.attribution.layer.tolist() == Run(good).attribution.layer.tolist() == [0, 1, 1, 0]
    assert run.attribution.phase.tolist() == [Phase.forward] * 2 + [Phase.backward] * 2
    bare = dataclasses.replace(late, metadata=np.full_like(late.metadata, NONE))
    run = Run(build(good.meta, good.strings, **{**dict(good.tables()), "events": bare}))
    assert run.attribution.layer.tolist() == [NONE] * 4  # by time alone everything came after the step


def test_graphs_are_counted_and_the_class_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda self: "replayed")
    original = torch.cuda.CUDAGraph.replay
    with Recorder(tmp_path / "a.mstrata", source="cuda"):
        run(Model(fake))
        assert [torch.cuda.CUDAGraph.replay(None) for _ in range(3)] == ["replayed"] * 3  # type: ignore[arg-type]
    [graphs] = [p for p in files.read(tmp_path / "a.mstrata").meta.problems if p.code == "cuda_graphs"]
    assert graphs.count == 3 and torch.cuda.CUDAGraph.replay is original


def test_a_running_history_can_be_cut_many_times(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(monkeypatch)
    source = CudaSource()
    source.start()
    sizes = []
    for step in range(3):
        first = source.moment()
        fake.free(fake.alloc(100 + step))
        strings = StringTable()
        events = source.cut(source.take(), first, strings, StackTable(strings)).tables["events"]
        assert isinstance(events, Events)
        sizes.append(events.bytes.tolist())
        assert fake.on
    assert sizes == [[100 + step] * 3 for step in range(3)]
    source.stop()
    assert not fake.on


def test_stamps_are_parsed_as_they_are_written() -> None:
    for text in ("", "a user's", "memstrata: dance x", "memstrata: ", "x | memstrata: forward a.b", "memstrata: other"):
        assert stamps.parse(text).text == text
    assert stamps.parse("x | memstrata: forward a.b") == stamps.Stamp("x", Phase.forward, "a.b")
    assert stamps.parse("memstrata: dance x") == stamps.Stamp("memstrata: dance x")
