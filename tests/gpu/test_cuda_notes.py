"""What is noted on the GPU in the step: no waiting, times of layers, stamps on allocations, the device's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gpu_steps import codes, mlp, one, train

from memstrata.capture import Recorder
from memstrata.capture.format import files, stamps
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Action, MarkKind, Phase
from memstrata.viewer.model.outside import outside_allocator
from memstrata.viewer.model.run import Run

stamps_only = pytest.mark.skipif(
    getattr(torch._C, "_cuda_setMemoryMetadata", None) is None, reason="this torch stamps no texts"
)


def test_nothing_waits_inside_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = mlp(), torch.randn(64, 1024, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    waited: list[Any] = []
    real = torch.cuda.synchronize
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: (waited.append(device), real(device)))
    with Recorder(tmp_path / "a.mstrata"):
        before = len(waited)
        torch.cuda.set_sync_debug_mode("error")  # whatever waits for a stream raises, in our hooks too
        try:
            model(x).square().mean().backward()
            optimizer.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        inside = len(waited) - before
    assert (before, inside, len(waited)) == (1, 0, 2)
    assert codes(files.read(tmp_path / "a.mstrata")) == set()


def layer_spans(recording: Recording, phase: Phase) -> list[int]:
    layers = set(recording.layers.module.tolist())
    spans = recording.spans
    return [i for i in range(len(spans)) if spans.phase[i] == phase and int(spans.module[i]) in layers]


def test_layers_and_phases_know_how_long_the_device_worked(tmp_path: Path) -> None:
    recording = train(tmp_path / "a.mstrata")
    spans = recording.spans
    whole = recording.meta.step_seconds_recorded
    assert whole is not None
    for phase in (Phase.forward, Phase.backward):
        rows = layer_spans(recording, phase)
        worked = spans.device_time[rows]
        assert len(rows) == 4 and (worked > 0).all() and worked.sum() < whole * 1e9
    phases = spans.device_time[spans.module == NONE]
    assert (phases >= 0).all() and 0.5 * whole < phases.sum() / 1e9 < 1.5 * whole


def test_memory_outside_the_allocator_is_there(tmp_path: Path) -> None:
    recording = train(tmp_path / "a.mstrata")
    marks = recording.marks
    used = marks.value[marks.kind == MarkKind.device_memory]
    total = recording.meta.devices[0].total_bytes
    assert total is not None and len(used) >= 2 and (used > 0).all() and (used <= total).all()
    outside = outside_allocator(Run(recording))
    assert outside is not None and (outside.bytes > 0).all()  # at least the CUDA context


@stamps_only
@pytest.mark.parametrize("checkpointed", [False, True])
def test_stamps_agree_with_the_spans(tmp_path: Path, checkpointed: bool) -> None:
    recording = train(tmp_path / "a.mstrata", checkpointed)
    events = recording.events
    made = np.flatnonzero(events.action == Action.alloc)
    texts = [recording.strings[int(events.metadata[row])] for row in made]
    parsed = [stamps.parse(text) for text in texts]
    assert np.mean([stamp.phase is not None for stamp in parsed]) > 0.8
    assert {stamp.place.split(".")[0] for stamp in parsed if stamp.phase == Phase.forward} >= {"0", "1", "2", "3"}
    assert any(stamp.phase == Phase.recompute for stamp in parsed) == checkpointed
    assert any(stamp.phase == Phase.backward for stamp in parsed)


@stamps_only
def test_no_stamp_stays_on_any_thread(tmp_path: Path) -> None:
    train(tmp_path / "a.mstrata")
    assert torch._C._cuda_getMemoryMetadata() == ""
    torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=100_000)
    try:
        mlp()(torch.randn(64, 1024, device="cuda")).sum().backward()  # allocates on autograd's thread too
        events = [event for trace in torch.cuda.memory._snapshot()["device_traces"] for event in trace]
    finally:
        torch.cuda.memory._record_memory_history(None)
    assert events and {event["user_metadata"] for event in events} == {""}


@stamps_only
def test_the_users_own_text_is_kept(tmp_path: Path) -> None:
    torch._C._cuda_setMemoryMetadata("epoch 3")
    try:
        recording = one(tmp_path / "a.mstrata")
        assert torch._C._cuda_getMemoryMetadata() == "epoch 3"
    finally:
        torch._C._cuda_setMemoryMetadata("")
    events = recording.events
    made = events.metadata[events.action == Action.alloc]
    texts = {recording.strings[int(text)] for text in made}
    assert any(text.startswith("epoch 3 | memstrata: forward ") for text in texts)


def test_a_replayed_graph_is_said(tmp_path: Path) -> None:
    frozen, model = mlp().requires_grad_(False), mlp()
    x = torch.randn(64, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        frozen(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        features = frozen(x)
    with Recorder(tmp_path / "a.mstrata"):
        for _ in range(2):
            graph.replay()
            model(features).sum().backward()
    [problem] = [p for p in files.read(tmp_path / "a.mstrata").meta.problems if p.code == "cuda_graphs"]
    assert problem.count == 2 and "replayed" in problem.text


def test_a_graph_captured_inside_the_step_is_captured(tmp_path: Path) -> None:
    frozen, model = mlp().requires_grad_(False), mlp()
    x = torch.randn(64, 1024, device="cuda")
    frozen(x)
    want = frozen(x)
    torch.cuda.synchronize()
    with Recorder(tmp_path / "a.mstrata"):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = frozen(x)
        model(x).sum().backward()
    graph.replay()
    assert torch.equal(got, want)
    recording = files.read(tmp_path / "a.mstrata")
    assert "cuda_graphs" in codes(recording) and "recorder_failure" not in codes(recording)
    assert (recording.allocator_segments.pool_id != 0).any() or (recording.allocator_segments.pool_owner != 0).any()
