"""The residual: measured activations minus predicted ones, at the peak of each, item by item. It closes exactly.

Each predicted tensor is matched with a measured one of the same size in the module that keeps it. What is measured
and matched by nothing is an item with a plus, what is predicted and not found an item with a minus.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from memstrata.capture.format.plan import ModelShape, Plan, covers
from memstrata.capture.format.schema import Category

from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .module_tree import ITEMSIZE, ModuleTree
from .prediction import Part, Step, peak_step, schedule

_VIEWS = frozenset(
    ("view", "unsafe view", "reshape alias", "transpose", "permute", "expand", "t", "slice", "select", "split")
    + ("unbind", "unsqueeze", "squeeze", "as strided", "alias", "clone", "to copy")
)


@dataclass(frozen=True)
class ResidualItem:
    """`bytes` measured beyond the prediction (negative: predicted and not found); `rows` are the allocations."""

    label: str
    bytes: int
    query: AllocationQuery
    rows: tuple[int, ...] = ()


@dataclass(frozen=True)
class Residual:
    """Measured minus predicted activations; `items` sum to it exactly, largest first."""

    measured_bytes: int
    predicted_bytes: int
    position: int
    items: tuple[ResidualItem, ...]

    @property
    def bytes(self) -> int:
        """Measured minus predicted."""
        return self.measured_bytes - self.predicted_bytes

    def largest(self, count: int) -> tuple[ResidualItem, ...]:
        """The `count` largest items and, if there are more, one called `other`; still closing exactly."""
        if len(self.items) <= count + 1:
            return self.items
        rest = self.items[count:]
        rows = tuple(row for item in rest for row in item.rows)
        other = ResidualItem("other", sum(item.bytes for item in rest), rest[0].query, rows)
        return (*self.items[:count], other)


def residual(run: Run, shape: ModelShape, plan: Plan) -> Residual:
    """The residual of this run's activation peak against the predicted peak of this shape under this plan."""
    position = int(run.activation_curve.argmax())
    steps = schedule(shape, plan)
    alive = _alive(steps[: peak_step(steps)])
    matching = _Matching(run, shape, plan, position)
    matching.match(alive)
    query = AllocationQuery(position=position, categories=ACTIVATIONS)
    items = [ResidualItem(label, sum(sizes), query, tuple(rows)) for label, (sizes, rows) in matching.items().items()]
    return Residual(
        measured_bytes=int(run.activation_curve[position]),
        predicted_bytes=sum(step.bytes for step in alive),
        position=position,
        items=tuple(sorted((item for item in items if item.bytes), key=lambda item: -abs(item.bytes))),
    )


def _alive(steps: tuple[Step, ...]) -> list[Step]:
    """The steps that added what has not been given back yet."""
    open_steps: dict[tuple[Part, int, int], Step] = {}
    for step in steps:
        key = (step.part, step.layer, id(step.term))
        if step.bytes > 0:
            open_steps[key] = step
        else:
            open_steps.pop(key, None)
    return list(open_steps.values())


def _words(op: str) -> str:
    """`log softmax` for the autograd node LogSoftmaxBackward0."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", re.sub(r"Backward\d*$", "", op)).lower()


@dataclass
class _Measured:
    row: int
    layer: int
    module: str
    bytes: int
    values: int
    """Bytes / itemsize of its dtype; 0 unknown."""
    op: str
    dtype: str
    boundary: bool
    """Kept although a segment covers it, or kept outside layers: it can be the input of a segment."""


@dataclass
class _Matching:
    run: Run
    shape: ModelShape
    plan: Plan
    position: int
    found: dict[str, tuple[list[int], list[int]]] = field(default_factory=lambda: defaultdict(lambda: ([], [])))

    def __post_init__(self) -> None:
        self.tree = ModuleTree(self.run.recording)
        self.classes = dict(zip(self.tree.paths, self.tree.classes, strict=True))
        self.mixed: dict[str, bool] = {}  # by place inside a layer: whether layers differ there
        self.dtype = self.run.recording.meta.dtype or ""
        mask = AllocationQuery(position=self.position, categories=ACTIVATIONS).mask(self.run)
        self.pool: dict[int, list[_Measured]] = defaultdict(list)
        for row in np.flatnonzero(mask).tolist():
            measured = self._measured(row)
            self.pool[measured.layer].append(measured)
        for pool in self.pool.values():  # what a projection puts out is a view of a matrix product
            pool.sort(key=lambda measured: _words(measured.op) not in _VIEWS)

    def _measured(self, row: int) -> _Measured:
        recording, attribution = self.run.recording, self.run.attribution
        module, layer = int(attribution.module[row]), int(attribution.layer[row])
        path = self.tree.paths[module] if module >= 0 else ""
        size, saved = int(self.run.allocations.bytes[row]), int(attribution.saved[row])
        table, strings = recording.saved_tensors, recording.strings
        dtype = strings[int(table.dtype[saved])] if saved >= 0 else ""
        op = strings[int(table.op[saved])] if saved >= 0 else ""
        values = size // ITEMSIZE[dtype] if dtype in ITEMSIZE else 0
        kept = bool(self.plan.segments and attribution.category[row] == Category.activation)
        boundary = kept and (layer < 0 or self._touches_segment(path))
        return _Measured(row, layer, path, size, values, op, dtype, boundary)

    def _touches_segment(self, path: str) -> bool:
        """Inside a segment, or what calls one."""
        if self.plan.segment_of(path) >= 0:
            return True
        return any(covers(path, inside) for paths in self.plan.segments for inside in paths)

    def match(self, steps: list[Step]) -> None:
        """Take a measured tensor out of the pool for each predicted one."""
        rest = [step for step in steps if not self._take(step, same_bytes=True)]
        rest = [step for step in rest if not self._take(step, same_bytes=False)]
        for step in rest:
            self._item(f"{self._term_name(step)} (predicted only)", -step.bytes, None)
        for pool in self.pool.values():
            for measured in pool:
                self._item(self._name(measured), measured.bytes, measured.row)

    def _take(self, step: Step, same_bytes: bool) -> bool:
        places = (step.layer, -1) if step.part is Part.boundary else (step.layer,)
        for fits in (self._exactly, self._inside, self._around):
            for place in places:
                for measured in self.pool[place]:
                    if fits(step, measured) and self._same_size(step, measured, same_bytes):
                        self.pool[place].remove(measured)
                        if measured.bytes != step.bytes:
                            label = f"{measured.dtype} instead of {self.dtype} in {self._role(measured)}"
                            self._item(label, measured.bytes - step.bytes, measured.row)
                        return True
        return False

    @staticmethod
    def _same_size(step: Step, measured: _Measured, same_bytes: bool) -> bool:
        return measured.bytes == step.bytes if same_bytes else measured.values == step.bytes // step.term.itemsize

    def _exactly(self, step: Step, measured: _Measured) -> bool:
        return measured.boundary if step.part is Part.boundary else measured.module == step.term.module

    def _inside(self, step: Step, measured: _Measured) -> bool:
        layer = self.shape.names[step.layer]
        return (
            step.part is not Part.boundary and step.term.module != layer and covers(step.term.module, measured.module)
        )

    def _around(self, step: Step, measured: _Measured) -> bool:
        """Kept by a module further out, because the inner one's hooks never fired."""
        return step.part is not Part.boundary and bool(measured.module) and covers(measured.module, step.term.module)

    def _item(self, label: str, size: int, row: int | None) -> None:
        sizes, rows = self.found[label]
        sizes.append(size)
        rows += [] if row is None else [row]

    def items(self) -> dict[str, tuple[list[int], list[int]]]:
        """Label to (bytes, rows)."""
        return dict(self.found)

    def _term_name(self, step: Step) -> str:
        return "segment input" if step.part is Part.boundary else step.term.name

    def _name(self, measured: _Measured) -> str:
        role = self._role(measured)
        words = _words(measured.op)
        what = "tensors" if not words or words in _VIEWS else f"{words} outputs"
        other = measured.dtype and self.dtype and measured.dtype != self.dtype
        return f"{measured.dtype} {what} in {role}" if other else f"{what} in {role}"

    def _role(self, measured: _Measured) -> str:
        """`mlp`: the place inside its layer; with the class where layers have different ones there."""
        if measured.layer < 0:
            return f"{measured.module} (outside layers)" if measured.module else "the rest of the step"
        name = self.run.layers.names[measured.layer]
        inside = measured.module[len(name) + 1 :] if covers(name, measured.module) else ""
        if not inside:
            kinds = self.run.layers.kinds
            alone = kinds.count(kinds[measured.layer]) == 1
            return self.run.layers.labels[measured.layer] if alone else "the layer itself"
        if inside not in self.mixed:
            paths = (f"{layer}.{inside}" for layer in self.run.layers.names)
            self.mixed[inside] = len({self.classes[path] for path in paths if path in self.classes}) > 1
        unspoken = inside.rpartition(".")[2].isdecimal()  # the number of a module in a list says little
        return f"{inside} ({self.classes[measured.module]})" if self.mixed[inside] or unspoken else inside
