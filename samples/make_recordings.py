"""Makes the recordings in this folder again: real training steps of small models on the CPU.

| file | shows |
|---|---|
| before.mstrata, after.mstrata | the demo: 12 hybrid layers in 3 super-blocks, without and with checkpointing |
| uniform.mstrata, uniform-checkpointed.mstrata | 8 equal blocks of Linear-GELU-Linear-GELU, one checkpoint per block |
| encoder-decoder.mstrata | two layer lists |
| irregular.mstrata | a model in which nothing repeats, saved tensors moved to disk by the user's own hooks |
| raised.mstrata | a step that ran out of memory in backward |
| format-N.mstrata | one file of each format version, written once and never again: old files must open for ever |
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from memstrata.capture import demo, record_step
from memstrata.capture.format.schema import FORMAT_VERSION
from memstrata.viewer.arguments import folder_to_write, script_parser

HERE = Path(__file__).resolve().parent


class Checkpointed(nn.Module):
    """A block that is recomputed in backward."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.body, x, use_reentrant=False)


def block(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU())


def uniform(path: Path, checkpointed: bool) -> None:
    model = nn.Sequential(*[Checkpointed(block(512)) if checkpointed else block(512) for _ in range(8)])
    train(path, model, lambda: model(torch.randn(2048, 512)).square().mean())


def encoder_decoder(path: Path) -> None:
    model = nn.Transformer(128, 4, 4, 2, dim_feedforward=512, dropout=0.0, batch_first=True)
    source, target = torch.randn(4, 128, 128), torch.randn(4, 64, 128)
    train(path, model, lambda: model(source, target).square().mean())


class Irregular(nn.Module):
    """Nothing repeats."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.conv, self.drop = nn.Linear(64, 256), nn.Conv1d(256, 128, 3), nn.Linear(128, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.conv(self.lift(x).relu().transpose(1, 2)).tanh().transpose(1, 2))


def irregular(path: Path) -> None:
    model = Irregular()
    with tempfile.TemporaryDirectory() as disk:
        saved: list[Path] = []

        def pack(tensor: Tensor) -> Path:
            saved.append(Path(disk) / f"{len(saved)}.npy")
            np.save(saved[-1], tensor.detach().numpy())
            return saved[-1]

        def loss() -> Tensor:
            with saved_tensors_hooks(pack, lambda name: torch.from_numpy(np.load(name))):
                return model(torch.randn(8, 512, 64)).square().mean()

        train(path, model, loss)


def raised(path: Path) -> None:
    model = nn.Sequential(*[block(256) for _ in range(4)])
    calls = []

    def loss() -> Tensor:
        calls.append(True)
        y = model(torch.randn(1024, 256))
        if len(calls) == 4:
            y.register_hook(lambda gradient: torch.empty(1 << 60, dtype=torch.uint8))
        return y.square().mean()

    try:
        train(path, model, loss)
    except RuntimeError as error:
        print(f"  as intended: {str(error).splitlines()[0][:100]}")
    else:
        raise SystemExit("the step that should have run out of memory did not")


def train(path: Path, model: nn.Module, loss: Callable[[], Tensor]) -> None:
    """Four AdamW steps, the last recorded."""
    optimizer = torch.optim.AdamW(model.parameters())

    @record_step(path)
    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    for _ in range(4):
        step()


def main(folder: Path) -> None:
    torch.manual_seed(0)
    demo.run(folder)
    uniform(folder / "uniform.mstrata", checkpointed=False)
    uniform(folder / "uniform-checkpointed.mstrata", checkpointed=True)
    encoder_decoder(folder / "encoder-decoder.mstrata")
    irregular(folder / "irregular.mstrata")
    raised(folder / "raised.mstrata")
    golden = folder / f"format-{FORMAT_VERSION}.mstrata"
    if not golden.exists():
        shutil.copy(folder / "uniform-checkpointed.mstrata", golden)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("folder", nargs="?", type=folder_to_write, default=HERE, help="where to write (default: here)")
    main(parser.parse_args().folder)
