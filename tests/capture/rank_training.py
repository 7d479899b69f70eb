"""Real training on several ranks with gloo, recorded: the program that the ranks' tests start, once for each rank.

usage: rank_training.py STORE FOLDER (rank and world size in the environment, as torchrun sets them)

Every case trains the same model three steps twice, the second time with the third step recorded into FOLDER/CASE.d,
and prints one JSON line for each case: whether parameters and gradients are equal bit for bit.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from memstrata.capture import Recorder

WIDTH, LAYERS, ROWS = 512, 4, 32


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


class Net(nn.Module):
    def __init__(self, around: Callable[[nn.Module], nn.Module] = lambda layer: layer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(around(Layer()) for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def sharded(model: Net, **options: object) -> nn.Module:
    for layer in model.layers:
        fully_shard(layer, **options)
    return fully_shard(model, **options)


def ddp() -> nn.Module:
    return DistributedDataParallel(Net())


def ddp_views() -> nn.Module:
    return DistributedDataParallel(Net(), gradient_as_bucket_view=True)


def fsdp() -> nn.Module:
    return sharded(Net())


def fsdp_checkpointed() -> nn.Module:
    return sharded(Net(checkpoint_wrapper))


def fsdp_mixed() -> nn.Module:
    return sharded(Net(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))


def fsdp_gathered() -> nn.Module:
    """The parameters stay gathered from one step to the next, as while gradients are accumulated."""
    model = sharded(Net())
    model.set_reshard_after_backward(False)
    return model


def flat() -> nn.Module:
    """The older FullyShardedDataParallel."""
    model = Net()
    for i, layer in enumerate(model.layers):
        model.layers[i] = FullyShardedDataParallel(layer, device_id=torch.device("cpu"), use_orig_params=True)
    return model


def fsdp_mesh() -> nn.Module:
    mesh = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("replicate", "shard"))
    return sharded(Net(), mesh=mesh)


def uneven() -> nn.Module:
    """Rank 1 gets eight times as many rows."""
    return sharded(Net())


def raises() -> nn.Module:
    """Rank 1 raises after backward."""
    return sharded(Net())


CASES = [ddp, ddp_views, fsdp, fsdp_checkpointed, fsdp_mixed, fsdp_gathered, flat, fsdp_mesh, uneven, raises]


def train(case: Callable[[], nn.Module], target: Path | None) -> list[Tensor]:
    """Parameters and gradients after three steps, the third recorded to `target` if there is one."""
    torch.manual_seed(0)
    model = case()
    optimizer = torch.optim.AdamW(model.parameters())
    torch.manual_seed(1 + dist.get_rank())
    rows = ROWS * 8 if case is uneven and dist.get_rank() == 1 else ROWS

    def step(number: int) -> None:
        optimizer.zero_grad()
        model(torch.randn(rows, WIDTH)).square().mean().backward()
        if case is raises and number == 2 and dist.get_rank() == 1:
            raise ValueError("as rank 1 does")
        optimizer.step()

    for number in range(2):
        step(number)
    try:
        if target is None:
            step(2)
        else:
            with Recorder(target, model=model, optimizer=optimizer):
                step(2)
    except ValueError:
        if case is not raises:
            raise
    tensors = [t for p in model.parameters() for t in (p, p.grad) if t is not None]
    return [getattr(t, "_local_tensor", t).detach().clone() for t in tensors]


def left() -> list[str]:
    """What recording left behind in torch."""
    found = [] if "resize_" not in vars(torch.UntypedStorage) else ["resize_"]
    operators = ("c10d::allreduce_", "c10d::_allgather_base_", "c10d::_reduce_scatter_base_")
    found += [o for o in operators if torch._C._dispatch_has_kernel_for_dispatch_key(o, "AutogradCPU")]
    fsdp = torch.distributed.fsdp._fully_shard
    owners = (fsdp._fsdp_param.FSDPParam, fsdp._fsdp_param_group.FSDPParamGroup, fsdp._fsdp_collectives)
    functions = [value for owner in owners for value in vars(owner).values() if hasattr(value, "__code__")]
    return found + [f.__name__ for f in functions if f.__code__.co_filename.endswith("communication.py")]


def main(store: str, folder: Path, names: list[str]) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    for case in CASES:
        if names and case.__name__ not in names:
            continue
        plain = train(case, None)
        recorded = train(case, folder / f"{case.__name__}.mstrata")
        equal = len(plain) == len(recorded) and all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))
        print(json.dumps({"case": case.__name__, "tensors": len(plain), "equal": equal, "left": left()}), flush=True)
    dist.barrier()  # a rank that ends while the other still answers can be ended with a signal
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
