"""Mixture of experts in a module tree: how many a token goes through, what chooses them, and experts whose weights are
one parameter of three dimensions instead of a list of modules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memstrata.capture.format.plan import Half

from .module_tree import ModuleTree

_CHOSEN = ("num_experts_per_tok", "top_k", "num_selected_experts", "n_activated_experts")
_WAY_BACK = re.compile(r"down|w2$|wo$|output")


def chosen_experts(tree: ModuleTree, experts: int) -> int:
    """How many experts each token goes through, as the module of the experts, the one around it, or its router says;
    1 if none does. `experts` is the row of the list, or of the module that holds their weights."""
    parent = int(tree.recording.modules.parent[experts])
    around = [experts, *([parent, *tree.children[parent]] if parent >= 0 else [])]
    held = (tree.attributes[row][name] for row in around for name in _CHOSEN if name in tree.attributes[row])
    return next(held, 1)


def router_of(tree: ModuleTree, experts: int) -> tuple[str, int]:
    """(path, number of experts) of the projection beside the experts that puts out one value for each; ("", 0) where
    there is none."""
    parent = int(tree.recording.modules.parent[experts])
    fused = fused_experts(tree, experts)
    count = fused.count if fused else len(tree.children[experts])
    for row in tree.children[parent] if parent >= 0 else []:
        widths = tree.linear(row)
        if widths is not None and widths[1] == count:
            return tree.paths[row], count
    return "", 0


@dataclass(frozen=True)
class Fused:
    """The weights of all experts in one module: shapes (experts, a, b) by name."""

    count: int
    projections: dict[str, tuple[int, int]]
    name: str
    back: tuple[int, int]

    def half(self, tree: ModuleTree, row: int, hidden: int) -> Half:
        """As a list of such experts would be read."""
        path = tree.paths[row]
        named = tuple((name, _other(dims, hidden)) for name, dims in self.projections.items())
        return Half(
            tree.name(row), path, "", named, path, f"{path}.{self.name}", _other(self.back, hidden),
            chosen_experts(tree, row), router_of(tree, row),
        )  # fmt: skip


def fused_experts(tree: ModuleTree, row: int) -> Fused | None:
    """The experts that this module holds as parameters of three dimensions, or None."""
    held = {name: shape for name, (shape, _) in tree.parameters[row].items() if len(shape) == 3}
    back = [name for name in held if _WAY_BACK.search(name)]
    counts = {shape[0] for shape in held.values()}
    if len(held) < 2 or len(back) != 1 or len(counts) != 1:
        return None
    projections = {name: (shape[1], shape[2]) for name, shape in held.items() if name != back[0]}
    return Fused(counts.pop(), projections, back[0], (held[back[0]][1], held[back[0]][2]))


def _other(dims: tuple[int, int], hidden: int) -> int:
    """The dimension that is not the residual width."""
    return dims[0] if dims[1] == hidden else dims[1]
