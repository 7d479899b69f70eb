"""Allocations of a step that runs without memory: the storages of fake tensors, as every operation makes them.

A dispatch mode above `FakeTensorMode` looks at what each operation puts out. A storage it has not seen is an
allocation; a weak reference to the storage's Python object, which torch keeps for as long as the storage lives, says
exactly when it dies. Storages have no addresses here, so each gets one of its own that is never given out again.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import CaptureError
from ..format import schema
from ..format.interning import StackTable, StringTable
from ..format.problems import Problem
from ..format.recording import Device
from ..format.schema import NONE, Action, Severity
from ..frame_rows import FrameRows
from ..refusal import REFUSALS, Refusal, running_module
from ..step_log import Frame, StepLog, python_frames
from ..storages import pieces
from . import Allocations
from .heap import heap_tables

FIRST_ADDRESS = 1 << 40
ALIGNMENT = 512
"""Both chosen at will; addresses only tell storages apart."""

LOOK_EVERY = 256
"""Operations between two looks at the clock, for progress."""

_node = getattr(torch._C, "_current_autograd_node", lambda: None)

Maker = tuple[tuple[Frame, ...], str, str]
"""Python frames, autograd node (empty in forward) and operation that made a storage."""

_NOBODY: Maker = ((), "", "")


@dataclass(slots=True)
class Storage:
    """A storage that is alive; `reference` tells of its death."""

    address: int
    bytes: int
    maker: Maker
    reference: Any


_EMPTY = Storage(0, 0, _NOBODY, None)
"""Stands for every storage without bytes."""


@dataclass(frozen=True, slots=True)
class Event:
    """An allocation (`maker` says whose) or a free."""

    action: Action
    storage: Storage
    time: int
    maker: Maker


class Kernels(Protocol):
    """Kernels other than those of the CPU, whose figures are estimates."""

    name: str

    def estimates(self) -> tuple[str, ...]:
        """One sentence for each kind of kernel that ran."""


class DryRunSource:
    """Enter `watching()` before the model is built, so that everything alive when the step begins is known."""

    name = "dry run"

    def __init__(self, kernels: Kernels | None = None, estimates: tuple[str, ...] = ()) -> None:
        self.operations = 0
        self.alive_bytes = 0
        self.progress: Callable[[], None] = lambda: None
        """Called every few hundred operations."""
        self.refusal: Refusal | None = None
        """The last operation that torch could not run without values."""
        self._kernels = kernels
        self._estimates = estimates
        self._alive: dict[int, Storage] = {}
        """By the address of the C++ storage, which torch uses again only after the death of the old one."""
        self._next = FIRST_ADDRESS
        self._events: list[Event] = []
        self._before: list[Storage] = []
        self._end: list[Storage] = []
        self._recording = False
        self._last_time = 0

    def watching(self) -> TorchDispatchMode:
        """The dispatch mode that looks at every operation; it belongs above `FakeTensorMode`."""
        return _Watch(self)

    def start(self) -> None:
        """What is alive now was there before the step."""
        self._before = list(self._alive.values())
        self._recording = True

    def stop(self) -> None:
        """What is alive now is the end state."""
        self._end = list(self._alive.values())
        self._recording = False

    def release(self) -> None:
        """Forget everything: storages that outlive the dry run must not report their death to it."""
        self._alive.clear()
        self._before, self._end, self._events = [], [], []

    def address_of(self, storage: torch.UntypedStorage) -> int:
        """The address given to a storage; one of a size of 0 has none. Not seen before means: it came from outside."""
        return self._entry(storage, _NOBODY).address

    def note(self, operation: str, outputs: Any) -> None:
        """An operation is done: what it put out in new storages was allocated."""
        self.operations += 1
        if self.operations % LOOK_EVERY == 0:
            self.progress()
        maker: Maker | None = None
        for output in outputs:
            for piece in pieces(output):
                storage = _storage_on_cpu(piece, operation)
                if storage is None or self._is_known(storage):
                    continue
                maker = maker or _maker(operation)
                self._entry(storage, maker)

    def _is_known(self, storage: torch.UntypedStorage) -> bool:
        entry = self._alive.get(storage._cdata)
        return entry.bytes == storage.nbytes() if entry is not None else not storage.nbytes()

    def _entry(self, storage: torch.UntypedStorage, maker: Maker) -> Storage:
        key, size = storage._cdata, storage.nbytes()
        entry = self._alive.get(key)
        if entry is not None and entry.bytes == size:
            return entry
        if entry is not None:  # it was resized: the old memory is given back, and other memory taken
            self._freed(key, entry)
        if not size:
            return _EMPTY
        entry = Storage(self._next, size, maker, None)
        entry.reference = weakref.ref(storage, lambda _: self._freed(key, entry))
        self._next += -(-size // ALIGNMENT) * ALIGNMENT
        self._alive[key] = entry
        self.alive_bytes += size
        self._event(Action.alloc, entry, maker)
        return entry

    def _freed(self, key: int, entry: Storage) -> None:
        if self._alive.get(key) is entry:
            del self._alive[key]
            self.alive_bytes -= entry.bytes
            self._event(Action.free_completed, entry, _NOBODY)

    def _event(self, action: Action, entry: Storage, maker: Maker) -> None:
        if self._recording:
            self._last_time = max(self._last_time, time.time_ns())  # the clock may be set back; the order may not
            self._events.append(Event(action, entry, self._last_time, maker))

    def collect(self, log: StepLog, strings: StringTable, stacks: StackTable) -> Allocations:
        """The same tables as of a real step; there is no allocator, so nothing is reserved."""
        rows = _StackRows(stacks)
        events = [
            (e.action, 0, e.storage.address, e.storage.bytes, e.time, rows.of(e.maker), 0, NONE, NONE, NONE)
            for e in self._events
        ]
        alive = {s.address: (s.bytes, rows.of(s.maker)) for s in self._end}
        tables: dict[str, schema.Table] = {"events": schema.from_rows(schema.Events, events), **heap_tables(alive)}
        meta = {
            "kernels": self._kernels.name if self._kernels is not None else "cpu",
            "estimates": (*self._of_kernels(), *self._estimates),
            "has_durations": False,
            "step_seconds_recorded": None,
            "step_seconds_unrecorded": None,
        }
        return Allocations((Device("cpu", 0),), tables, has_reserved=False, problems=list(self._problems()), meta=meta)

    def _of_kernels(self) -> tuple[str, ...]:
        if self._kernels is not None:
            return self._kernels.estimates()
        return ("Bytes are those of the CPU's kernels: a GPU's keep other amounts (see --fused).",)

    def _problems(self) -> Iterator[Problem]:
        whose = "the kernels of the CPU" if self._kernels is None else "the fused kernels named as estimates"
        text = (
            f"A dry run: nothing was computed. Bytes are those of the storages that {whose} hold; memory inside a "
            "kernel, rounding and fragmentation were not seen, a sum of gradients takes a storage of its own where a "
            "real step adds in place, and times give the order only."
        )
        yield Problem("dry_run", Severity.info, text)


def _maker(operation: str) -> Maker:
    frames, node = python_frames(), _node()
    # A recomputation and a backward written in Python run inside a node too, but it is they who call.
    by_engine = bool(frames) and frames[0][0].co_name == "_engine_run_backward"
    return frames, node.name() if node is not None and by_engine else "", operation


class _Watch(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else every operation goes through one more wrapper, which then stands in every stack

    def __init__(self, source: DryRunSource) -> None:
        super().__init__()
        self._source = source

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            result = func(*args, **(kwargs or {}))
        except REFUSALS as error:
            self._source.refusal = Refusal(error, func._schema.name, running_module())
            raise
        outputs = result if isinstance(result, (tuple, list)) else (result,)
        tensors = [o for o in outputs if isinstance(o, torch.Tensor)]
        if len(tensors) != len(outputs):  # lists of tensors among the outputs, or none at all
            tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self._source.note(func._schema.name, tensors)
        return result


def _storage_on_cpu(tensor: torch.Tensor, operation: str) -> torch.UntypedStorage | None:
    """The storage of a tensor that the CPU would hold; None for those without memory.

    Raises CaptureError for a tensor on another device: autograd on a device that is not there aborts the process.
    """
    device = tensor.device.type
    if device == "meta":
        return None
    if device != "cpu":
        raise CaptureError(
            f"A dry run measures the kernels of the CPU, but {operation} made a tensor on {tensor.device}: leave out "
            "`.cuda()` and `device=`."
        )
    try:
        return tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return None


class _StackRows:
    """Makers to stacks: the Python frames, the autograd node where backward called, and the operation."""

    def __init__(self, stacks: StackTable) -> None:
        self._frames = FrameRows(stacks)
        self._known: dict[Maker, int] = {}

    def of(self, maker: Maker) -> int:
        if maker not in self._known:
            frames, *operations = maker
            self._known[maker] = self._frames.stack(frames, *filter(None, operations))
        return self._known[maker]
