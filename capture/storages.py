"""Which storage is which: distinct storages are numbered, and those the program can name are remembered.

A storage is recognised by its C++ object until a weak reference says that it died, because objects and addresses are
recycled as soon as nothing holds them. The reference is to the Python object, which torch keeps for as long as the
storage lives: a C++ weak reference would keep the dead object's memory, a thousand small blocks between the freed
tensors, and the process would need more memory because it is recorded.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils.weak import WeakIdKeyDictionary

from .format.schema import NONE, StorageKind


@dataclass(slots=True)
class Known:
    """A storage that can be named; times in Unix ns, `end_time` -1 while it lives."""

    kind: StorageKind
    device: torch.device
    address: int
    bytes: int
    name: str
    module: torch.nn.Module | None
    start_time: int
    end_time: int = NONE


@dataclass(frozen=True, slots=True)
class Part:
    """A strided piece of a tensor: number of its storage (-1 if it has none that can be sized), device and bytes."""

    storage: int
    device: torch.device
    address: int
    storage_bytes: int
    tensor_bytes: int


class Storages:
    """The storages seen while recording."""

    def __init__(self) -> None:
        self.known: list[Known] = []
        self.address_of: Callable[[torch.UntypedStorage], int] = torch.UntypedStorage.data_ptr
        """Where a storage lies. A dry run has no memory, and gives out addresses of its own."""
        self._numbers: dict[tuple[int, int], int] = {}
        self._count = 0
        self._known_rows: dict[int, int] = {}
        self._references: list[Any] = []

    def parts(self, tensor: torch.Tensor) -> list[Part]:
        """The pieces of a tensor with their storages; one piece of unknown size where there is no storage."""
        return [self._part(piece) for piece in pieces(tensor)]

    def _part(self, tensor: torch.Tensor) -> Part:
        try:
            storage = tensor.untyped_storage()
            address, size = self.address_of(storage), storage.nbytes()
        except (RuntimeError, NotImplementedError, AttributeError):
            return Part(NONE, tensor.device, 0, 0, 0)
        key = (storage._cdata, address)
        if key not in self._numbers:
            self._watch(storage, key)
        return Part(self._numbers[key], tensor.device, address, size, tensor.numel() * tensor.element_size())

    def _watch(self, storage: torch.UntypedStorage, key: tuple[int, int]) -> None:
        """Give a storage a number, and forget whose object it was when it dies."""
        number = self._numbers[key] = self._count
        self._count += 1

        def died(_: Any) -> None:
            self._numbers.pop(key, None)
            self._end(number)

        self._references.append(weakref.ref(storage, died))

    def _end(self, number: int) -> None:
        row = self._known_rows.get(number)
        if row is not None and self.known[row].end_time == NONE:
            self.known[row].end_time = time.time_ns()

    def ended(self, storage: torch.UntypedStorage) -> int:
        """A storage gives its memory back though it lives on (FSDP resizes to 0): what it holds next is another
        allocation, with a number of its own. Returns the number it had, -1 if it had none."""
        number = self._numbers.pop((storage._cdata, self.address_of(storage)), NONE)
        self._end(number)
        return number

    def name(self, kind: StorageKind, tensor: torch.Tensor, name: str, module: torch.nn.Module | None = None) -> None:
        """Remember what this tensor's storage is. The first name of a storage stays."""
        for piece in pieces(tensor):
            part = self._part(piece)
            if part.storage_bytes == 0 or part.storage in self._known_rows:
                continue
            self._known_rows[part.storage] = len(self.known)
            row = Known(kind, piece.device, part.address, part.storage_bytes, name, module, time.time_ns())
            self.known.append(row)

    def adopt(self, storage: int, known: Known) -> None:
        """Remember what the storage with this number was, found out later."""
        self._known_rows[storage] = len(self.known)
        self.known.append(known)

    def known_row(self, storage: int) -> int:
        """The row of `known` of a storage number, -1 if it was never named (it may be named after it was saved)."""
        return self._known_rows.get(storage, NONE)

    def forget_dead(self, before: int) -> None:
        """Let go of what died before a time (Unix ns), and of the references that have done their work."""
        kept = [not NONE < known.end_time < before for known in self.known]
        rows = list(accumulate(kept, initial=0))
        self._known_rows = {number: rows[row] for number, row in self._known_rows.items() if kept[row]}
        self.known[:] = compress(self.known, kept)
        self._references = [reference for reference in self._references if reference() is not None]

    def release(self) -> None:
        """Let go of every reference."""
        self._references.clear()
        self.known.clear()


class Owners:
    """Which module holds a parameter, and its path; looked up once per model, because hooks ask at every backward."""

    def __init__(self) -> None:
        self._models: dict[int, torch.nn.Module] = {}
        self._found = WeakIdKeyDictionary()

    def add(self, model: torch.nn.Module) -> None:
        """Learn the parameters of a model; a parameter keeps its first name."""
        if id(model) in self._models:
            return
        self._models[id(model)] = model
        for prefix, module in model.named_modules():
            for name, parameter in module.named_parameters(recurse=False):
                if parameter not in self._found:
                    self._found[parameter] = (path_of(plain_path(prefix), name), module)

    def also(self, parameter: torch.Tensor, name: str, module: torch.nn.Module | None) -> None:
        """A parameter that no module holds just now, because what was gathered from it stands in its place."""
        self._found[parameter] = (name, module)

    def get(self, parameter: torch.Tensor) -> tuple[str, torch.nn.Module | None]:
        """(path, module that holds it)."""
        found: tuple[str, torch.nn.Module | None] = self._found.get(parameter, ("a parameter", None))
        return found


def path_of(prefix: str, name: str) -> str:
    """The path of what a module holds under a name."""
    return f"{prefix}.{name}" if prefix else name


WRAPPED = ("_checkpoint_wrapped_module", "_fsdp_wrapped_module")
"""The names under which torch's `checkpoint_wrapper`, `offload_wrapper` and older FSDP hold what they wrap."""


def plain_path(path: str) -> str:
    """A module path as it is without such wrappers: two runs compare, and a plan names the layers themselves."""
    return ".".join(part for part in path.split(".") if part not in WRAPPED)


def sizes_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """A tensor's sizes; None where they are ragged, symbolic or not known yet."""
    if tensor.is_nested or is_lazy(tensor) or not all(type(size) is int for size in tensor.shape):
        return None
    return tuple(tensor.shape)


def shape_text(tensor: torch.Tensor) -> str:
    """A tensor's sizes as text; empty where there are no plain ones."""
    return ",".join(map(str, sizes_of(tensor) or ()))


def pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The strided tensors a tensor is made of: itself, or the parts of a sparse or wrapper tensor."""
    if is_lazy(tensor):
        return
    if tensor.layout == torch.sparse_coo:
        yield tensor._indices()
        yield tensor._values()
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        yield from (tensor.crow_indices(), tensor.col_indices(), tensor.values())
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        yield from (tensor.ccol_indices(), tensor.row_indices(), tensor.values())
    elif hasattr(tensor, "__tensor_flatten__") and type(tensor) is not torch.nn.Parameter:
        names, _ = tensor.__tensor_flatten__()
        for inner in (getattr(tensor, name) for name in names):
            if isinstance(inner, torch.Tensor):  # a DTensor names its mesh too
                yield from pieces(inner)
    else:
        yield tensor
