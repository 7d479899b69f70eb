"""The module tree of a recording, as plain lists: what shapes are read from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import StorageKind

ITEMSIZE = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "complex64": 8,
}


@dataclass(frozen=True)
class ModuleTree:
    """Columns of the modules table as Python lists; `row` everywhere is a row of that table."""

    recording: Recording

    @cached_property
    def paths(self) -> list[str]:
        """Module paths."""
        return [self.recording.strings[int(i)] for i in self.recording.modules.path]

    @cached_property
    def classes(self) -> list[str]:
        """Class names."""
        return [self.recording.strings[int(i)] for i in self.recording.modules.cls]

    @cached_property
    def children(self) -> list[list[int]]:
        """Rows of the direct children, in order."""
        out: list[list[int]] = [[] for _ in self.paths]
        for row, parent in enumerate(self.recording.modules.parent.tolist()):
            if parent >= 0:
                out[parent].append(row)
        return out

    @cached_property
    def parameters(self) -> list[dict[str, tuple[tuple[int, ...], str]]]:
        """For each module the parameters it holds itself: name to (shape, dtype)."""
        out: list[dict[str, tuple[tuple[int, ...], str]]] = [{} for _ in self.paths]
        table, strings = self.recording.module_parameters, self.recording.strings
        for i, row in enumerate(table.module.tolist()):
            sizes = strings[int(table.shape[i])].split(",")
            shape = tuple(map(int, sizes)) if all(n.isdecimal() for n in sizes) else ()  # empty of a single value
            out[row][strings[int(table.name[i])]] = (shape, strings[int(table.dtype[i])])
        return out

    @cached_property
    def attributes(self) -> list[dict[str, int]]:
        """For each module its plain integer attributes."""
        out: list[dict[str, int]] = [{} for _ in self.paths]
        table = self.recording.module_attributes
        for i, row in enumerate(table.module.tolist()):
            out[row][self.recording.strings[int(table.name[i])]] = int(table.value[i])
        return out

    def name(self, row: int) -> str:
        """The last part of the path."""
        return self.paths[row].rpartition(".")[2]

    def descendants(self, row: int) -> list[int]:
        """This module and everything under it, in tree order."""
        out = [row]
        for child in self.children[row]:
            out += self.descendants(child)
        return out

    def linear(self, row: int) -> tuple[int, int] | None:
        """(in, out) of a Linear-like module: one that holds a two-dimensional weight and is no embedding."""
        shape, _ = self.parameters[row].get("weight", ((), ""))
        if len(shape) != 2 or "Embedding" in self.classes[row]:
            return None
        # transformers' Conv1D keeps its weight as (in, out)
        return (shape[0], shape[1]) if self.classes[row] == "Conv1D" else (shape[1], shape[0])

    def is_norm(self, row: int) -> bool:
        """A leaf whose class says norm, or whose only weight is a vector."""
        if self.children[row]:
            return False
        shape, _ = self.parameters[row].get("weight", ((), ""))
        return "norm" in self.classes[row].lower() or len(shape) == 1

    @property
    def parameter_count(self) -> int:
        """Number of parameters of the whole model; one that two modules hold counts once, where storages were seen."""
        known, strings = self.recording.known_storages, self.recording.strings
        names = {strings[int(name)] for name in known.name[known.kind == StorageKind.parameter].tolist()}
        total = 0
        for path, held in zip(self.paths, self.parameters, strict=True):
            for name, (shape, _) in held.items():
                if not names or f"{path}.{name}".lstrip(".") in names:
                    total += prod(shape)
        return total
