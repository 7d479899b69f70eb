"""`Recording`: the frozen tables, the strings and the meta of one recording or snapshot, in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import schema
from .interning import Strings, StringTable
from .problems import Problem


@dataclass(frozen=True)
class Device:
    """A device whose memory is recorded. `ordinal` is torch's index (0 for the CPU), `total_bytes` its capacity."""

    name: str
    ordinal: int
    total_bytes: int | None = None


@dataclass(frozen=True)
class Meta:
    """What is true of the whole file. `None` means unknown, and is shown as unknown."""

    kind: str = "recording"
    """`recording` (one training step) or `snapshot` (a plain torch memory snapshot)."""
    source: str = "cpu"
    """`cpu`, `cuda`, `dry run`, `snapshot` or `profiler` (a trace of torch.profiler)."""
    devices: tuple[Device, ...] = ()
    torch_version: str | None = None
    memstrata_version: str | None = None
    created: str | None = None
    rank: int = 0
    world_size: int = 1
    local_rank: int | None = None
    run_id: str | None = None
    """The same in the files of all ranks of one run; None where the ranks had no way to agree on it."""
    mesh: dict[str, int] = field(default_factory=dict)
    """Size of each dimension of the device mesh, by name; empty if none was seen."""
    mesh_coordinate: dict[str, int] = field(default_factory=dict)
    """Where this rank lies in the mesh, by the same names."""
    allocator_settings: dict[str, Any] = field(default_factory=dict)
    model: str | None = None
    optimizer: str | None = None
    shapes: dict[str, list[int]] = field(default_factory=dict)
    """Shapes of the tensors passed to the model, by argument name or number."""
    batch: int | None = None
    sequence: int | None = None
    dtype: str | None = None
    loss: float | None = None
    loss_scale: float | None = None
    """What `loss` was multiplied by (gradient scaler, accumulation) as far as it is known."""
    kernels: str | None = None
    """Whose kernels the bytes are those of, where that differs from the device: `cpu` in a dry run."""
    estimates: tuple[str, ...] = ()
    """One sentence for each thing in this file that was not measured."""
    trigger: str | None = None
    """Why it was written, where it waited for something: `oom`, `peak` or `signal`."""
    compiled_regions: int | None = None
    graph_breaks: int | None = None
    plan: tuple[tuple[str, ...], ...] | None = None
    """Checkpoint segments in force, each the paths of the modules recomputed together; None if none was seen."""
    super_block_override: int | None = None
    """Layers per super-block as the user set it, else it is found from the module tree."""
    step_index: int | None = None
    step_seconds_recorded: float | None = None
    step_seconds_unrecorded: float | None = None
    """Median of at least two other calls; None if fewer ran."""
    has_reserved: bool = False
    """Whether an allocator reported reserved memory."""
    has_time: bool = True
    has_durations: bool = True
    """False where times give the order and nothing else: in a dry run nothing was computed."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, eq=False)
class Recording:
    """Immutable. Every array is read-only."""

    meta: Meta
    strings: Strings
    events: schema.Events
    allocator_segments: schema.AllocatorSegments
    blocks: schema.Blocks
    frames: schema.Frames
    stacks: schema.Stacks
    modules: schema.Modules
    module_parameters: schema.ModuleParameters
    module_attributes: schema.ModuleAttributes
    layers: schema.Layers
    spans: schema.Spans
    saved_tensors: schema.SavedTensors
    known_storages: schema.KnownStorages
    marks: schema.Marks
    steps: schema.Steps

    def tables(self) -> Iterator[tuple[str, schema.Table]]:
        """The tables with their names, in schema order."""
        for name in schema.TABLES:
            yield name, getattr(self, name)

    def frame(self, row: int) -> tuple[str, str, int]:
        """(function, file, line) of a row of frames."""
        name, file = int(self.frames.name[row]), int(self.frames.file[row])
        return self.strings[name], self.strings[file], int(self.frames.line[row])

    def stack_frames(self, stack: int) -> list[tuple[str, str, int]]:
        """(function, file, line) of a stack, innermost first."""
        out = []
        while stack >= 0:
            out.append(self.frame(int(self.stacks.frame[stack])))
            stack = int(self.stacks.parent[stack])
        return out

    def replace_meta(self, **changes: Any) -> Recording:
        """The same recording with other meta."""
        return dataclasses.replace(self, meta=dataclasses.replace(self.meta, **changes))

    def with_steps(self, steps: schema.Steps) -> Recording:
        """The same recording with another table of steps."""
        return dataclasses.replace(self, steps=steps)


def build(meta: Meta, strings: StringTable | Strings, **tables: schema.Table) -> Recording:
    """A `Recording` from the tables at hand; those not given are empty. Arrays become read-only."""
    if isinstance(strings, StringTable):
        strings = strings.freeze()
    given = {name: table for name, table in tables.items() if len(table)}
    made: dict[str, Any] = {n: given.get(n) or schema.empty(t) for n, t in schema.TABLES.items()}
    arrays: list[np.ndarray[Any, Any]] = [strings.blob, strings.offsets, *_arrays(given.values())]
    for array in arrays:
        array.setflags(write=False)
    return Recording(meta=meta, strings=strings, **made)


def _arrays(tables: Any) -> Iterator[np.ndarray[Any, Any]]:
    for table in tables:
        for f in schema.columns_of(type(table)):
            yield getattr(table, f.name)
