"""The CUDA source on a real GPU: the same tables as on the CPU, and nothing left switched on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

from memstrata.capture import Recorder, record_step
from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Category, Fate, Phase
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run

ROWS, WIDTH = 4096, 1024
ONE = ROWS * WIDTH * 4


def mlp(depth: int = 4) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.GELU()) for _ in range(depth)]).cuda()


def train(path: Path, checkpointed: bool = False, calls: int = 4) -> Recording:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())

    @record_step(path)
    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        for block in model:
            x = checkpoint(block, x, use_reentrant=False) if checkpointed else block(x)
        x.square().mean().backward()
        optimizer.step()

    for _ in range(calls):
        step(torch.randn(ROWS, WIDTH, device="cuda"))
    return files.read(path)


def test_a_step_on_the_gpu_has_the_same_tables_as_on_the_cpu(tmp_path: Path) -> None:
    recording = train(tmp_path / "a.mstrata")
    run = Run(recording)
    assert (recording.meta.source, recording.meta.devices[0].name) == ("cuda", "cuda:0")
    assert recording.meta.devices[0].total_bytes > 0 and recording.meta.has_reserved
    assert identities.check(run) == []
    assert run.peak_bytes <= torch.cuda.max_memory_allocated()
    assert run.saved_bytes_by_fate()[Fate.kept] == 8 * ONE - ONE + ONE  # inputs of GELU and Linear, and square's
    assert run.categories_at(run.n_events)[Category.parameter] == 4 * WIDTH * WIDTH * 4
    assert run.coverage_at(run.peak_position) > 0.95


def test_phases_and_layers_follow_backward_on_its_own_thread(tmp_path: Path) -> None:
    recording = train(tmp_path / "a.mstrata", checkpointed=True)
    spans = recording.spans
    phases = {Phase(p) for p in spans.phase}
    assert {Phase.forward, Phase.recompute, Phase.backward, Phase.optimizer} <= phases
    recomputed = {int(t) for t, p, m in zip(spans.thread, spans.phase, spans.module, strict=True)
                  if p == Phase.recompute and m >= 0}  # fmt: skip
    forward = {int(t) for t, p, m in zip(spans.thread, spans.phase, spans.module, strict=True)
               if p == Phase.forward and m >= 0}  # fmt: skip
    assert recomputed and not recomputed & forward
    assert recording.meta.plan == (("0",), ("1",), ("2",), ("3",))


def test_checkpointing_lowers_the_peak(tmp_path: Path) -> None:
    before, after = (Run(train(tmp_path / f"{c}.mstrata", checkpointed=c)) for c in (False, True))
    assert after.peak_bytes < before.peak_bytes


def test_gradients_are_bit_equal(tmp_path: Path) -> None:
    found = []
    for recorded in (False, True):
        model, x = mlp(), torch.ones(64, WIDTH, device="cuda")
        if recorded:
            with Recorder(tmp_path / "a.mstrata"):
                model(x).square().mean().backward()
        else:
            model(x).square().mean().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_save_on_cpu_is_offloaded(tmp_path: Path) -> None:
    model = mlp()
    with Recorder(tmp_path / "a.mstrata"):
        with save_on_cpu():
            y = model(torch.randn(ROWS, WIDTH, device="cuda"))
        y.square().mean().backward()
    fates = {Fate(f) for f in files.read(tmp_path / "a.mstrata").saved_tensors.fate}
    assert Fate.offloaded in fates


@pytest.mark.parametrize("recorded_already", [False, True])
def test_the_history_is_left_as_it_was(tmp_path: Path, recorded_already: bool) -> None:
    if recorded_already:
        torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=100_000)
        keep = [torch.randn(1024, device="cuda") for _ in range(50)]
    try:
        recording = train(tmp_path / "a.mstrata")
        assert torch._C._cuda_isHistoryEnabled() == recorded_already
        assert identities.check(Run(recording)) == []
        if recorded_already:
            assert (recording.events.bytes != 4096).any() and len(keep) == 50
            assert (recording.events.time >= recording.spans.start_time[0] - 10**9).all()
    finally:
        torch.cuda.memory._record_memory_history(None)


def test_running_out_of_memory_is_recorded_and_raised(tmp_path: Path) -> None:
    model = mlp()
    with pytest.raises(torch.OutOfMemoryError), Recorder(tmp_path / "a.mstrata"):
        model(torch.randn(ROWS, WIDTH, device="cuda"))
        torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
    recording = files.read(tmp_path / "a.mstrata")
    assert "step_raised" in {p.code for p in recording.meta.problems}
    assert len(recording.marks) > 0
