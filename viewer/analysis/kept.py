"""What was measured to be kept at one moment, as the residual matches it: one `Kept` for each storage, or for what all
experts of one list keep at one place."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from memstrata.capture.format.plan import ModelShape, Plan, covers
from memstrata.capture.format.recording import Meta
from memstrata.capture.format.schema import NONE, Category, Phase

from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .halves import expert_lists
from .module_tree import ITEMSIZE, ModuleTree


@dataclass(frozen=True)
class Kept:
    """One storage that autograd keeps. `bytes` is what was allocated; `shape` that of the tensor seen."""

    rows: tuple[int, ...]
    """Allocations: one, or one for each expert."""
    layer: int
    module: str
    bytes: int
    values: int
    """Bytes / itemsize of its dtype; 0 unknown."""
    op: str
    """The autograd node that made it, in words; empty where none did."""
    dtype: str
    shape: tuple[int, ...]
    boundary: bool
    """Kept although a segment covers it, or kept outside layers: it can be the input of a segment."""
    born: int
    """Layer whose forward or recomputation made it, -1 outside layers."""
    packed: bool
    """Whether a module of the model packed it; what no module packed was kept by the code around it, the loss say."""
    stack: int

    @property
    def last(self) -> int:
        """The last dimension; 0 unknown."""
        return self.shape[-1] if self.shape else 0


def words(op: str) -> str:
    """`log softmax` for the autograd node LogSoftmaxBackward0."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", re.sub(r"Backward\d*$", "", op)).lower()


def are_scores(op: str, shape: tuple[int, ...], meta: Meta) -> bool:
    """Whether a saved tensor is sequence x sequence for several heads. What no operator made and all heads share is the
    attention's own mask."""
    length, batch = meta.sequence or 0, meta.batch or 1
    if len(shape) < 3 or length < 2 or shape[-2:] != (length, length):
        return False
    return bool(op) or prod(shape[:-2]) > batch


class KeptReader:
    """Reads what is kept at a position of a run, under the plan in force."""

    def __init__(self, run: Run, shape: ModelShape, plan: Plan, tree: ModuleTree) -> None:
        self.run, self.shape, self.plan, self.tree = run, shape, plan, tree
        self.born = _makers(run)

    def at(self, position: int) -> list[Kept]:
        """Every activation alive there, in the order made."""
        mask = AllocationQuery(position=position, categories=ACTIVATIONS).mask(self.run)
        return list(self._bundled(self._one(row) for row in np.flatnonzero(mask).tolist()))

    def _one(self, row: int) -> Kept:
        recording, attribution = self.run.recording, self.run.attribution
        module, layer = int(attribution.module[row]), int(attribution.layer[row])
        path = self.tree.paths[module] if module >= 0 else ""
        size, saved = int(self.run.allocations.bytes[row]), int(attribution.saved[row])
        table, strings = recording.saved_tensors, recording.strings
        dtype = strings[int(table.dtype[saved])] if saved >= 0 else ""
        op = strings[int(table.op[saved])] if saved >= 0 else ""
        shape = strings[int(table.shape[saved])].split(",") if saved >= 0 else []
        kept = bool(self.plan.segments and attribution.category[row] == Category.activation)
        stack = int(self.run.allocations.stack[row])
        return Kept(
            rows=(row,),
            layer=layer,
            module=path,
            bytes=size,
            values=size // ITEMSIZE.get(dtype, size + 1),
            op=words(op),
            dtype=dtype,
            shape=tuple(int(n) for n in shape) if all(n.isdecimal() for n in shape) else (),
            boundary=kept and (layer < 0 or self._touches_segment(path)),
            born=int(self.born[row]),
            packed=saved >= 0 and int(table.module[saved]) >= 0,
            stack=stack if stack >= 0 or saved < 0 else int(table.stack[saved]),
        )

    def _touches_segment(self, path: str) -> bool:
        """Inside a segment, or what calls one."""
        if self.plan.segment_of(path) >= 0:
            return True
        return any(covers(path, inside) for paths in self.plan.segments for inside in paths)

    def _bundled(self, kept: Iterable[Kept]) -> Iterable[Kept]:
        """Experts of one list as one: tensors at the same place, of the same op, dtype and last dimension. They lie
        where the first expert has its own; the shape counts one expert for all that a token goes through."""
        experts = self._experts()
        seen: dict[tuple[str, ...], int] = defaultdict(int)
        bundles: dict[tuple[object, ...], Kept] = {}
        for one in kept:
            path = _at_or_above(one.module, experts)
            if path is None or one.layer < 0:
                yield one
                continue
            first, inside = experts[path], one.module[len(path) :]
            kind = (path, inside, one.op, one.dtype, str(one.last))
            key = (first, *kind[1:], seen[kind])  # the n-th such tensor of each expert
            seen[kind] += 1
            held = bundles.get(key)
            moved = replace(one, module=first + inside)
            bundles[key] = moved if held is None else _together(held, moved)
        yield from bundles.values()

    def _experts(self) -> dict[str, str]:
        """Path of each expert to that of the first one of its list."""
        paths = self.tree.paths
        lists = (rows for layer in self.run.layers.modules.tolist() for rows in expert_lists(self.tree, layer))
        return {paths[row]: paths[rows[0]] for rows in lists for row in rows}


def _at_or_above(module: str, paths: dict[str, str]) -> str | None:
    """The module itself or the nearest one around it that is among these paths."""
    if not paths:
        return None
    while module and module not in paths:
        module = module.rpartition(".")[0]
    return module or None


def _together(a: Kept, b: Kept) -> Kept:
    return replace(a, rows=a.rows + b.rows, bytes=a.bytes + b.bytes, values=a.values + b.values)


def _makers(run: Run) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The layer that ran, in forward or recomputation, when each allocation was made; -1 outside layers."""
    made = run.allocations.start - 1
    out = np.full(len(made), NONE, np.int64)
    spans = run.spans
    is_layer = (spans.layer >= 0) & np.isin(spans.phase, (Phase.forward, Phase.recompute))
    is_layer &= spans.module == np.append(run.layers.modules, NONE)[spans.layer]
    order = np.flatnonzero(is_layer)
    order = order[np.argsort(spans.start_position[order], kind="stable")]
    if len(order):
        last = np.searchsorted(spans.start_position[order], made, side="right") - 1
        inside = (last >= 0) & (made < spans.end_position[order[np.maximum(last, 0)]]) & ~run.allocations.before
        out[inside] = spans.layer[order[last[inside]]]
    return out
