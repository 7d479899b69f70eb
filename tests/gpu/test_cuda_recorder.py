"""The CUDA source on a real GPU: the same tables as on the CPU, and nothing left switched on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gpu_steps import ONE, ROWS, WIDTH, codes, mlp, train
from torch.autograd.graph import save_on_cpu

from memstrata.capture import Recorder
from memstrata.capture.format import files
from memstrata.capture.format.schema import Category, Fate, MarkKind, Phase
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run


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


def test_running_out_of_memory_is_recorded_and_raised(tmp_path: Path) -> None:
    model = mlp()
    with pytest.raises(torch.OutOfMemoryError), Recorder(tmp_path / "a.mstrata"):
        model(torch.randn(ROWS, WIDTH, device="cuda"))
        torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
    recording = files.read(tmp_path / "a.mstrata")
    assert "step_raised" in codes(recording)
    [row] = (recording.marks.kind == MarkKind.oom).nonzero()[0]
    assert recording.marks.value[row] == 1 << 44
    assert identities.check(Run(recording)) == []
    assert torch.ones(3, device="cuda").sum() == 3  # the context lives on
