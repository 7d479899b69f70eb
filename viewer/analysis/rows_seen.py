"""How many rows the layers of a recording see, read from what their modules kept: tokens, patches of an image, or what
another list of layers has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from memstrata.capture.format.plan import LayerShape, covers
from memstrata.capture.format.recording import Meta, Recording
from memstrata.capture.format.schema import B1, NONE

from .module_tree import ModuleTree

Rows = tuple[int, int]
"""(batch, positions of each sample): what a layer sees as rows."""


def rows_seen(recording: Recording, hidden: int) -> Rows | None:
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
    return replace(layer, terms=tuple(terms))


def rows_of_lists(recording: Recording, hidden: int, tokens: int) -> dict[int, int]:
    """For each layer list that was not seen with the rows of the model's first input, the rows it keeps most often."""
    out: dict[int, int] = {}
    lists = sorted(set(recording.layers.list.tolist()))
    for number in lists if len(lists) > 1 else ():
        seen = _kept_rows(recording, hidden, recording.layers.list == number)
        if seen and seen.most_common(1)[0][0] != tokens:
            out[number] = seen.most_common(1)[0][0]
    return out


def other_rows(recording: Recording, tree: ModuleTree, rows: dict[int, int]) -> Iterator[str]:
    """A sentence for each of these lists."""
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
