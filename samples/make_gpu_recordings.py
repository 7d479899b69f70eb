"""Records the samples that need a GPU: real training steps of small models, with the figures to set beside them.

Needs torch with CUDA and numpy, neither Qt nor an installed memstrata: `make types`, then
`PYTHONPATH=build/types python samples/make_gpu_recordings.py`.

| file | shows |
|---|---|
| gpu-before.mstrata, gpu-after.mstrata | a hybrid decoder in bfloat16 autocast, without and with checkpointing |
| gpu-uniform.mstrata, gpu-uniform-checkpointed.mstrata | 8 equal blocks, one checkpoint per block |
| gpu-history.mstrata | a step cut out of a memory history that the program records itself |
| gpu-graph.mstrata | a step that replays a CUDA graph |
| gpu-two.mstrata | a model split over two devices (where there are two) |
| gpu-oom.mstrata | a step that ran out of memory in backward |
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from memstrata.capture import record_step
from memstrata.capture.format import files
from memstrata.capture.models.hybrid import HybridConfig, HybridDecoder
from memstrata.capture.summary import peak_bytes
from memstrata.viewer.arguments import folder_to_write, script_parser

HERE = Path(__file__).resolve().parent
WARMUP, AFTER = 6, 6
MIB = 1 << 20


class Blocks(nn.Module):
    """Blocks of Linear-GELU-Linear-GELU; each may be checkpointed, and each may lie on a device of its own."""

    def __init__(self, width: int, devices: list[torch.device], checkpointed: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU()).to(device)
            for device in devices
        )
        self.devices, self.checkpointed = devices, checkpointed

    def forward(self, x: Tensor) -> Tensor:
        for device, block in zip(self.devices, self.blocks, strict=True):
            x = x.to(device)
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x


def hybrid(path: Path, device: torch.device, checkpointed: bool) -> None:
    config = HybridConfig(hidden=1024, heads=16, kv_heads=4, ffn=2816)
    model = HybridDecoder(config, checkpointed).to(device)
    text = torch.randint(config.vocabulary, (4, 2049), device=device)

    def loss() -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(text[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())

    train(path, model, loss)


def uniform(path: Path, device: torch.device, checkpointed: bool = False) -> None:
    model = Blocks(2048, [device] * 8, checkpointed)
    x = torch.randn(4096, 2048, device=device)
    train(path, model, lambda: model(x).square().mean())


def history(path: Path, device: torch.device) -> None:
    torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=200_000)
    try:
        uniform(path, device)
        if not torch._C._cuda_isHistoryEnabled():
            raise SystemExit("the program's own memory history was switched off")
    finally:
        torch.cuda.memory._record_memory_history(None)


def graph(path: Path, device: torch.device) -> None:
    frozen = Blocks(1024, [device] * 2).requires_grad_(False)
    model = Blocks(1024, [device] * 2)
    x = torch.randn(4096, 1024, device=device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        frozen(x)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        features = frozen(x)

    def loss() -> Tensor:
        captured.replay()
        return model(features).square().mean()

    train(path, model, loss)


def two_devices(path: Path) -> None:
    devices = [torch.device("cuda", ordinal) for ordinal in (0, 0, 1, 1)]
    model = Blocks(2048, devices)
    x = torch.randn(4096, 2048, device=devices[0])
    train(path, model, lambda: model(x).square().mean())


def out_of_memory(path: Path, device: torch.device) -> None:
    model = Blocks(1024, [device] * 4)
    x = torch.randn(4096, 1024, device=device)
    calls: list[bool] = []

    def loss() -> Tensor:
        calls.append(True)
        y = model(x)
        if len(calls) == WARMUP + 1:
            y.register_hook(lambda gradient: torch.empty(1 << 44, dtype=torch.uint8, device=device))
        return y.square().mean()

    try:
        train(path, model, loss)
    except torch.cuda.OutOfMemoryError as error:
        print(f"  as intended: {str(error).splitlines()[0][:100]}")
    else:
        raise SystemExit("the step that should have run out of memory did not")


def train(path: Path, model: nn.Module, loss: Callable[[], Tensor]) -> None:
    """AdamW steps, one of them recorded; prints what torch itself measured beside what the file says."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def plain() -> float:
        optimizer.zero_grad()
        found = loss()
        found.backward()
        optimizer.step()
        return float(found.detach())

    recorded = record_step(path, warmup=WARMUP)(plain)
    peaks, seconds = [], []
    for _ in range(WARMUP + 1 + AFTER):
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        recorded()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        peaks.append(torch.cuda.max_memory_allocated())
    _say(path, peaks, seconds)


def _say(path: Path, peaks: list[int], seconds: list[float]) -> None:
    recording = files.read(path)
    steady = statistics.median(seconds[WARMUP + 1 :])
    print(
        f"{path.name}: {path.stat().st_size / MIB:.2f} MiB, {len(recording.events):,} events; peak "
        f"{peak_bytes(recording) / MIB:.1f} MiB, torch says {peaks[WARMUP] / MIB:.1f} recorded (rounded sizes) and "
        f"{peaks[-1] / MIB:.1f} not; step {recording.meta.step_seconds_recorded:.4f} s recorded, {steady:.4f} s not"
    )
    for problem in recording.meta.problems:
        print(f"  {problem.severity.name}: {problem.text} ({problem.count})")


def main(folder: Path) -> None:
    if not torch.cuda.is_available():
        print("make_gpu_recordings.py: torch sees no CUDA device", file=sys.stderr)
        sys.exit(2)
    device = torch.device("cuda", torch.cuda.current_device())
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(device)}")
    makers: dict[str, Callable[[Path], None]] = {
        "gpu-before": lambda path: hybrid(path, device, False),
        "gpu-after": lambda path: hybrid(path, device, True),
        "gpu-uniform": lambda path: uniform(path, device),
        "gpu-uniform-checkpointed": lambda path: uniform(path, device, True),
        "gpu-history": lambda path: history(path, device),
        "gpu-graph": lambda path: graph(path, device),
        "gpu-oom": lambda path: out_of_memory(path, device),
    }
    if torch.cuda.device_count() > 1:
        makers["gpu-two"] = two_devices
    for name, make in makers.items():
        torch.manual_seed(0)
        make(folder / f"{name}.mstrata")
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("folder", nargs="?", type=folder_to_write, default=HERE, help="where to write (default: here)")
    main(parser.parse_args().folder)
