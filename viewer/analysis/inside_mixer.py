"""What lies between the projections of a half: convolutions, and norms over queries and keys."""

from __future__ import annotations

import re

from memstrata.capture.format.plan import InnerNorm

from .module_tree import ITEMSIZE, ModuleTree

_INNER_NORM = re.compile(r"^(q|k|query|key)_?(norm|layernorm|ln)$", re.IGNORECASE)


def mixed_by(tree: ModuleTree, row: int, inner: int) -> tuple[tuple[str, int], ...]:
    """What linear attention keeps between its projections, whatever its kernel: what a convolution puts out, and what
    the recurrence does, which the norm in front of the way back reads."""
    convolutions = _convolutions(tree, row)
    named = tuple((tree.name(c), _weight(tree, c)[0]) for c in convolutions)
    has_norm = bool(convolutions) and any(tree.is_norm(child) for child in tree.children[row])
    return (*named, ("state", inner)) if has_norm else named


def more_rows(tree: ModuleTree, row: int) -> tuple[str, int]:
    """(name, rows beyond one per token) of a causal convolution: padded with kernel - 1 positions it puts out so many
    more for each sample, and keeps them, though they are cut off. ("", 0) where no storage of that size was seen, as
    where a fused kernel pads nothing."""
    meta = tree.recording.meta
    for convolution in _convolutions(tree, row):
        weight = _weight(tree, convolution)
        batch, kernel = meta.batch or 1, weight[-1] if len(weight) == 3 else 1
        rows = batch * ((meta.sequence or 1) + kernel - 1)
        if kernel > 1 and rows * weight[0] in _values_kept(tree, row, convolution):
            return tree.name(convolution), batch * (kernel - 1)
    return "", 0


def inner_norms(tree: ModuleTree, row: int, projections: tuple[tuple[str, int], ...], inner: int) -> list[InnerNorm]:
    """Norms over queries and keys, each with the projection whose name begins as its own does; `inner` is the width of
    all query heads, since a query projection may carry a gate too."""
    found = []
    for child in tree.children[row]:
        name, weight = tree.name(child), _weight(tree, child)
        begins = [p for p in projections if p[0][:1].lower() == name[:1].lower()]
        if not (_INNER_NORM.match(name) and tree.is_norm(child) and len(weight) == 1 and begins):
            continue
        projection, width = begins[0]
        width = min(width, inner)
        if width % weight[0] == 0:
            found.append(InnerNorm(projection, tree.paths[child], width, weight[0]))
    return found


def _convolutions(tree: ModuleTree, row: int) -> list[int]:
    return [c for c in tree.children[row] if tree.classes[c].startswith("Conv") and not tree.linear(c)]


def _weight(tree: ModuleTree, row: int) -> tuple[int, ...]:
    return tree.parameters[row].get("weight", ((0,), ""))[0]


def _values_kept(tree: ModuleTree, row: int, convolution: int) -> set[int]:
    """Sizes, in values, of the storages of three-dimensional tensors that were saved inside this module, but for what
    the convolution reads: that is padded too where a model pads by itself."""
    table, strings = tree.recording.saved_tensors, tree.recording.strings
    inside, found = set(tree.descendants(row)) - {convolution}, set()
    for i, module in enumerate(table.module.tolist()):
        read = module not in inside or strings[int(table.op[i])].startswith("ConstantPad")
        if not read and len(strings[int(table.shape[i])].split(",")) == 3:
            found.add(int(table.storage_bytes[i]) // ITEMSIZE.get(strings[int(table.dtype[i])], 1))
    return found
