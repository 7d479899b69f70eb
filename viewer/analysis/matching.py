"""Each predicted tensor matched with a measured one, and a reason for each that has no match.

A predicted tensor takes a measured one of its size in the module that keeps it, then in a module inside or around that
one; first of the same bytes, then of as many values in another dtype. What is left over on either side is a `Pair`
with one half missing, so that the pairs always sum to measured minus predicted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum

import numpy as np

from memstrata.capture.format.plan import ModelShape, Plan, covers
from memstrata.capture.format.schema import NONE, StorageKind

from ..model.run import Run
from .kept import Kept, KeptReader
from .module_tree import ModuleTree
from .outside_layers import INT64
from .prediction import Part, Step

VIEWS = frozenset(
    ("view", "unsafe view", "reshape alias", "transpose", "permute", "expand", "t", "slice", "select", "split")
    + ("unbind", "unsqueeze", "squeeze", "as strided", "alias", "clone", "to copy")
)


PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm", "linear"))
"""What a projection puts out is one of these, or a view of one."""
OWN_OUTPUT = frozenset(("relu", "sigmoid", "tanh", "leaky relu", "elu"))
"""Functions whose output is no projection's: at most what goes into the next one."""


class Reason(Enum):
    """What a pair says."""

    matched = "as predicted"
    other_dtype = "in another precision"
    unpredicted = "measured only"
    next_input = "counted twice: it is the input of what comes next"
    running_input = "counted twice: it is in the running segment too"
    model_input = "is the model's input, which is no activation"
    handed_on = "what the last layer puts out, which nothing behind the layers keeps"
    absent = "predicted only"


TWICE = frozenset((Reason.next_input, Reason.running_input))
"""Predicted twice, kept once."""


@dataclass(frozen=True)
class Pair:
    """A predicted step, the storage that was found for it, or both."""

    step: Step | None
    kept: Kept | None
    reason: Reason

    @property
    def bytes(self) -> int:
        """Measured minus predicted."""
        return (self.kept.bytes if self.kept else 0) - (self.step.bytes if self.step else 0)


def match(run: Run, shape: ModelShape, plan: Plan, position: int, steps: list[Step]) -> list[Pair]:
    """A pair for each of these steps, and for each storage kept at this position that none of them explains."""
    return _Matching(run, shape, plan, position).match(steps)


def _can_be(step: Step, kept: Kept) -> bool:
    """A projection's output is not what an activation function put out; indices are matched by indices only."""
    if INT64 in (step.term.dtype, kept.dtype):
        return step.term.dtype == kept.dtype
    return not (step.term.formula.startswith("width of ") and kept.op in OWN_OUTPUT)


class _Matching:
    def __init__(self, run: Run, shape: ModelShape, plan: Plan, position: int) -> None:
        self.run, self.shape, self.plan = run, shape, plan
        self.tree = ModuleTree(run.recording)
        self.pool: dict[int, list[Kept]] = defaultdict(list)
        for kept in KeptReader(run, shape, plan, self.tree).at(position):
            self.pool[kept.layer].append(kept)
        for pool in self.pool.values():  # projections first: most terms are what one puts out
            pool.sort(key=lambda kept: kept.op not in VIEWS | PRODUCTS)
        self.pairs: list[Pair] = []
        self.read_behind: set[int] = set()
        """Sizes of what the modules behind the layers were found to keep: the last layer's output among them."""

    def match(self, steps: list[Step]) -> list[Pair]:
        rest = [step for step in steps if not self._take(step, same_bytes=True)]
        rest = [step for step in rest if not self._take(step, same_bytes=False)]
        rest = [step for step in rest if not self._take_outside(step)]
        missed = {id(step) for step in rest}
        self.read_behind |= {step.bytes for step in steps if step.term in self.shape.behind and id(step) not in missed}
        twice = {step.layer for step in steps if step.part is Part.boundary}
        twice &= {step.layer for step in steps if step.part is Part.rematerialized}
        found = {(step.part, step.layer) for step in steps if id(step) not in missed and self._is_first(step)}
        self.pairs += [Pair(step, None, self._why(step, twice, found)) for step in rest]
        self.pairs += [Pair(None, kept, Reason.unpredicted) for pool in self.pool.values() for kept in pool]
        return self.pairs

    def _take(self, step: Step, same_bytes: bool) -> bool:
        places = (step.layer, NONE) if step.part is Part.boundary else (step.layer,)
        for fits in (self._exactly, self._inside, self._around):
            for place in places:
                for kept in self.pool[place]:
                    if fits(step, kept) and self._same_size(step, kept, same_bytes) and _can_be(step, kept):
                        return self._found(step, kept)
        return False

    def _take_outside(self, step: Step) -> bool:
        """What a layer puts out, kept by the module that follows the layers."""
        if not self._is_output(step):
            return False
        for kept in self.pool[NONE]:
            if kept.born == step.layer and kept.bytes == step.bytes and kept.op not in VIEWS:
                return self._found(step, kept)
        return False

    def _found(self, step: Step, kept: Kept) -> bool:
        self.pool[kept.layer].remove(kept)
        self.pairs.append(Pair(step, kept, Reason.matched if kept.bytes == step.bytes else Reason.other_dtype))
        return True

    @staticmethod
    def _same_size(step: Step, kept: Kept, same_bytes: bool) -> bool:
        return kept.bytes == step.bytes if same_bytes else kept.values == step.bytes // step.term.itemsize

    def _exactly(self, step: Step, kept: Kept) -> bool:
        return kept.boundary if step.part is Part.boundary else kept.module == step.term.module

    def _inside(self, step: Step, kept: Kept) -> bool:
        if step.layer == NONE:
            return False
        if step.part is Part.boundary:
            return False
        if kept.op in OWN_OUTPUT and step.term.name.endswith(" input"):  # what a ReLU puts out is what comes next
            return True
        projected = step.term.formula.startswith("width of ")
        within = projected or step.term.module != self.shape.names[step.layer]
        return within and covers(step.term.module, kept.module)

    def _around(self, step: Step, kept: Kept) -> bool:
        """Kept by a module further out, because the inner one's hooks never fired."""
        return step.part is not Part.boundary and bool(kept.module) and covers(kept.module, step.term.module)

    def _is_output(self, step: Step) -> bool:
        if step.layer == NONE:
            return False
        terms = self.shape.layers[step.layer].terms
        return step.part is not Part.boundary and len(terms) > 1 and step.term is terms[-1] and self._closes(step)

    def _closes(self, step: Step) -> bool:
        return step.term.module == self.shape.names[step.layer]

    def _is_first(self, step: Step) -> bool:
        """The tensor a layer starts from: as its first term, or as a segment's boundary."""
        if step.layer == NONE:
            return False
        return step.term in self.shape.layers[step.layer].terms[:1]

    def _why(self, step: Step, twice: set[int], found: set[tuple[Part, int]]) -> Reason:
        """`twice`: layers whose first tensor is predicted as boundary and as made again; `found`: first tensors that
        were matched."""
        if step.layer == NONE:
            return Reason.model_input if self._is_model_input(step) else Reason.absent
        if self._is_output(step):
            last = step.layer + 1 == len(self.shape.layers) or self._list(step.layer) != self._list(step.layer + 1)
            return Reason.next_input if not last or step.bytes in self.read_behind else Reason.handed_on
        if not self._is_first(step):
            return Reason.absent
        other = Part.rematerialized if step.part is Part.boundary else Part.boundary
        if step.layer in twice and ((other, step.layer) in found or step.part is Part.rematerialized):
            return Reason.running_input
        return Reason.model_input if self._is_model_input(step) else Reason.absent

    def _list(self, layer: int) -> int:
        return int(self.run.recording.layers.list[layer])

    def _is_model_input(self, step: Step) -> bool:
        """Whether the layer packed a tensor of this size that is an input of the model; outside layers the module that
        is to keep it, or the loss."""
        recording = self.run.recording
        table, known = recording.saved_tensors, recording.known_storages
        rows = np.flatnonzero((table.known != NONE) & (table.tensor_bytes == step.bytes))
        path = step.term.module if step.layer == NONE else self.shape.names[step.layer]
        modules = [(row, int(table.module[row])) for row in rows.tolist()]
        packed = [row for row, module in modules if self._at(path, module)]
        return any(known.kind[table.known[row]] == StorageKind.input for row in packed)

    def _at(self, path: str, module: int) -> bool:
        if module == NONE or not path:  # the loss is no module, or computed by the whole model's own code
            return not path and (module == NONE or not self.tree.paths[module])
        return covers(path, self.tree.paths[module])
