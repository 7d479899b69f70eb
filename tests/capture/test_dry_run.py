"""Dry runs: the teaching model's arithmetic, what a recording of one holds, and that nothing stays behind."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from memstrata.capture import CaptureError, dry_run
from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Action, Category, Fate, Phase, StorageKind
from memstrata.capture.models.teaching import TeachingConfig, TeachingModel
from memstrata.capture.presets import Sizes, job
from memstrata.viewer.analysis.headline import headline
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.text import report_text

from .recordings import codes, saved_bytes

LAYERS, TOKENS = 64, 8192
NORMS = 2 * (2 * 5120 * 4 + 4)
"""Bytes per token, of the CPU's composite rms_norm: input and scaled input in float32, and one float32."""
FUSED_NORMS = 2 * (5120 * 2 + 4)
REST = 2 * (2 * 5120 + 2 * 6144 + 2 * 1024 + 3 * 6144 + 4 * 17408) + 24 * 4
"""Norm outputs, query with gate, key and value, attention output, sigmoid and gated, four of the FFN's; logsumexp."""


def teaching(tmp_path: Path, step: Any, fused: bool = False, **options: Any) -> Recording:
    def build() -> tuple[nn.Module, torch.Tensor]:
        torch.set_default_dtype(torch.bfloat16)
        return TeachingModel(TeachingConfig(**options)), torch.zeros(1, TOKENS, 5120, requires_grad=True)

    dry_run(build, step, tmp_path / "teaching.mstrata", super_block=4, fused=fused)
    return files.read(tmp_path / "teaching.mstrata")


def forward(model: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    return model(hidden)


class TestTeachingModel:
    def test_full_size_to_the_byte(self, tmp_path: Path) -> None:
        job("teaching", None, Sizes()).run(tmp_path / "a.mstrata")
        recording = files.read(tmp_path / "a.mstrata")
        assert saved_bytes(recording, Fate.kept) == (NORMS + REST) * TOKENS * LAYERS == 161_115_799_552  # 150.05 GiB
        run = Run(recording)
        assert check(run) == []
        assert run.reserved is None
        assert headline(run)[0].text.startswith("Peak 195 GiB (dry run, kernels: cpu) in backward of")
        assert "activations up to 150 GiB, shapes say 96.0 GiB" in headline(run)[0].text
        assert "closes exactly" in headline(run)[1].text
        assert "+" not in headline(run)[2].text  # no seconds: nothing was computed

    def test_segments_keep_their_inputs(self, tmp_path: Path) -> None:
        recording = teaching(tmp_path, forward, segment_layers=4)
        boundary = TOKENS * 5120 * 2
        assert saved_bytes(recording, Fate.kept) == 15 * boundary  # the sixteenth is the model's input
        known = recording.known_storages
        assert [int(b) for b in known.bytes[known.kind == StorageKind.input]] == [boundary]
        assert 16 * boundary == 1.25 * 2**30

    def test_fused_norms_keep_no_float32_copies(self, tmp_path: Path) -> None:
        recording = teaching(tmp_path, forward, fused=True)
        state = 24
        without_the_models_input = (FUSED_NORMS + REST) * TOKENS * LAYERS + state * LAYERS - TOKENS * 5120 * 2
        assert saved_bytes(recording, Fate.kept) == without_the_models_input
        assert (NORMS - FUSED_NORMS) * TOKENS * LAYERS == 30 * 2**30  # 40 GiB of float32, 10 of bfloat16 instead
        assert recording.meta.kernels == "fused (estimate)"
        assert "128 calls of RMS norm" in recording.meta.estimates[0]
        assert "64 calls of flash attention" in recording.meta.estimates[1]
        assert "kernels: fused (estimate)" in headline(Run(recording))[0].text


class Small(nn.Module):
    """Two layers; `inside` is called in the second."""

    def __init__(self, inside: Any = lambda x: x) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(2))
        self.inside = inside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inside(self.layers[1](self.layers[0](x)))


def step(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
    model(torch.zeros(4, 8)).sum().backward()
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad()


def with_adamw() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = Small()
    return model, torch.optim.AdamW(model.parameters())


@pytest.fixture
def small(tmp_path: Path) -> Recording:
    dry_run(Small, step, tmp_path / "a.mstrata")
    return files.read(tmp_path / "a.mstrata")


class TestRecording:
    def test_says_what_it_is(self, small: Recording) -> None:
        meta = small.meta
        assert (meta.source, meta.kernels, meta.has_reserved, meta.has_durations) == ("dry run", "cpu", False, False)
        assert meta.step_seconds_recorded is None and meta.step_seconds_unrecorded is None
        assert "dry_run" in codes(small)
        assert any("CPU" in text for text in meta.estimates)
        text = report_text(small, "a.mstrata")
        assert text.startswith("a.mstrata: dry run of Small, kernels: cpu")
        assert "after the first event" not in text and "Not measured" in text

    def test_addresses_are_unique_and_do_not_overlap(self, small: Recording) -> None:
        events = small.events
        made = events.action == Action.alloc
        old = [(int(a), int(b)) for a, b in zip(small.blocks.address, small.blocks.bytes)]
        ranges = sorted({*zip(events.address[made].tolist(), events.bytes[made].tolist()), *old})
        assert len({address for address, _ in ranges}) == len(ranges)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(ranges))
        assert (np.diff(events.time) >= 0).all()

    def test_parameters_by_hand(self, small: Recording) -> None:
        run = Run(small)
        parameters = 4 * (8 * 8 + 8) * 4
        assert run.baseline_bytes == parameters
        assert run.categories_at(run.n_events)[Category.gradient] == parameters
        assert run.end_bytes == 2 * parameters

    def test_stacks_end_in_the_operation(self, small: Recording) -> None:
        leaves = {small.stack_frames(int(row))[0][0] for row in small.events.stack if row >= 0}
        assert {"aten::addmm", "aten::relu", "aten::zeros"} <= leaves
        whole = [[name for name, _, _ in small.stack_frames(int(row))] for row in small.events.stack if row >= 0]
        assert any(names[:2] == ["aten::mm", "AddmmBackward0"] and "step" in names for names in whole)
        assert not any("__torch_dispatch__" in names or "_fn" in names for names in whole)

    def test_optimizer_state_is_there_after_a_warm_up(self, tmp_path: Path) -> None:
        dry_run(with_adamw, step, tmp_path / "cold.mstrata")
        dry_run(with_adamw, step, tmp_path / "warm.mstrata", warmup=1)
        cold, warm = (Run(files.read(tmp_path / f"{name}.mstrata")) for name in ("cold", "warm"))
        parameters = 4 * (8 * 8 + 8) * 4
        steps = 8 * 4  # the step counter of each parameter, one float32
        assert cold.baseline_bytes == parameters
        assert warm.baseline_bytes == 3 * parameters + steps
        for run in (cold, warm):
            assert check(run) == []
            assert run.categories_at(run.n_events)[Category.optimizer_state] == 2 * parameters + steps
        assert warm.recording.meta.optimizer == "AdamW"
        assert Phase.optimizer in warm.recording.spans.phase

    def test_a_storage_that_grows_is_another_allocation(self, tmp_path: Path) -> None:
        def grow(x: torch.Tensor) -> torch.Tensor:
            scratch = torch.zeros(10)
            scratch.resize_(1000)
            return x + scratch[:8]

        dry_run(lambda: Small(grow), step, tmp_path / "a.mstrata")
        recording = files.read(tmp_path / "a.mstrata")
        assert check(Run(recording)) == []
        made = recording.events.bytes[recording.events.action == Action.alloc].tolist()
        assert 40 in made and 4000 in made
        assert "lost_frees" not in {problem.code for problem in Run(recording).problems}


class TestNothingStaysBehind:
    def test_defaults_random_numbers_and_modes(self, tmp_path: Path) -> None:
        def build() -> nn.Module:
            torch.set_default_dtype(torch.float64)
            torch.set_default_device("meta")
            torch.set_default_device("cpu")
            torch.manual_seed(7)
            return Small()

        torch.manual_seed(3)
        state = torch.get_rng_state()
        for name in ("a", "b"):
            dry_run(build, step, tmp_path / f"{name}.mstrata", fused=True)
        assert torch.get_default_dtype() == torch.float32
        assert torch.get_default_device() == torch.device("cpu")
        assert getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None) is None
        assert torch.equal(state, torch.get_rng_state())
        assert not isinstance(torch.zeros(1), FakeTensor)
        one, two = (Run(files.read(tmp_path / f"{name}.mstrata")) for name in ("a", "b"))
        assert one.curve.tolist() == two.curve.tolist()
        model = Small()  # and a real model trains as ever
        assert model(torch.ones(1, 8)).sum().item() == model(torch.ones(1, 8)).sum().item()

    @pytest.mark.parametrize("error", [ZeroDivisionError("here"), KeyboardInterrupt()])
    def test_an_exception_passes_unchanged_and_the_rest_is_written(self, tmp_path: Path, error: BaseException) -> None:
        def fail(x: torch.Tensor) -> torch.Tensor:
            raise error

        with pytest.raises(type(error)) as raised:
            dry_run(lambda: Small(fail), step, tmp_path / "a.mstrata")
        assert raised.value is error
        recording = files.read(tmp_path / "a.mstrata")
        assert "step_raised" in codes(recording)
        assert check(Run(recording)) == []
        assert Run(recording).n_events > 3
        assert not isinstance(torch.zeros(1), FakeTensor)

    def test_progress(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("memstrata.capture.dry_step.PROGRESS_SECONDS", 0.0)
        monkeypatch.setattr("memstrata.capture.allocation_sources.dry_run.LOOK_EVERY", 1)
        said: list[str] = []
        dry_run(Small, step, tmp_path / "a.mstrata", progress=said.append)
        assert said[0].startswith("building the model")
        assert any(text.startswith("the recorded step, layers.1.2: ") and text.endswith(" alive") for text in said)


class Reads(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()


class Selects(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]


class TestRefused:
    @pytest.mark.parametrize(
        ("inside", "says"),
        [
            (Reads(), "aten._local_scalar_dense in inside: it asks for a value (.item()"),
            (Selects(), "aten.index in inside: it makes a tensor whose shape depends on values"),
            (lambda x: x.nonzero(), "aten.nonzero in the Small itself"),
        ],
    )
    def test_operations_that_need_values(self, tmp_path: Path, inside: Any, says: str) -> None:
        with pytest.raises(CaptureError, match="The dry run cannot go past") as refused:
            dry_run(lambda: Small(inside), step, tmp_path / "a.mstrata")
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)

    def test_in_the_step_outside_of_modules(self, tmp_path: Path) -> None:
        with pytest.raises(CaptureError, match="in the step, outside of modules"):
            dry_run(Small, lambda model: model(torch.zeros(1, 8)).sum().item(), tmp_path / "a.mstrata")

    def test_what_is_caught_inside_is_no_refusal(self, tmp_path: Path) -> None:
        def careful(model: nn.Module) -> None:
            loss = model(torch.zeros(4, 8)).sum()
            try:
                loss.item()
            except RuntimeError:
                pass
            loss.backward()

        dry_run(Small, careful, tmp_path / "a.mstrata")
        assert (tmp_path / "a.mstrata").exists()

    def test_another_device(self, tmp_path: Path) -> None:
        with pytest.raises(CaptureError, match="leave out"):
            dry_run(Small, lambda model: model(torch.zeros(1, 8, device="cuda")), tmp_path / "a.mstrata")

    def test_a_model_that_was_there_before(self, tmp_path: Path) -> None:
        model = Small()
        with pytest.raises(CaptureError, match=r"layers\.0\.0\.weight was there before"):
            dry_run(lambda: model, step, tmp_path / "a.mstrata")

    def test_wrong_arguments_before_anything_is_built(self, tmp_path: Path) -> None:
        def build() -> nn.Module:
            raise AssertionError

        with pytest.raises(CaptureError, match="does not exist"):
            dry_run(build, step, tmp_path / "missing" / "a.mstrata")
        with pytest.raises(CaptureError, match="warmup"):
            dry_run(build, step, tmp_path / "a.mstrata", warmup=-1)
        with pytest.raises(CaptureError, match=r"no torch\.nn\.Module but int"):
            dry_run(lambda: 3, step, tmp_path / "a.mstrata")
