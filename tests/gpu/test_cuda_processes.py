"""Settings and failures that need a process of their own, and machines with two devices."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gpu_steps import codes, in_a_process, mlp

from memstrata.capture import Recorder
from memstrata.capture.format import files
from memstrata.capture.format.schema import Action
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run

STEP = """
import sys, torch
from torch import nn
from memstrata.capture import Recorder
device = sys.argv[2] if len(sys.argv) > 2 else "cuda"
with Recorder(sys.argv[1], source="cuda"):
    model = nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512)).to(device)
    model(torch.randn(64, 512, device=device)).sum().backward()
print("trained")
"""

ASSERT = """
import sys, torch
from torch import nn
from memstrata.capture import Recorder
table = nn.Embedding(10, 16).cuda()
with Recorder(sys.argv[1]):
    table(torch.tensor([3, 99], device="cuda")).sum().backward()
    torch.cuda.synchronize()
"""

TWO = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one device")


def test_a_process_that_never_used_cuda_before(tmp_path: Path) -> None:
    done = in_a_process(STEP, tmp_path / "a.mstrata")
    assert (done.returncode, done.stdout.strip()) == (0, "trained"), done.stderr
    recording = files.read(tmp_path / "a.mstrata")
    assert codes(recording) == set() and identities.check(Run(recording)) == []
    assert recording.meta.allocator_settings.get("expandable_segments") in (False, None)


def test_expandable_segments(tmp_path: Path) -> None:
    setting = "expandable_segments:True"
    done = in_a_process(STEP, tmp_path / "a.mstrata", PYTORCH_CUDA_ALLOC_CONF=setting, PYTORCH_ALLOC_CONF=setting)
    assert done.returncode == 0, done.stderr
    recording = files.read(tmp_path / "a.mstrata")
    assert recording.meta.allocator_settings["expandable_segments"] is True
    assert (recording.events.action == Action.segment_map).any()
    assert recording.allocator_segments.is_expandable.any()
    assert identities.check(Run(recording)) == []


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"},
         "with the allocator 'cudaMallocAsync'"),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "PYTORCH_NO_CUDA_MEMORY_CACHING"),
    ],
)  # fmt: skip
def test_where_no_history_is_kept_the_step_runs_unrecorded(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    done = in_a_process(STEP, tmp_path / "a.mstrata", **environment)
    assert (done.returncode, done.stdout.strip()) == (0, "trained"), done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "a.mstrata").exists()


def test_a_failed_kernel_raises_what_it_raises_without_us(tmp_path: Path) -> None:
    done = in_a_process(ASSERT, tmp_path / "a.mstrata")
    assert done.returncode == 1 and "device-side assert" in done.stderr
    assert done.stderr.count("Traceback") == 1  # ours did not fail on top of it
    if (tmp_path / "a.mstrata").exists():
        assert "step_raised" in codes(files.read(tmp_path / "a.mstrata"))
    else:
        assert "memstrata: the step was not recorded" in done.stderr


@TWO
def test_a_model_over_two_devices(tmp_path: Path) -> None:
    first, second = mlp(2, "cuda:0"), mlp(2, "cuda:1")
    model = torch.nn.ModuleDict({"first": first, "second": second})
    x = torch.randn(64, 1024, device="cuda:0")
    with Recorder(tmp_path / "a.mstrata", model=model):
        second(first(x).to("cuda:1")).square().mean().backward()
    recording = files.read(tmp_path / "a.mstrata")
    assert [device.name for device in recording.meta.devices] == ["cuda:0", "cuda:1"]
    assert {int(device) for device in recording.events.device} == {0, 1}
    for row in (0, 1):
        assert identities.check(Run(recording, row)) == []
    timed = recording.spans.device_time[recording.spans.module >= 0]
    assert (timed > 0).any()


@TWO
def test_a_device_that_is_not_used_gets_no_context(tmp_path: Path) -> None:
    script = STEP + "\nprint(torch._C._cuda_hasPrimaryContext(0), torch._C._cuda_hasPrimaryContext(1))"
    plain = in_a_process(script.replace('with Recorder(sys.argv[1], source="cuda"):', "if True:"), "-", "cuda:1")
    done = in_a_process(script, tmp_path / "a.mstrata", "cuda:1")
    assert done.returncode == 0 and done.stdout == plain.stdout, done.stderr
    assert [device.name for device in files.read(tmp_path / "a.mstrata").meta.devices] == ["cuda:1"]
