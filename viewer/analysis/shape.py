"""The shape of the recorded model, read from its module tree: widths of parameters, never measured bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memstrata.capture.format.plan import LayerShape, ModelShape, Plan, Ranges, layer_shape, super_blocks
from memstrata.capture.format.recording import Recording

from .halves import find_halves
from .leaves import LeafWalk
from .module_tree import ITEMSIZE, ModuleTree

if TYPE_CHECKING:
    from ..model.run import Run

COMPILED = "OptimizedModule"


def shape_of(run: Run) -> ModelShape | None:
    """The model's shape with the recorded batch and sequence; None where the file has no layers, no batch, or no
    layer whose widths can be read."""
    return shape_of_recording(run.recording)


def plan_in_force(run: Run) -> Plan:
    """The checkpoint plan that the recorder saw, a segment that ran several times once; `Plan.NONE` if none."""
    return Plan(tuple(dict.fromkeys(run.recording.meta.plan or ())))


def is_compiled(run: Run) -> bool:
    """Whether a compiled module is in the tree: rules of eager mode do not apply to it."""
    strings = run.recording.strings
    return any(strings[cls] == COMPILED for cls in run.recording.modules.cls.tolist())


def shape_of_recording(recording: Recording) -> ModelShape | None:
    """As `shape_of`."""
    meta, tree = recording.meta, ModuleTree(recording)
    tokens = (meta.batch or 0) * (meta.sequence or 1)
    if not len(recording.layers) or not tokens:
        return None
    itemsize = ITEMSIZE.get(meta.dtype or _dtype(tree), 4)
    reader = _LayerReader(tree, itemsize, mask_itemsize=itemsize if meta.source == "cpu" else 1)
    rows = recording.layers.module.tolist()
    layers = [reader.read(row, number) for row, number in zip(rows, recording.layers.list.tolist(), strict=True)]
    if not any(layer.terms for layer in layers):
        return None
    ranges = tuple(_ranges(recording))
    return ModelShape(
        layers=tuple(layers),
        names=tuple(tree.paths[row] for row in rows),
        hidden=reader.hidden or next(layer.terms[0].width for layer in layers if layer.terms),
        itemsize=itemsize,
        tokens=tokens,
        super_block_length=Counter(stop - start for start, stop in ranges).most_common(1)[0][0],
        parameters=tree.parameter_count,
        assumptions=tuple(_assumptions(recording, tree, reader)),
        ranges=ranges,
    )


class _LayerReader:
    """Reads one layer after the other; remembers the residual width and what could not be counted."""

    def __init__(self, tree: ModuleTree, itemsize: int, mask_itemsize: int) -> None:
        self.tree = tree
        self.itemsize = itemsize
        self.mask_itemsize = mask_itemsize
        self.hidden = 0
        self.in_order = False
        self.not_counted: set[str] = set()
        self._walk: LeafWalk | None = None
        self._list = -1

    def read(self, row: int, layer_list: int) -> LayerShape:
        """The shape of the layer in this row of modules."""
        kind = self.tree.classes[row]
        hidden, halves = find_halves(self.tree, row)
        if halves:
            self.hidden = self.hidden or hidden
            self._walk = None
            return layer_shape(kind, self.tree.paths[row], halves, hidden, self.itemsize)
        if self._walk is None or layer_list != self._list:
            self._walk, self._list = LeafWalk(self.tree, self.itemsize, self.mask_itemsize), layer_list
        terms = self._walk.layer(row)
        self.in_order |= bool(terms)
        self.not_counted |= self._walk.not_counted
        return LayerShape(kind, terms)


def _dtype(tree: ModuleTree) -> str:
    counted = Counter(dtype for held in tree.parameters for _, dtype in held.values())
    return counted.most_common(1)[0][0] if counted else ""


def _ranges(recording: Recording) -> Iterator[tuple[int, int]]:
    """The super-blocks of all layer lists, as ranges of rows of the layers table."""
    kinds = [recording.strings[int(k)] for k in recording.layers.kind]
    lists = recording.layers.list.tolist()
    first = 0
    while first < len(lists):
        last = first
        while last < len(lists) and lists[last] == lists[first]:
            last += 1
        blocks: Ranges = super_blocks(kinds[first:last], recording.meta.super_block_override)
        yield from ((first + start, first + stop) for start, stop in blocks)
        first = last


def _assumptions(recording: Recording, tree: ModuleTree, reader: _LayerReader) -> Iterator[str]:
    meta = recording.meta
    rows = f"{meta.batch} x {meta.sequence}" if meta.sequence else f"{meta.batch}"
    yield f"{meta.dtype or _dtype(tree)}, batch x sequence = {rows}; only the layers are counted, not embedding or head"
    if reader.hidden:
        yield (
            "a layer keeps its residual input and for each half the normalised input, every projection's output, the"
            " output projection's input and the half's output; no attention scores, no copies in another precision,"
            " no dropout masks"
        )
    if reader.in_order:
        yield (
            "modules of a layer run in order: Linear, GELU, SiLU and norms keep their input, ReLU, Sigmoid and Tanh"
            " their output, and what two neighbours keep counts once"
        )
    if reader.not_counted:
        yield f"not counted: {', '.join(sorted(reader.not_counted))}"
    if COMPILED in tree.classes:
        yield "the model is compiled: these rules are those of eager mode and do not apply"
