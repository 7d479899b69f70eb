"""Every table, column and enumeration of a recording, declared once.

A table is a frozen dataclass whose fields are one-dimensional numpy arrays of equal length; `column()` puts the
dtype, the unit, the doc and what the numbers refer to into the field's metadata. Reader, writer, checks and
documentation all derive from here. Any change bumps `FORMAT_VERSION` and adds a step to `upgrade.py`.

Positions. The row number of an event is its index; time is only an axis (many neighbours share a microsecond).
A *position* p in [0, n_events] is the state after the first p events, so 0 is the start of the recording.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

FORMAT_VERSION = 2
MAGIC = "memstrata recording"

NONE = -1
"""What an index or a time column holds where there is nothing to refer to."""


class Action(IntEnum):
    """What the allocator did; the names are torch's own. `unknown` is an action this version does not know."""

    alloc = 0
    free_requested = 1
    free_completed = 2
    segment_alloc = 3
    segment_free = 4
    segment_map = 5
    segment_unmap = 6
    snapshot = 7
    oom = 8
    unknown = 9


class BlockState(IntEnum):
    """State of a block inside an allocator segment at the end."""

    inactive = 0
    active_allocated = 1
    active_pending_free = 2
    unknown = 3


class Category(IntEnum):
    """What an allocation is, for its whole life. The one closed list, in the order in which it is stacked.

    Files hold facts and never categories, so the numbers may change.
    """

    parameter = 0
    buffer = 1
    gradient = 2
    optimizer_state = 3
    activation = 4
    rematerialized = 5
    selective_cache = 6
    input = 7
    communication = 8
    autocast_cache = 9
    workspace = 10
    temporary = 11
    unattributed = 12

    @property
    def label(self) -> str:
        """The word shown to people and written to JSON, e.g. `optimizer state`."""
        return self.name.replace("_", " ")


class StorageKind(IntEnum):
    """Why the recorder knew a storage. A fact about the program, not a category."""

    parameter = 0
    buffer = 1
    gradient = 2
    optimizer_state = 3
    input = 4
    autocast_cache = 5
    communication = 6
    selective_cache = 7


class Fate(IntEnum):
    """What became of a saved tensor."""

    kept = 0
    dropped = 1
    rematerialized = 2
    offloaded = 3


class Phase(IntEnum):
    """What a span of the step was doing."""

    forward = 0
    recompute = 1
    backward = 2
    optimizer = 3
    other = 4


class MarkKind(IntEnum):
    """What a mark says."""

    annotation = 0
    oom = 1
    snapshot = 2
    loss = 3
    device_memory = 4
    trigger = 5


class Severity(IntEnum):
    """How far a problem touches what is shown."""

    info = 0
    warning = 1
    error = 2


def column(
    dtype: Any, doc: str, *, unit: str = "", refers: str = "", enum: type[IntEnum] | None = None, none: bool = False
) -> Any:
    """A column of a table: `refers` names the table (or `strings`) it indexes; `none` allows -1 there."""
    meta = {"dtype": np.dtype(dtype), "doc": doc, "unit": unit, "refers": refers, "enum": enum, "none": none}
    return dataclasses.field(metadata=meta)


I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
B1 = NDArray[np.bool_]
F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """Base of the tables. Arrays are read-only once in a `Recording`."""

    def __len__(self) -> int:
        return len(getattr(self, columns_of(type(self))[0].name))


@dataclass(frozen=True, eq=False)
class Events(Table):
    """Allocator events of all devices in the order they happened."""

    action: U8 = column(np.uint8, "what the allocator did", enum=Action)
    device: I32 = column(np.int32, "row of meta.devices", refers="devices")
    address: I64 = column(np.int64, "address of the allocation or range; 0 where there is none")
    bytes: I64 = column(np.int64, "requested size; for oom the size that was asked for", unit="B")
    time: I64 = column(np.int64, "Unix time, -1 where the source has none", unit="ns", none=True)
    stack: I32 = column(np.int32, "row of stacks (the innermost frame), -1 for no stack", refers="stacks", none=True)
    stream: I64 = column(np.int64, "raw stream pointer, 0 for the default stream and the CPU")
    thread: I64 = column(np.int64, "native thread id, -1 unknown", none=True)
    metadata: I32 = column(np.int32, "text the program stamped on it, -1 none", refers="strings", none=True)
    compile_context: I32 = column(np.int32, "compiled region it came from, -1 none", refers="strings", none=True)


@dataclass(frozen=True, eq=False)
class AllocatorSegments(Table):
    """The allocator's cudaMalloc'd (or mapped) ranges at the end of the recording."""

    device: I32 = column(np.int32, "row of meta.devices", refers="devices")
    address: I64 = column(np.int64, "first address")
    bytes: I64 = column(np.int64, "total size", unit="B")
    allocated_bytes: I64 = column(np.int64, "bytes of blocks allocated", unit="B")
    active_bytes: I64 = column(np.int64, "bytes of blocks allocated or awaiting free", unit="B")
    stream: I64 = column(np.int64, "raw stream pointer")
    pool_owner: I64 = column(np.int64, "first half of the private pool id, 0 for the default pool")
    pool_id: I64 = column(np.int64, "second half of the private pool id, 0 for the default pool")
    is_small: B1 = column(np.bool_, "from the small pool (requests up to 1 MiB)")
    is_expandable: B1 = column(np.bool_, "an expandable segment, mapped piecewise")
    stack: I32 = column(np.int32, "row of stacks, -1 for no stack", refers="stacks", none=True)


@dataclass(frozen=True, eq=False)
class Blocks(Table):
    """The blocks of the allocator segments at the end of the recording, in address order inside a segment."""

    segment: I32 = column(np.int32, "row of allocator_segments", refers="allocator_segments")
    address: I64 = column(np.int64, "first address")
    bytes: I64 = column(np.int64, "size after rounding", unit="B")
    requested_bytes: I64 = column(np.int64, "size asked for; equals bytes where unknown; stale if inactive", unit="B")
    state: U8 = column(np.uint8, "state", enum=BlockState)
    stack: I32 = column(np.int32, "row of stacks, -1 for no stack", refers="stacks", none=True)


@dataclass(frozen=True, eq=False)
class Frames(Table):
    """Distinct stack frames."""

    name: I32 = column(np.int32, "function name", refers="strings")
    file: I32 = column(np.int32, "file, relative to site-packages or the project", refers="strings")
    line: I32 = column(np.int32, "line number, 0 where unknown")


@dataclass(frozen=True, eq=False)
class Stacks(Table):
    """Stacks as a tree: a stack is the row of its innermost frame; `parent` (the caller) always has a smaller row."""

    parent: I32 = column(np.int32, "row of stacks of the caller, -1 at the root", refers="stacks", none=True)
    frame: I32 = column(np.int32, "row of frames", refers="frames")


@dataclass(frozen=True, eq=False)
class Modules(Table):
    """The module tree of the recorded model in `named_modules` order; row 0 is the model itself."""

    parent: I32 = column(np.int32, "row of modules, -1 for the model", refers="modules", none=True)
    path: I32 = column(np.int32, "module path as in named_modules; empty for the model", refers="strings")
    cls: I32 = column(np.int32, "class name", refers="strings")
    in_layer_list: B1 = column(np.bool_, "a direct child of a ModuleList, Sequential or ModuleDict")


@dataclass(frozen=True, eq=False)
class ModuleParameters(Table):
    """Parameters by the module that holds them directly."""

    module: I32 = column(np.int32, "row of modules", refers="modules")
    name: I32 = column(np.int32, "name inside the module", refers="strings")
    shape: I32 = column(np.int32, "shape as text, e.g. `1024,512`; of a sharded one the whole", refers="strings")
    dtype: I32 = column(np.int32, "dtype as text, e.g. `float32`", refers="strings")
    bytes: I64 = column(np.int64, "numel x itemsize of what this rank holds of it", unit="B")
    requires_grad: B1 = column(np.bool_, "whether it is trained")


@dataclass(frozen=True, eq=False)
class ModuleAttributes(Table):
    """Plain public integer attributes of modules (`num_heads`, `in_features`, ...)."""

    module: I32 = column(np.int32, "row of modules", refers="modules")
    name: I32 = column(np.int32, "attribute name", refers="strings")
    value: I64 = column(np.int64, "value")


@dataclass(frozen=True, eq=False)
class Layers(Table):
    """The repeated blocks of the model, in order; several layer lists are legal."""

    list: I32 = column(np.int32, "which layer list, from 0")
    index: I32 = column(np.int32, "place in its layer list, from 0")
    module: I32 = column(np.int32, "row of modules", refers="modules")
    kind: I32 = column(np.int32, "class and the classes of all descendants, as text", refers="strings")


@dataclass(frozen=True, eq=False)
class Spans(Table):
    """Intervals in which a module (or, with module -1, a phase of the whole step) ran; nested, in order of start."""

    module: I32 = column(np.int32, "row of modules, -1 for a phase of the step", refers="modules", none=True)
    phase: U8 = column(np.uint8, "phase", enum=Phase)
    call: I32 = column(np.int32, "how often this module had run in this phase before, from 0")
    start_time: I64 = column(np.int64, "Unix time", unit="ns")
    end_time: I64 = column(np.int64, "Unix time", unit="ns")
    thread: I64 = column(np.int64, "native thread id, -1 unknown", none=True)
    device_time: I64 = column(
        np.int64, "how long the device itself worked on it; start and end are when the host launched it. -1 unknown",
        unit="ns", none=True,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SavedTensors(Table):
    """One row for each time autograd packed a tensor. Bytes are counted by distinct `storage`, never by row."""

    time: I64 = column(np.int64, "when packed, Unix time", unit="ns")
    unpack_time: I64 = column(np.int64, "when first unpacked, -1 never", unit="ns", none=True)
    module: I32 = column(np.int32, "innermost module running, -1 outside", refers="modules", none=True)
    phase: U8 = column(np.uint8, "phase in which it was packed", enum=Phase)
    fate: U8 = column(np.uint8, "what became of it", enum=Fate)
    checkpoint: I32 = column(np.int32, "number of the checkpoint call it belongs to, -1 none", none=True)
    storage: I32 = column(np.int32, "number of the distinct storage, -1 size unknown", none=True)
    known: I32 = column(np.int32, "row of known_storages if it is one, else -1", refers="known_storages", none=True)
    device: I32 = column(np.int32, "row of meta.devices, -1 for a device not recorded", refers="devices", none=True)
    address: I64 = column(np.int64, "address of the storage, 0 unknown")
    storage_bytes: I64 = column(np.int64, "bytes of the storage", unit="B")
    tensor_bytes: I64 = column(np.int64, "numel x itemsize of the tensor seen", unit="B")
    shape: I32 = column(np.int32, "shape as text", refers="strings")
    dtype: I32 = column(np.int32, "dtype as text", refers="strings")
    op: I32 = column(np.int32, "autograd node that produced it, as text; empty if none yet", refers="strings")
    stack: I32 = column(np.int32, "row of stacks: Python stack of the pack", refers="stacks", none=True)
    thread: I64 = column(np.int64, "native thread id, -1 unknown", none=True)


@dataclass(frozen=True, eq=False)
class KnownStorages(Table):
    """Storages the recorder can name: parameters, buffers, gradients, optimizer state, inputs."""

    kind: U8 = column(np.uint8, "why it is known", enum=StorageKind)
    device: I32 = column(np.int32, "row of meta.devices, -1 for a device not recorded", refers="devices", none=True)
    address: I64 = column(np.int64, "address of the storage")
    bytes: I64 = column(np.int64, "bytes of the storage", unit="B")
    name: I32 = column(np.int32, "parameter path, `exp_avg of layers.0.weight`, `args[0]`, ...", refers="strings")
    module: I32 = column(np.int32, "module that holds it, -1 none", refers="modules", none=True)
    start_time: I64 = column(np.int64, "first seen, Unix time", unit="ns")
    end_time: I64 = column(np.int64, "when it died, -1 if it outlived the recording", unit="ns", none=True)


@dataclass(frozen=True, eq=False)
class Marks(Table):
    """Single moments."""

    kind: U8 = column(np.uint8, "what it says", enum=MarkKind)
    time: I64 = column(np.int64, "Unix time, -1 unknown", unit="ns", none=True)
    event: I64 = column(np.int64, "event index it stands before, -1 unknown", none=True)
    text: I32 = column(np.int32, "text", refers="strings")
    value: F64 = column(np.float64, "number, NaN where there is none")


@dataclass(frozen=True, eq=False)
class Steps(Table):
    """Training steps in order: the recorded ones, and those around them that were only timed."""

    index: I64 = column(np.int64, "number of the step in its run, from 0; -1 unknown", none=True)
    start_time: I64 = column(np.int64, "Unix time", unit="ns")
    end_time: I64 = column(np.int64, "Unix time, -1 if it was cut off", unit="ns", none=True)
    recorded: B1 = column(np.bool_, "whether its events are in this file; a recorded step is slower")
    tokens: I64 = column(np.int64, "batch x sequence length of its input, -1 unknown", none=True)
    loss: F64 = column(np.float64, "the tensor backward ran on, NaN where unknown")


TABLES: dict[str, type[Table]] = {
    "events": Events,
    "allocator_segments": AllocatorSegments,
    "blocks": Blocks,
    "frames": Frames,
    "stacks": Stacks,
    "modules": Modules,
    "module_parameters": ModuleParameters,
    "module_attributes": ModuleAttributes,
    "layers": Layers,
    "spans": Spans,
    "saved_tensors": SavedTensors,
    "known_storages": KnownStorages,
    "marks": Marks,
    "steps": Steps,
}

T = TypeVar("T", bound=Table)


_COLUMNS: dict[type[Table], tuple[dataclasses.Field[Any], ...]] = {}


def columns_of(table: type[Table]) -> tuple[dataclasses.Field[Any], ...]:
    """The columns of a table in order; `field.metadata` holds dtype, doc, unit, refers, enum, none."""
    known = _COLUMNS.get(table)
    if known is None:
        known = _COLUMNS[table] = dataclasses.fields(table)
    return known


_EMPTY: dict[type[Any], Any] = {}


def empty(table: type[T]) -> T:
    """The table without rows, of which there is one of each kind."""
    made: T | None = _EMPTY.get(table)
    if made is None:
        columns = {f.name: np.empty(0, f.metadata["dtype"]) for f in columns_of(table)}
        for array in columns.values():
            array.setflags(write=False)
        made = _EMPTY[table] = table(**columns)
    return made


def from_columns(table: type[T], **columns: Any) -> T:
    """A table from anything array-like, converted to the declared dtypes."""
    return table(**{f.name: np.ascontiguousarray(columns[f.name], f.metadata["dtype"]) for f in columns_of(table)})


def select(table: T, keep: B1) -> T:
    """The rows of a table for which the mask holds."""
    return type(table)(**{f.name: getattr(table, f.name)[keep] for f in columns_of(type(table))})


def from_rows(table: type[T], rows: list[tuple[Any, ...]]) -> T:
    """A table from row tuples in column order."""
    if not rows:
        return empty(table)
    return from_columns(table, **dict(zip((f.name for f in columns_of(table)), zip(*rows, strict=True), strict=True)))
