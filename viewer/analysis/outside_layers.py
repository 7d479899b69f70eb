"""What a recorded model keeps ahead of its layers and behind them, by the widths of the modules there: the embedding's
indices, norms, the head, and a cross-entropy over its vocabulary.

An embedding keeps the indices it was given; what it puts out is the first layer's residual input, one storage. A norm
and a Linear keep their input, a dropout its mask, soft-capping of logits the tanh. A loss over logits keeps the
log-probabilities in float32, and the labels. The logits themselves are not kept for backward: they are a temporary of
the budget.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod

import numpy as np

from memstrata.capture.format.plan import LayerShape, Term
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Phase

from .kept import words
from .module_tree import ITEMSIZE, ModuleTree
from .rows_seen import scaled

INT64 = "int64"
NORM_WIDTH = "the norm's width"
"""Begins the formula of what norms outside layers keep."""
LOSS = ""
"""The module of what a loss keeps: no module of the model packs it."""
INDICES, LABELS, LOG_PROBABILITIES = "embedding indices", "labels", "log-probabilities"
CAPPED_LOGITS = "capped logits"
_NOT_TOKENS = re.compile(r"pos|type|segment", re.IGNORECASE)
"""Embeddings of something else than the tokens: their indices are few, or made by the model."""


def loss_terms(vocabulary: int) -> tuple[Term, ...]:
    """What a cross-entropy over so many classes keeps for each token, whatever the precision of the model."""
    return (
        Term(LOG_PROBABILITIES, vocabulary, 4, "vocabulary, in float32", LOSS, "float32"),
        Term(LABELS, 1, 8, "one index", LOSS, INT64),
    )


def capped_term(vocabulary: int, itemsize: int, module: str) -> Term:
    """What soft-capping of the logits keeps: the tanh, in the model's own precision."""
    return Term(CAPPED_LOGITS, vocabulary, itemsize, "vocabulary, behind a tanh", module)


def indices_term(module: str) -> Term:
    """What an embedding keeps."""
    return Term(INDICES, 1, 8, "one index", module, INT64)


class OutsideLayers:
    """Reads the modules outside the layers of a recording that ran (all, where no span was recorded)."""

    def __init__(self, recording: Recording, tree: ModuleTree, itemsize: int, tokens: int) -> None:
        self.recording, self.tree = recording, tree
        self.itemsize, self.tokens = itemsize, tokens
        self.not_counted: set[str] = set()
        self.began = self._first_forwards()
        layers = recording.layers.module.tolist()
        self.inside = {row for layer in layers for row in tree.descendants(layer)}
        self.rows = [
            row for row in range(len(tree.paths))
            if row not in self.inside and not tree.children[row] and (not self.began or row in self.began)
        ]  # fmt: skip
        self.first_layer = min((self._order(row) for row in layers), default=0)

    def ahead(self) -> tuple[Term, ...]:
        """What is kept before the first layer runs."""
        return self._terms([row for row in self.rows if self._order(row) < self.first_layer], "")

    def behind(self) -> tuple[Term, ...]:
        """What is kept after it, and by the loss if there is a head over the vocabulary."""
        rows = [row for row in self.rows if self._order(row) >= self.first_layer]
        terms = self._terms(rows, "final ")
        vocabulary = self.vocabulary()
        return (*terms, *self._capped(vocabulary), *loss_terms(vocabulary)) if vocabulary else terms

    def _capped(self, vocabulary: int) -> list[Term]:
        """A tanh over the vocabulary, where one was saved."""
        table, strings = self.recording.saved_tensors, self.recording.strings
        for op, shape, module in zip(table.op.tolist(), table.shape.tolist(), table.module.tolist(), strict=True):
            wide = module not in self.inside and strings[shape].rpartition(",")[2] == str(vocabulary)
            if wide and words(strings[op]) == "tanh":
                return [capped_term(vocabulary, self.itemsize, self.tree.paths[module] if module >= 0 else LOSS)]
        return []

    def vocabulary(self) -> int:
        """Output width of the head: a Linear that puts out as many values as an embedding has rows; 0 for none."""
        every = [self.tree.parameters[row].get("weight", ((), ""))[0] for row in range(len(self.tree.paths))
                 if self._is_embedding(row)]  # fmt: skip
        embedded = {shape[0] for shape in every}
        widths = [widths[1] for row in self.rows if (widths := self.tree.linear(row)) is not None]
        return max((width for width in widths if width in embedded), default=0)

    def _first_forwards(self) -> dict[int, int]:
        """Row of each module that ran to the event at which it first did."""
        spans = self.recording.spans
        began: dict[int, int] = {}
        for place in np.flatnonzero((spans.phase == Phase.forward) & (spans.module != NONE)).tolist():
            row = int(spans.module[place])
            began[row] = min(began.get(row, place), place)
        return began

    def _order(self, row: int) -> int:
        return self.began.get(row, row) if self.began else row

    def _terms(self, rows: list[int], what: str) -> tuple[Term, ...]:
        return tuple(term for row in sorted(rows, key=self._order) for term in self._of(row, what))

    def _of(self, row: int, what: str) -> list[Term]:
        cls, name, path = self.tree.classes[row], self.tree.name(row), self.tree.paths[row]
        shape, _ = self.tree.parameters[row].get("weight", ((), ""))
        if self._is_embedding(row):
            return [] if _NOT_TOKENS.search(name) else self._seen(row, indices_term(path))
        if self.tree.is_norm(row) and len(shape) == 1:
            term = Term(f"{what}{_norm(name)} input", shape[0], self.itemsize, NORM_WIDTH, path)
            return self._seen(row, term)
        widths = self.tree.linear(row)
        if widths is not None:
            head = widths[1] == self.vocabulary()
            name = "head" if head else name
            return self._seen(row, Term(f"{name} input", widths[0], self.itemsize, "in_features", path), sure=head)
        if "Dropout" in cls:
            return self._mask(row, what)
        if self.tree.parameters[row]:
            self.not_counted.add(cls)
        return []

    def _mask(self, row: int, what: str) -> list[Term]:
        """What a dropout was seen to keep for each token."""
        table, strings = self.recording.saved_tensors, self.recording.strings
        for i in np.flatnonzero((table.module == row) & (table.known == NONE)).tolist():
            values = prod(int(n) for n in strings[int(table.shape[i])].split(",") if n.isdecimal())
            width, dtype = values // self.tokens, strings[int(table.dtype[i])]
            if width and values % self.tokens == 0:
                size = ITEMSIZE.get(dtype, 1)
                name, own = f"{what}{self.tree.name(row)} dropout mask", "bool" if size == 1 else ""
                return [Term(name, width, size, "width of what it drops", self.tree.paths[row], own)]
        return []

    def _is_embedding(self, row: int) -> bool:
        shape, _ = self.tree.parameters[row].get("weight", ((), ""))
        return "Embedding" in self.tree.classes[row] and len(shape) == 2

    def _seen(self, row: int, term: Term, sure: bool = True) -> list[Term]:
        """The term by the rows the module was seen to keep; without any seen those of the model's input, if the module
        is `sure` to have as many. A pooled row per sample is no row per token."""
        seen = self._kept_rows(row, term)
        if not seen or self.tokens in seen:
            return [term] if seen or sure else []
        found = scaled(LayerShape("", (term,)), seen.most_common(1)[0][0], self.tokens).terms
        return [] if found == (term,) else list(found)

    def _kept_rows(self, row: int, term: Term) -> Counter[int]:
        """How often this module kept a tensor of so many rows as wide as the term."""
        table, strings = self.recording.saved_tensors, self.recording.strings
        counted: Counter[int] = Counter()
        for i in np.flatnonzero(table.module == row).tolist():
            shape = [int(n) for n in strings[int(table.shape[i])].split(",") if n.isdecimal()]
            if term.dtype == INT64:
                wide = shape if strings[int(table.dtype[i])] == INT64 else []
            else:  # neither weights nor the model's inputs
                wide = shape[:-1] if shape[-1:] == [term.width] and table.known[i] == NONE else []
            if wide and 0 not in wide:
                counted[prod(wide)] += 1
        return counted


def _norm(name: str) -> str:
    return "norm" if "norm" in name.lower() or name.startswith("ln") else name
