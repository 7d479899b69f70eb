"""Printed plan code run under FSDP2: the program that its test starts, once for each rank.

usage: plan_code_training.py STORE BENCHMARKS CODE... (rank and world size in the environment, as torchrun sets them)

Trains one model three steps, sharded and without a plan, then once for each file of code. Prints one JSON line each:
whether the gradients are equal bit for bit, and how often layers ran in backward.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

LAYERS = 4


def build() -> nn.Module:
    from plan_models import Gpt2

    torch.manual_seed(0)
    return Gpt2(layers=LAYERS, width=32, vocabulary=64)


def train(model: nn.Module, layers: list[nn.Module]) -> tuple[list[Tensor], int]:
    """(gradients of this rank's shards after three steps, layers run in backward)."""
    again = [0]

    def count(*_: object) -> None:
        again[0] += torch._C._current_graph_task_id() != -1

    for layer in layers:
        layer.ln_1.register_forward_hook(count)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + dist.get_rank())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randint(64, (2, 16))).square().mean().backward()
        optimizer.step()
    return [p.grad.to_local().clone() for p in model.parameters()], again[0]


def main(store: str, benchmarks: str, codes: list[str]) -> None:
    sys.path.insert(0, benchmarks)
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    plain = build()
    for layer in plain.h:
        fully_shard(layer)
    fully_shard(plain)
    expected, _ = train(plain, list(plain.h))
    for code in codes:
        model = build()
        layers = list(model.h)
        exec(compile(Path(code).read_text(), code, "exec"), {"model": model})  # written by the test beside this
        gradients, again = train(model, layers)
        equal = len(expected) == len(gradients)
        equal &= all(torch.equal(a, b) for a, b in zip(expected, gradients, strict=True))
        sharded = sum(type(module).__name__.startswith("FSDP") for module in model.modules())
        print(json.dumps({"code": code, "equal": equal, "again": again, "sharded": sharded}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
    os._exit(0)  # gloo's threads may outlive their group, and then end the process with a signal
