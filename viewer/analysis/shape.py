"""The shape of the recorded model, read from its module tree: widths of parameters, never measured bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from memstrata.capture.format.plan import LayerShape, ModelShape, Plan, Ranges, covers, layer_shape, super_blocks
from memstrata.capture.format.recording import Meta, Recording
from memstrata.capture.format.schema import B1, NONE

from ..look.words import sentence_list
from .frozen import frozen_layers, frozen_text
from .halves import find_halves
from .leaves import LeafWalk
from .module_tree import ITEMSIZE, ModuleTree

if TYPE_CHECKING:
    from ..model.run import Run

COMPILED = "OptimizedModule"
NOT_COUNTED = "not counted: "
"""Begins the assumption that names the classes whose activations the shape leaves out."""

Rows = tuple[int, int]
"""(batch, positions of each sample): what a layer sees as rows."""


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
    itemsize = ITEMSIZE.get(meta.dtype or _dtype(tree), 4)
    reader = _LayerReader(tree, itemsize, mask_itemsize=itemsize if "cpu" in (meta.source, meta.kernels) else 1)
    rows = recording.layers.module.tolist()
    layers = [reader.read(row, number) for row, number in zip(rows, recording.layers.list.tolist(), strict=True)]
    if not any(layer.terms for layer in layers):
        return None
    hidden = reader.hidden or next(layer.terms[0].width for layer in layers if layer.terms)
    seen = _rows_seen(recording, hidden)
    if seen is None:
        return None
    frozen = frozen_layers(recording)
    layers = [LayerShape(layer.kind, ()) if still else layer for layer, still in zip(layers, frozen, strict=True)]
    rows_of_list = _rows_of_lists(recording, hidden, prod(seen))
    layers = [
        scaled(layer, rows_of_list.get(number, prod(seen)), prod(seen))
        for layer, number in zip(layers, recording.layers.list.tolist(), strict=True)
    ]
    ranges = tuple(_ranges(recording))
    return ModelShape(
        layers=tuple(layers),
        names=tuple(tree.paths[row] for row in rows),
        hidden=hidden,
        itemsize=itemsize,
        tokens=prod(seen),
        super_block_length=Counter(stop - start for start, stop in ranges).most_common(1)[0][0],
        parameters=tree.parameter_count,
        assumptions=(*_assumptions(recording, tree, reader, seen), *_other_rows(recording, tree, rows_of_list)),
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


def _rows_seen(recording: Recording, hidden: int) -> Rows | None:
    """Batch x sequence of the model's input, or, where the layers were seen to keep another number of rows (patches of
    an image, say), what they keep most often; None for an image of which nothing was seen."""
    meta = recording.meta
    seen = _kept_rows(recording, hidden)
    batch = meta.batch or 1
    given = batch * (meta.sequence or 1)
    if given in seen or not (seen or _is_image(meta)):
        return batch, given // batch
    if not seen:
        return None
    rows = seen.most_common(1)[0][0]
    return (batch, rows // batch) if rows % batch == 0 else (rows, 1)


def scaled(layer: LayerShape, rows: int, tokens: int) -> LayerShape:
    """A layer that sees another number of rows than the model's first input has, by its values per token of that."""
    if rows == tokens or any(term.width * rows % tokens for term in layer.terms):
        return layer
    terms = (
        replace(term, width=term.width * rows // tokens, formula=f"{term.formula} x {rows:,} of {tokens:,} rows")
        for term in layer.terms
    )
    return LayerShape(layer.kind, tuple(terms))


def _rows_of_lists(recording: Recording, hidden: int, tokens: int) -> dict[int, int]:
    """For each layer list that was not seen with the rows of the model's first input, the rows it keeps most often."""
    out: dict[int, int] = {}
    lists = sorted(set(recording.layers.list.tolist()))
    for number in lists if len(lists) > 1 else ():
        seen = _kept_rows(recording, hidden, recording.layers.list == number)
        if seen and seen.most_common(1)[0][0] != tokens:
            out[number] = seen.most_common(1)[0][0]
    return out


def _other_rows(recording: Recording, tree: ModuleTree, rows: dict[int, int]) -> Iterator[str]:
    for number, count in rows.items():
        first = int(recording.layers.module[int((recording.layers.list == number).argmax())])
        where = tree.paths[first].rpartition(".")[0] or tree.paths[first]
        yield f"the layers of {where} see {count:,} rows, as measured; everything else in them follows from widths"


def _kept_rows(recording: Recording, hidden: int, chosen: B1 | None = None) -> Counter[int]:
    """How often the modules inside layers kept a tensor of so many rows of the residual width; of the chosen rows of
    layers only."""
    table, strings = recording.saved_tensors, recording.strings
    paths = [strings[int(i)] for i in recording.modules.path]
    wanted = recording.layers.module if chosen is None else recording.layers.module[chosen]
    layers = [paths[row] for row in wanted.tolist()]
    inside = {row for row, path in enumerate(paths) if any(covers(layer, path) for layer in layers)}
    counted: Counter[int] = Counter()
    own = table.known == NONE  # neither weights nor the model's inputs
    for text, module in zip(table.shape[own].tolist(), table.module[own].tolist(), strict=True):
        shape = [int(n) for n in strings[text].split(",") if n.isdecimal()]
        if module in inside and shape[-1:] == [hidden] and 0 not in shape:
            counted[prod(shape[:-1])] += 1
    return counted


def _is_image(meta: Meta) -> bool:
    """Whether the model's first input has more dimensions than batch, sequence and features."""
    return len(next(iter(meta.shapes.values()), ())) > 3


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
    yield (
        f"{recording.meta.dtype or _dtype(tree)}, batch x sequence = {seen[0]} x {seen[1]}; only the layers are"
        " counted, not embedding or head"
    )
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
