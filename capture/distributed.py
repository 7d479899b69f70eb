"""Several ranks: who this process is, where its recording goes, and what sharding makes of a model.

Nothing here communicates: the ranks agree on a name for their run through the store that the process group keeps.
"""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .format.files import RANKS_FOLDER
from .format.recording import Recording
from .format.units import bytes_text
from .output_path import means_folder as means_folder
from .sharding import fsdp_parameters
from .storages import pieces
from .summary import peak_bytes

_RUN_KEY = "memstrata/run"


@dataclass(frozen=True)
class Place:
    """This process among the ranks of its run. `run_id` is the same for all of them, None where nothing says it."""

    rank: int = 0
    world_size: int = 1
    local_rank: int | None = None
    run_id: str | None = None

    @property
    def alone(self) -> bool:
        """Whether there is no other rank."""
        return self.world_size == 1


def place(named: bool = True) -> Place:
    """Who this process is: as the process group says, else as torchrun's environment does. `named` asks for `run_id`,
    which is a question to the store."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    else:
        rank, world_size = _number("RANK"), _number("WORLD_SIZE")
    if rank is None or world_size is None or not 0 <= rank < world_size:
        rank, world_size = 0, 1
    return Place(rank, world_size, _number("LOCAL_RANK"), _run_id() if named and world_size > 1 else None)


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _run_id() -> str | None:
    """The first rank that asks names the run; a store knows no collective, so nobody waits for anybody."""
    try:
        store = torch.distributed.distributed_c10d._get_default_store()
        agreed: bytes = store.compare_set(_RUN_KEY, "", secrets.token_hex(8))
        return agreed.decode()
    except Exception:  # no process group, a store that cannot do it, or whose keeper has gone
        given = os.environ.get("TORCHELASTIC_RUN_ID", "none")
        return None if given == "none" else given


def run_file(path: Path, is_folder: bool, here: Place) -> Path:
    """The file this rank writes; its folder is made, which several ranks may do at once.

    `step.mstrata` is the file itself for a process that is alone, else `step.mstrata.d/rank-03.mstrata`: as many
    digits as the largest rank has, and at least two, so that names sort by rank. `runs/` holds the rank's file in
    either case.
    """
    if here.alone and not is_folder:
        return path
    folder = path if is_folder else path.with_name(path.name + RANKS_FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    digits = max(2, len(str(here.world_size - 1)))
    return folder / f"rank-{here.rank:0{digits}d}.mstrata"


def rank_line(recording: Recording, file: Path, here: Place) -> str:
    """Rank 0's line on stderr: its file, its peak, what is left of an earlier run, and the command for all ranks."""
    stale = sorted(other.name for other in file.parent.glob("rank-*.mstrata") if _rank_of(other) >= here.world_size)
    left = f" {', '.join(stale)} in that folder {'is' if len(stale) == 1 else 'are'} not of this run." if stale else ""
    return (
        f"recorded rank {here.rank} of {here.world_size} to {file}: peak {bytes_text(peak_bytes(recording))};{left}"
        f" compare the ranks with: memstrata report {shlex.quote(str(file.parent))}"
    )


def _rank_of(file: Path) -> int:
    digits = file.stem.removeprefix("rank-")
    return int(digits) if digits.isdecimal() else -1


def meta_of(here: Place, model: nn.Module) -> dict[str, Any]:
    """The entries of `Meta` that say where this rank stands."""
    sizes, coordinate = mesh_of(model)
    return {
        "rank": here.rank, "world_size": here.world_size, "local_rank": here.local_rank, "run_id": here.run_id,
        "mesh": sizes, "mesh_coordinate": coordinate,
    }  # fmt: skip


def mesh_of(model: nn.Module) -> tuple[dict[str, int], dict[str, int]]:
    """(size of each dimension, this rank's coordinate in it) of the mesh with most dimensions that a parameter or
    DDP lies on; empty if there is none. A dimension without a name is called by its number."""
    meshes = [mesh for mesh in _meshes(model) if mesh is not None]
    mesh = max(meshes, key=lambda mesh: mesh.ndim, default=None)
    if mesh is None:
        return {}, {}
    names = mesh.mesh_dim_names or tuple(f"dim{i}" for i in range(mesh.ndim))
    coordinate = mesh.get_coordinate() or ()
    sizes = {name: int(mesh.size(i)) for i, name in enumerate(names)}
    return sizes, dict(zip(names, (int(i) for i in coordinate), strict=False))


def _meshes(model: nn.Module) -> Iterator[Any]:
    for parameter in (*model.parameters(), *(held.sharded_param for held in fsdp_parameters(model))):
        yield getattr(parameter, "device_mesh", None)
    for module in model.modules():
        if type(module).__name__ == "DistributedDataParallel":
            yield getattr(module, "device_mesh", None) or getattr(module, "_device_mesh", None)


def class_name(module: nn.Module) -> str:
    """The name of a module's class as its author knows it: `fully_shard` and `replicate` put a class of their own in
    its place, `FSDPBlock(FSDPModule, Block)`, which would be another kind of layer."""
    cls = type(module)
    while len(cls.__bases__) == 2 and cls.__bases__[0].__module__.startswith("torch.distributed."):
        cls = cls.__bases__[1]
    return cls.__name__


def local_bytes(parameter: torch.Tensor) -> int:
    """numel x itemsize of what this rank holds of a parameter: of a DTensor its shard."""
    return sum(piece.numel() * piece.element_size() for piece in pieces(parameter))
