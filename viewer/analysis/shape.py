"""The shape of the recorded model, read from its module tree: widths of parameters, never measured bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from memstrata.capture.format.plan import LayerShape, ModelShape, Plan, Ranges, layer_shape, super_blocks
from memstrata.capture.format.recording import Recording

from ..look.words import sentence_list
from .frozen import frozen_layers, frozen_text
from .halves import find_halves
from .leaves import LeafWalk
from .module_tree import ITEMSIZE, ModuleTree
from .outside_layers import OutsideLayers
from .rows_seen import Rows, other_rows, rows_of_lists, rows_seen, scaled

if TYPE_CHECKING:
    from ..model.run import Run

COMPILED = "OptimizedModule"
NOT_COUNTED = "not counted: "
"""Begins the assumption that names the classes whose activations the shape leaves out."""


def shape_of(run: Run) -> ModelShape | None:
    """The model's shape with the recorded batch and sequence; None where the file has no layers, no batch, or no
    layer whose widths can be read. Read once for each run."""
    return run.once(_shape_of)


def _shape_of(run: Run) -> ModelShape | None:
    return shape_of_recording(run.recording)


def plan_in_force(run: Run) -> Plan:
    """The checkpoint plan that the recorder saw, a segment that ran several times once; `Plan.NONE` if none."""
    return Plan(tuple(dict.fromkeys(run.recording.meta.plan or ())))


def is_compiled(run: Run) -> bool:
    """Whether a compiled module is in the tree: rules of eager mode do not apply to it."""
    strings = run.recording.strings
    return any(strings[cls] == COMPILED for cls in run.recording.modules.cls.tolist())


def convolutions(run: Run) -> str:
    """The classes of convolutions inside layers, as text; empty if there are none."""
    tree = ModuleTree(run.recording)
    rows = (row for layer in run.layers.modules.tolist() for row in tree.descendants(layer))
    return sentence_list(
        sorted({tree.classes[row] for row in rows if tree.classes[row].startswith("Conv")} - {"Conv1D"})
    )


def not_counted(shape: ModelShape) -> str:
    """The classes of layers that the shape cannot count, as text; empty if it counts all."""
    found = (text.removeprefix(NOT_COUNTED) for text in shape.assumptions if text.startswith(NOT_COUNTED))
    return next(found, "")


def shape_of_recording(recording: Recording) -> ModelShape | None:
    """As `shape_of`."""
    meta, tree = recording.meta, ModuleTree(recording)
    if not len(recording.layers) or not meta.batch:
        return None
    dtype = meta.dtype or _dtype(tree)
    itemsize = ITEMSIZE.get(dtype, 4)
    reader = _LayerReader(tree, itemsize, mask_itemsize=itemsize if "cpu" in (meta.source, meta.kernels) else 1)
    rows = recording.layers.module.tolist()
    layers = [reader.read(row, number) for row, number in zip(rows, recording.layers.list.tolist(), strict=True)]
    if not any(layer.terms for layer in layers):
        return None
    hidden = reader.hidden or next(layer.terms[0].width for layer in layers if layer.terms)
    seen = rows_seen(recording, hidden)
    if seen is None:
        return None
    rows_of_list = rows_of_lists(recording, hidden, prod(seen))
    layers = _as_they_ran(recording, layers, rows_of_list, prod(seen))
    ranges = tuple(_ranges(recording))
    outside = OutsideLayers(recording, tree, itemsize, prod(seen))
    ahead, behind = outside.ahead(), outside.behind()
    return ModelShape(
        layers=tuple(layers),
        names=tuple(tree.paths[row] for row in rows),
        hidden=hidden,
        itemsize=itemsize,
        tokens=prod(seen),
        super_block_length=Counter(stop - start for start, stop in ranges).most_common(1)[0][0],
        parameters=tree.parameter_count,
        assumptions=(
            *_assumptions(recording, tree, reader, seen),
            *_outside_assumptions(outside, bool(ahead or behind)),
            *other_rows(recording, tree, rows_of_list),
        ),
        ranges=ranges,
        dtype=dtype,
        ahead=ahead,
        behind=behind,
    )


def _as_they_ran(recording: Recording, layers: list[LayerShape], rows: dict[int, int], tokens: int) -> list[LayerShape]:
    """Nothing of frozen layers, and each list's own number of rows."""
    lists = recording.layers.list.tolist()
    kept = (
        LayerShape(layer.kind, ()) if still else layer
        for layer, still in zip(layers, frozen_layers(recording), strict=True)
    )
    return [scaled(layer, rows.get(number, tokens), tokens) for layer, number in zip(kept, lists, strict=True)]


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


def _assumptions(recording: Recording, tree: ModuleTree, reader: _LayerReader, seen: Rows) -> Iterator[str]:
    yield f"{recording.meta.dtype or _dtype(tree)}, batch x sequence = {seen[0]} x {seen[1]}"
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
        yield f"{NOT_COUNTED}{', '.join(sorted(reader.not_counted))}"
    if COMPILED in tree.classes:
        yield "the model is compiled: these rules are those of eager mode and do not apply"
    if any(frozen := frozen_layers(recording)):
        rows = recording.layers.module.tolist()
        yield frozen_text([tree.paths[row] for row, still in zip(rows, frozen, strict=True) if still])


def _outside_assumptions(outside: OutsideLayers, counted: bool) -> Iterator[str]:
    if outside.vocabulary():
        yield (
            "outside the layers: an embedding keeps its indices, and what it puts out is the first layer's residual"
            " input; norms and head keep their input, and the loss is a cross-entropy that keeps log-probabilities in"
            " float32"
        )
    elif not counted:
        yield "only the layers are counted"
    if outside.not_counted:
        yield f"outside the layers not counted: {', '.join(sorted(outside.not_counted))}"
