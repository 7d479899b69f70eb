"""Where in the model a tensor is kept, in words that are the same for every layer."""

from __future__ import annotations

from functools import cached_property

from memstrata.capture.format.plan import covers

from ..model.run import Run
from .kept import Kept, are_scores
from .matching import VIEWS
from .module_tree import ModuleTree


class Places:
    """Names places of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.tree = ModuleTree(run.recording)
        self.classes = dict(zip(self.tree.paths, self.tree.classes, strict=True))
        self.row_of = {path: row for row, path in enumerate(self.tree.paths)}
        self._mixed: dict[str, bool] = {}  # by place inside a layer: whether layers differ there

    def class_of(self, module: str) -> str:
        """The class of the module at this path; empty where there is none."""
        return self.classes.get(module, "")

    def is_norm(self, module: str) -> bool:
        """Whether a norm is there."""
        return module in self.row_of and bool(module) and self.tree.is_norm(self.row_of[module])

    @cached_property
    def kind_names(self) -> tuple[str, ...]:
        """For each layer its class and, where layers of that class differ, the classes of the children that do."""
        rows = self.run.layers.modules.tolist()
        inner = [[self.tree.classes[child] for child in self.tree.children[row]] for row in rows]
        names = [self.tree.classes[row] for row in rows]
        out = []
        for name, own in zip(names, inner, strict=True):
            others = [set(classes) for other, classes in zip(names, inner, strict=True) if other == name]
            different = [cls for cls in dict.fromkeys(own) if not all(cls in classes for classes in others)]
            out.append(f"{name} ({', '.join(different)})" if different else name)
        return tuple(out)

    def is_scores(self, kept: Kept) -> bool:
        """Whether it lies in a layer and is sequence x sequence, for several heads."""
        return kept.layer >= 0 and are_scores(kept.op, kept.shape, self.run.recording.meta)

    def is_square(self, kept: Kept) -> bool:
        """Whether it is sequence x sequence, for several heads or for all."""
        length = self.run.recording.meta.sequence or 0
        return kept.layer >= 0 and length > 1 and kept.shape[-2:] == (length, length)

    def is_table(self, kept: Kept) -> bool:
        """Whether attention keeps it, no operator made it, and it has a row for each position: rotary angles say."""
        length = self.run.recording.meta.sequence or 0
        inside = kept.layer >= 0 and not kept.op and "ttention" in self.class_of(kept.module)
        return inside and length > 1 and kept.shape[-2:-1] == (length,) and not self.is_square(kept)

    def what(self, kept: Kept) -> str:
        """`silu outputs`; where no op says more, `tensors`, or that they are sequence x sequence."""
        if kept.op and kept.op not in VIEWS:
            return f"{kept.op} outputs"
        tensors = "T x T tensors" if self.is_square(kept) else "tables" if self.is_table(kept) else "tensors"
        return tensors if kept.op else f"{tensors} without grad_fn"

    def role(self, layer: int, module: str) -> str:
        """`mlp`: the place inside its layer; with the class where layers have different ones there."""
        if layer < 0:
            return f"{module} (outside layers)" if module else "the rest of the step"
        name = self.run.layers.names[layer]
        inside = module[len(name) + 1 :] if covers(name, module) else ""
        if not inside:
            kinds = self.run.layers.kinds
            alone = kinds.count(kinds[layer]) == 1
            return self.run.layers.labels[layer] if alone else "the layer itself"
        if inside not in self._mixed:
            paths = (f"{name}.{inside}" for name in self.run.layers.names)
            self._mixed[inside] = len({self.classes[path] for path in paths if path in self.classes}) > 1
        unspoken = inside.rpartition(".")[2].isdecimal()  # the number of a module in a list says little
        return f"{inside} ({self.classes[module]})" if self._mixed[inside] or unspoken else inside
