"""The residual: measured activations minus predicted ones, at the peak of each, item by item. It closes exactly.

Every storage measured is matched with a predicted tensor or is an item with a plus; every predicted tensor is matched
or is an item with a minus. An item holds what has the same op, dtype and place in a layer; its parts tell the kinds of
layers apart, and its text says in plain words what it is.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from memstrata.capture.format.plan import ModelShape, Plan
from memstrata.capture.format.schema import NONE

from ..look.words import OUTSIDE_LAYERS
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .explain import Seen, explained, seen_in
from .matching import TWICE, Pair, Reason, match
from .places import Places
from .prediction import Part, Step, peak_step, schedule


@dataclass(frozen=True)
class ResidualPart:
    """The share of an item that lies in layers of one kind."""

    layer_kind: str
    """`DecoderLayer`, with what tells it from other kinds: `DecoderLayer (FullAttention)`; or `outside layers`."""
    layers: int
    """In how many layers; 0 outside them."""
    count: int
    """Storages, or predicted tensors that have none."""
    bytes: int

    @property
    def bytes_per_layer(self) -> float:
        """The mean over the layers it occurs in; outside layers all of it."""
        return self.bytes / max(self.layers, 1)


@dataclass(frozen=True)
class ResidualItem:
    """`bytes` measured beyond the prediction (negative: predicted and not found); `rows` are the allocations."""

    label: str
    bytes: int
    query: AllocationQuery
    rows: tuple[int, ...] = ()
    reason: Reason | None = None
    """None for the sum of several items."""
    op: str = ""
    """The autograd node behind them, in words; several, with commas, where they are views."""
    dtype: str = ""
    count: int = 0
    parts: tuple[ResidualPart, ...] = ()
    """One for each kind of layer, largest first; they sum to the item."""
    stack: int = NONE
    """Row of stacks of the largest allocation, -1 for none."""
    text: str = ""
    """One sentence in plain words."""


@dataclass(frozen=True)
class Matched:
    """Predicted tensors of one name with the storages found for them; `bytes` is what was measured."""

    label: str
    count: int
    bytes: int
    predicted_bytes: int
    query: AllocationQuery


@dataclass(frozen=True)
class Residual:
    """Measured minus predicted activations; `items` sum to it exactly, largest first."""

    measured_bytes: int
    predicted_bytes: int
    position: int
    items: tuple[ResidualItem, ...]
    matched: tuple[Matched, ...] = ()

    @property
    def bytes(self) -> int:
        """Measured minus predicted."""
        return self.measured_bytes - self.predicted_bytes

    @property
    def matched_bytes(self) -> int:
        """Measured bytes of all storages that a predicted tensor explains."""
        return sum(matched.bytes for matched in self.matched)

    @property
    def unpredicted_bytes(self) -> int:
        """Measured bytes that no predicted tensor explains."""
        return self._sum(Reason.unpredicted)

    @property
    def absent_bytes(self) -> int:
        """Predicted bytes for which no storage was found, as a positive number."""
        return -self._sum(*(reason for reason in Reason if reason not in _FOUND))

    @property
    def other_dtype_bytes(self) -> int:
        """What matched storages hold more than was predicted, because they are in another precision."""
        return self._sum(Reason.other_dtype)

    def _sum(self, *reasons: Reason) -> int:
        return sum(item.bytes for item in self.items if item.reason in reasons)

    def largest(self, count: int) -> tuple[ResidualItem, ...]:
        """The `count` largest items and, if there are more, one called `other`; still closing exactly."""
        if len(self.items) <= count + 1:
            return self.items
        rest = self.items[count:]
        rows = tuple(row for item in rest for row in item.rows)
        query = AllocationQuery(position=self.position, categories=ACTIVATIONS, rows=rows)
        number = sum(item.count for item in rest)
        other = ResidualItem("other", sum(item.bytes for item in rest), query, rows, count=number)
        return (*self.items[:count], other)


_FOUND = frozenset((Reason.matched, Reason.other_dtype, Reason.unpredicted))


def residual(run: Run, shape: ModelShape, plan: Plan) -> Residual:
    """The residual of this run's activation peak against the predicted peak of this shape under this plan."""
    position = int(run.activation_curve.argmax())
    steps = schedule(shape, plan)
    alive = _alive(steps[: peak_step(steps)])
    pairs = match(run, shape, plan, position, alive)
    items = _Items(run, shape, position).of(pairs)
    return Residual(
        measured_bytes=int(run.activation_curve[position]),
        predicted_bytes=sum(step.bytes for step in alive),
        position=position,
        items=tuple(sorted((item for item in items if item.bytes), key=lambda item: (-abs(item.bytes), -item.bytes))),
        matched=_matched(pairs, position),
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


def _matched(pairs: list[Pair], position: int) -> tuple[Matched, ...]:
    groups: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.step is not None and pair.kept is not None:
            groups[_term_name(pair.step)].append(pair)
    found = []
    for label, group in groups.items():
        kept = [pair.kept for pair in group if pair.kept is not None]
        rows = tuple(row for one in kept for row in one.rows)
        query = AllocationQuery(position=position, categories=ACTIVATIONS, rows=rows)
        predicted = sum(pair.step.bytes for pair in group if pair.step is not None)
        found.append(Matched(label, len(rows), sum(one.bytes for one in kept), predicted, query))
    return tuple(sorted(found, key=lambda matched: -matched.bytes))


def _term_name(step: Step) -> str:
    return "segment input" if step.part is Part.boundary else step.term.name


class _Items:
    """Pairs that are no plain match, grouped."""

    def __init__(self, run: Run, shape: ModelShape, position: int) -> None:
        self.run, self.position = run, position
        self.shape = shape
        self.places = Places(run)
        self.dtype = run.recording.meta.dtype or ""

    def of(self, pairs: list[Pair]) -> list[ResidualItem]:
        groups: dict[str, list[Pair]] = defaultdict(list)
        for pair in pairs:
            if pair.reason is not Reason.matched:
                groups[self._label(pair)].append(pair)
        seen = seen_in(pairs)
        return [self._item(label, group, seen) for label, group in groups.items()]

    def _item(self, label: str, group: list[Pair], seen: Seen) -> ResidualItem:
        kept = [pair.kept for pair in group if pair.kept is not None]
        rows = tuple(row for one in kept for row in one.rows)
        first = max(kept, key=lambda one: one.bytes, default=None)
        parts = self._parts(group)
        return ResidualItem(
            label=label,
            bytes=sum(pair.bytes for pair in group),
            query=self._query(group, rows),
            rows=rows,
            reason=group[0].reason,
            op=", ".join(sorted({one.op for one in kept} - {""})),
            dtype=first.dtype if first else _dtype(group, self.dtype),
            count=len(rows) or len(group),
            parts=parts,
            stack=first.stack if first else NONE,
            text=explained(group, self.places, self.dtype, seen),
        )

    def _parts(self, group: list[Pair]) -> tuple[ResidualPart, ...]:
        of_kind: dict[str, list[Pair]] = defaultdict(list)
        for pair in group:
            layer = layer_of(pair)
            of_kind[OUTSIDE_LAYERS if layer < 0 else self.places.kind_names[layer]].append(pair)
        parts = [
            ResidualPart(
                layer_kind=kind,
                layers=len({layer_of(pair) for pair in own} - {NONE}),
                count=sum(len(pair.kept.rows) if pair.kept else 1 for pair in own),
                bytes=sum(pair.bytes for pair in own),
            )
            for kind, own in of_kind.items()
        ]
        return tuple(sorted(parts, key=lambda part: -abs(part.bytes)))

    def _query(self, group: list[Pair], rows: tuple[int, ...]) -> AllocationQuery:
        """The allocations themselves; of what was not found, what is alive in the modules that should keep it."""
        if rows:
            return AllocationQuery(position=self.position, categories=ACTIVATIONS, rows=rows)
        modules = frozenset(self.places.row_of.get(pair.step.term.module, NONE) for pair in group if pair.step)
        return AllocationQuery(position=self.position, categories=ACTIVATIONS, modules=modules)

    def _label(self, pair: Pair) -> str:
        if pair.kept is None:
            assert pair.step is not None
            return _absent(_term_name(pair.step), pair.reason)
        place = self.places.role(pair.kept.layer, pair.kept.module)
        if pair.step is not None:
            return f"{pair.kept.dtype} instead of {pair.step.term.dtype or self.dtype} in {place}"
        other = pair.kept.dtype and self.dtype and pair.kept.dtype != self.dtype
        what = self.places.what(pair.kept)
        return f"{pair.kept.dtype} {what} in {place}" if other else f"{what} in {place}"


def _dtype(group: list[Pair], own: str) -> str:
    return next((pair.step.term.dtype for pair in group if pair.step and pair.step.term.dtype), own)


def _absent(name: str, reason: Reason) -> str:
    return f"{name} (counted twice)" if reason in TWICE else f"{name} ({_SHORT[reason]})"


_SHORT = {
    Reason.absent: "predicted only",
    Reason.model_input: "the model's input",
    Reason.handed_on: "kept by nothing behind the layers",
}


def layer_of(pair: Pair) -> int:
    """The layer it is in, -1 outside layers."""
    if pair.kept is not None:
        return pair.kept.layer
    return pair.step.layer if pair.step is not None else NONE
