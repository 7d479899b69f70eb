"""Makes a run directory of two ranks: `fully_shard` on the CPU with gloo, one file for each rank.

Rank 1 trains on sequences twice as long as rank 0's, so that its activations set it apart. Started on its own the
script starts itself again under torchrun; `torchrun --nproc-per-node 2 make_ranks.py FOLDER` does the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from memstrata.capture import record_step
from memstrata.viewer.arguments import folder_to_write, script_parser

RANKS, LAYERS, WIDTH, BATCH, SEQUENCE = 2, 6, 256, 2, 128


class Block(nn.Module):
    """Pre-norm feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.act, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.down(self.act(self.up(self.norm(x))))
        return y


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        y: Tensor = self.head(x).relu()  # FSDP warns of a model that returns a view, as Linear does here
        return y


def train(folder: str) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Model()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    sequence = SEQUENCE * (1 + dist.get_rank())

    @record_step(folder + os.sep)
    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(BATCH, sequence, WIDTH)).square().mean().backward()
        optimizer.step()

    for _ in range(4):
        step()
    dist.destroy_process_group()


def main(folder: str) -> None:
    if "RANK" in os.environ:
        train(folder)
        return
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    subprocess.run([*launcher, __file__, folder], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


if __name__ == "__main__":
    parser = script_parser(__doc__)
    ranks = Path(__file__).resolve().parent / "ranks"
    parser.add_argument("folder", nargs="?", type=folder_to_write, default=ranks, help="where to write (default: here)")
    main(str(parser.parse_args().folder))
