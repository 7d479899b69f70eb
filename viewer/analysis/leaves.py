"""The rule for layers without a residual structure: modules run in order, and each keeps what its own backward needs.

A Linear keeps its input; GELU, SiLU and norms keep their input; ReLU, Sigmoid, Tanh and Softmax keep their output;
Dropout keeps a mask. A tensor that two neighbours keep is counted once, for the first of them.
"""

from __future__ import annotations

from memstrata.capture.format.plan import Term

from .module_tree import ModuleTree

KEEPS_INPUT = frozenset(
    ("GELU", "SiLU", "Mish", "LeakyReLU", "Softplus", "Hardswish", "Hardtanh", "ReLU6", "CELU", "PReLU", "LogSigmoid")
)
_OVER_POSITIONS = ("BatchNorm", "InstanceNorm", "GroupNorm", "SyncBatchNorm")
"""Norms whose weight counts channels: the rows of their input are pixels, which no width tells."""
KEEPS_OUTPUT = frozenset(("ReLU", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "ELU", "SELU"))


class LeafWalk:
    """Walks the leaves of the layers of one layer list in order; `itemsize` and `mask_itemsize` in bytes."""

    def __init__(self, tree: ModuleTree, itemsize: int, mask_itemsize: int) -> None:
        self.tree = tree
        self.itemsize = itemsize
        self.mask_itemsize = mask_itemsize
        self.not_counted: set[str] = set()
        self._width = 0
        self._kept = False
        """Whether the tensor that flows is already counted."""

    def layer(self, row: int) -> tuple[Term, ...]:
        """What this layer keeps."""
        leaves = [leaf for leaf in self.tree.descendants(row) if not self.tree.children[leaf]]
        terms: list[Term] = []
        for leaf in leaves:
            terms += self._leaf(leaf, row)
        return tuple(terms)

    def _leaf(self, row: int, layer: int) -> list[Term]:
        cls, held = self.tree.classes[row], self.tree.parameters[row]
        widths = self.tree.linear(row)
        if widths:
            self._width = widths[0]
            return self._keep_input(row, layer, "in_features", widths[1])
        if "Embedding" in cls:  # keeps indices only
            self._width, self._kept = held.get("weight", ((0,), ""))[0][-1], False
            return []
        self._width = self._width or self._own_width(row)
        if self._width and (cls in KEEPS_INPUT or self.tree.is_norm(row)):
            return self._keep_input(row, layer, "width of its input", self._width)
        if self._width and cls in KEEPS_OUTPUT:
            self._kept = True
            return [self._term(row, layer, "output", "width of its output", self._width, self.itemsize)]
        if self._width and "Dropout" in cls:
            self._kept = False
            return [self._term(row, layer, "mask", "width of its input", self._width, self.mask_itemsize)]
        if held or cls in KEEPS_INPUT | KEEPS_OUTPUT or "Dropout" in cls:
            self.not_counted.add(cls)
        if held:  # whatever it puts out has a width that is not read here
            self._width, self._kept = 0, False
        return []

    def _own_width(self, row: int) -> int:
        """The width of a norm over features, by its own weight; 0 for anything else."""
        cls, (shape, _) = self.tree.classes[row], self.tree.parameters[row].get("weight", ((), ""))
        if len(shape) != 1 or "norm" not in cls.lower() or cls.startswith(_OVER_POSITIONS):
            return 0
        return shape[0]

    def _keep_input(self, row: int, layer: int, formula: str, width_out: int) -> list[Term]:
        counted, width = self._kept, self._width
        self._kept, self._width = False, width_out
        return [] if counted else [self._term(row, layer, "input", formula, width, self.itemsize)]

    def _term(self, row: int, layer: int, what: str, formula: str, width: int, itemsize: int) -> Term:
        inside = self.tree.paths[row][len(self.tree.paths[layer]) :].lstrip(".")
        name = " ".join(word for word in (self.tree.classes[row], inside, what) if word)
        dtype = "bool" if what == "mask" and itemsize == 1 else ""
        return Term(name, width, itemsize, formula, self.tree.paths[row], dtype)
