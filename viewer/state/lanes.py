"""Lanes: bytes over positions of one super-block or layer, cut by category, with what was predicted for it. Pure numpy.

A lane keeps only the positions at which it changes, so that all lanes together are as large as the allocations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from memstrata.capture.format.plan import Plan
from memstrata.capture.format.schema import B1, I64, NONE, Category, Phase

from ..analysis.predicted_curve import PredictedCurve, PredictedSteps, predicted_steps
from ..look.words import OUTSIDE_LAYERS
from ..model import query as model_query
from ..model.allocations import Allocations
from ..model.curves import at_positions
from ..model.query import AllocationQuery
from ..model.run import Run
from .view_state import Segments

ACTIVATIONS = tuple(sorted(model_query.ACTIVATIONS))
"""In the order in which their bands lie."""
"""What checkpointing moves, and what a prediction can be held against."""

CONTENTS: dict[str, tuple[str, tuple[Category, ...]]] = {
    "activations": ("activations", ACTIVATIONS),
    "all": ("everything", tuple(Category)),
}
"""What lanes can show: (title, categories) by key."""


@dataclass(frozen=True, eq=False)
class Lane:
    """`layers` are rows of the layer tree, empty for what lies outside of all."""

    name: str
    layers: tuple[int, ...]
    super_block: int
    categories: tuple[Category, ...]
    index: I64
    """Which rows of the run's allocations these are."""
    rows: Allocations
    labels: I64
    """For each row its place in `categories`."""

    @cached_property
    def positions(self) -> I64:
        """Where the lane changes, rising; the first is 0."""
        return self._steps[0]

    @cached_property
    def totals(self) -> I64:
        """Bytes from `positions[i]` on."""
        return self._steps[1]

    @cached_property
    def _steps(self) -> tuple[I64, I64]:
        edges = np.concatenate(([0], self.rows.start, self.rows.end))
        deltas = np.concatenate(([0], self.rows.bytes, -self.rows.bytes))
        positions, where = np.unique(edges, return_inverse=True)
        sums = np.zeros(len(positions), np.int64)
        np.add.at(sums, where, deltas)
        return positions, np.cumsum(sums)

    @property
    def bytes(self) -> int:
        """Of all allocations of the lane, whenever they live."""
        return int(self.rows.bytes.sum())

    def restricted(self, mask: B1) -> Lane:
        """The lane of those allocations that a mask over the run's allocations leaves."""
        kept = np.flatnonzero(mask[self.index])
        return replace(self, index=self.index[kept], rows=self.rows.take(kept), labels=self.labels[kept])

    @property
    def highest(self) -> int:
        """The most bytes it ever holds."""
        return int(self.totals.max(initial=0))

    def total_at(self, position: int) -> int:
        """Bytes at a position."""
        return int(self.totals[np.searchsorted(self.positions, position, "right") - 1])

    def bytes_at(self, positions: I64) -> I64:
        """Exact bytes of each category; shape [categories, positions]."""
        return at_positions(self.rows, self.labels, len(self.categories), positions)

    def peaks(self, begin: I64, end: I64) -> I64:
        """The position with the most bytes of this lane in each closed interval of positions."""
        first = np.searchsorted(self.positions, begin, "right") - 1
        last = np.searchsorted(self.positions, end, "right") - 1
        spans = zip(first.tolist(), last.tolist())
        best = [a if a == b else a + int(self.totals[a : b + 1].argmax()) for a, b in spans]
        return np.maximum(self.positions[np.array(best, np.int64)], begin)

    @property
    def query(self) -> AllocationQuery:
        """The allocations of the lane."""
        categories = frozenset(self.categories) if len(self.categories) < len(Category) else None
        if len(self.layers) == 1:
            return AllocationQuery(layer=self.layers[0], categories=categories)
        return AllocationQuery(super_block=self.super_block, categories=categories)


@dataclass(eq=False)
class Lanes:
    """One lane for each super-block and, last, for what lies outside layers; `inner[i]` are the layers of lane i."""

    run: Run
    outer: tuple[Lane, ...]
    inner: tuple[tuple[Lane, ...], ...]
    _tried: tuple[Segments, PredictedSteps | None] | None = None
    """The plan tried last, laid over the run: the slider asks for every lane of it."""
    _mask: B1 | None = None
    _shown: dict[Lane, Lane] = field(default_factory=dict)

    def restrict(self, mask: B1 | None) -> None:
        """Show only what this mask over the run's allocations leaves; None shows everything."""
        self._mask, self._shown = mask, {}

    @property
    def is_restricted(self) -> bool:
        """Whether only a part is shown."""
        return self._mask is not None

    @property
    def all(self) -> list[Lane]:
        """Outer and inner ones."""
        return [*self.outer, *(lane for lanes in self.inner for lane in lanes)]

    def shown(self, lane: Lane) -> Lane:
        """What is shown of a lane; worked out when it is first asked for."""
        if self._mask is None:
            return lane
        if lane not in self._shown:
            self._shown[lane] = lane.restricted(self._mask)
        return self._shown[lane]

    @cached_property
    def scales(self) -> tuple[int, int]:
        """Bytes that fill the height of an outer and of an inner lane; the same for all of a kind, predictions in."""
        outer = [*(lane.highest for lane in self.outer), *(_peak(self.predicted(lane)) for lane in self.outer)]
        inner = [lane.highest for lanes in self.inner for lane in lanes]
        return max(max(outer, default=0), 1), max(max(inner, default=0), 1)

    def predicted(self, lane: Lane) -> PredictedCurve | None:
        """What shapes alone say for this lane; None where they say nothing, or where more than activations is shown."""
        if lane.categories != ACTIVATIONS:
            return None  # like is compared with like
        return self.run.once(predicted_of, lane.layers)

    def tried(self, lane: Lane, plan: Segments | None) -> PredictedCurve | None:
        """The same for a plan that is tried; None without one."""
        if plan is None or lane.categories != ACTIVATIONS:
            return None
        if self._tried is None or self._tried[0] != plan:
            self._tried = (plan, predicted_steps(self.run, None, Plan(plan)))
        return _share(self._tried[1], lane.layers)

    def phases(self, lane: Lane) -> list[tuple[Phase, int, int]]:
        """(phase, first position, last position) of each pass of a layer of the lane."""
        spans = self.run.spans
        mine = np.isin(spans.layer, lane.layers) & (spans.module == _layer_modules(self.run)[spans.layer])
        rows = np.flatnonzero(mine)
        return [(Phase(int(spans.phase[r])), int(spans.start_position[r]), int(spans.end_position[r])) for r in rows]


def lanes_of(run: Run, categories: Sequence[Category] = ACTIVATIONS) -> Lanes:
    """The lanes of a run, of the allocations in these categories."""
    layer = run.attribution.layer
    place = np.full(len(Category), NONE, np.int64)
    place[list(categories)] = np.arange(len(categories))
    labels = place[run.attribution.category]
    shown = labels >= 0

    def lane(name: str, layers: tuple[int, ...], block: int) -> Lane:
        mine = shown & (np.isin(layer, layers) if layers else layer == NONE)
        return _lane(run, name, layers, block, tuple(categories), mine, labels)

    outer, inner = [], []
    for number, block in enumerate(run.layers.super_blocks):
        members = tuple(range(block.start, block.stop))
        outer.append(lane(block.name, members, number))
        inner.append(tuple(lane(run.layers.labels[i], (i,), number) for i in members) if len(members) > 1 else ())
    rest = lane(OUTSIDE_LAYERS, (), NONE)
    return Lanes(run, (*outer, rest), (*inner, ()))


def _lane(
    run: Run, name: str, layers: tuple[int, ...], block: int, categories: tuple[Category, ...], mine: B1, labels: I64
) -> Lane:
    rows = np.flatnonzero(mine)
    return Lane(name, layers, block, categories, rows, run.allocations.take(rows), labels[rows])


def predicted_of(run: Run, layers: tuple[int, ...]) -> PredictedCurve | None:
    """What shapes say of these layers, or where there are none of what lies outside all, under the plan in force; ask
    through `run.once`. None where they say nothing."""
    return _share(run.once(predicted_steps), layers)


def _share(steps: PredictedSteps | None, layers: tuple[int, ...]) -> PredictedCurve | None:
    mine = layers or (NONE,)
    return steps.curve(mine) if steps is not None and np.isin(mine, steps.layer).any() else None


def _peak(curve: PredictedCurve | None) -> int:
    return curve.peak_bytes if curve is not None else 0


def _layer_modules(run: Run) -> I64:
    """Module row of each layer; one more, never met, for -1."""
    return np.append(run.layers.modules, -2).astype(np.int64)
