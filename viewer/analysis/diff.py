"""Two runs compared by structure, not by time. A new object; both runs stay whole.

A difference is what b has more than a. A saving is what b needs less than a.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memstrata.capture.format.plan import ModelShape
from memstrata.capture.format.problems import Problem
from memstrata.capture.format.schema import I64, NONE, Category

from ..look.words import OUTSIDE_LAYERS
from ..model.curves import live_bytes
from ..model.peaks import Peaks
from ..model.query import AllocationQuery
from ..model.run import Run
from .at_peaks import alive_at_peak, groups_at_peak
from .changes import Change, changes
from .planned_before import PlannedBefore, planned_before
from .prediction import Prediction, predict
from .residual import Residual, residual
from .shape import plan_in_force, shape_of
from .structure import Measured, Slot, merged_order, slots
from .warnings import warnings_of

_INFERRED = {
    (False, False): "",
    (True, True): " (inferred)",
    (True, False): " (inferred in A)",
    (False, True): " (inferred in B)",
}
"""What a category's label says of (a, b)."""


@dataclass(frozen=True)
class DiffRow:
    """Bytes of one group in both runs, each at its own peak, with the allocations behind them."""

    label: str
    a_bytes: int
    b_bytes: int
    a_query: AllocationQuery | None
    b_query: AllocationQuery | None
    inferred: tuple[bool, bool] = (False, False)
    """Whether a category was inferred, not recorded, in a and in b; the label says it too."""
    category: str = ""
    """The category's own word, without what the label says of where it comes from; empty for other groups."""

    @property
    def difference_bytes(self) -> int:
        """What b has more."""
        return self.b_bytes - self.a_bytes


@dataclass(frozen=True)
class SlotRow:
    """The most bytes alive in one slot of the structure; None where a run has no such slot."""

    slot: Slot
    a: Measured | None
    b: Measured | None

    @property
    def difference_bytes(self) -> int | None:
        """What b has more; None unless both runs have the slot."""
        return self.b.bytes - self.a.bytes if self.a and self.b else None


class Diff:
    """The comparison of run a (before) with run b (after). The words of a filter restrict what is cut at the peaks,
    slots and the curves of what matches; the peaks are those of the whole steps, as is all that is said of shapes and
    savings."""

    def __init__(self, a: Run, b: Run, filter: str = "") -> None:
        self.a = a
        self.b = b
        self.filter = filter

    @property
    def peak_difference_bytes(self) -> int:
        """Whole-step peak of b minus that of a."""
        return self.b.peak_bytes - self.a.peak_bytes

    @property
    def achieved_peak_drop_bytes(self) -> int:
        """Whole-step peak of a minus that of b, measured."""
        return -self.peak_difference_bytes

    @cached_property
    def matched(self) -> tuple[I64, I64]:
        """Rows alive at each run's own peak that the filter matches; without one all of them."""
        return alive_at_peak(self.a, self.filter), alive_at_peak(self.b, self.filter)

    @property
    def matched_bytes(self) -> tuple[int, int]:
        """Their bytes."""
        a, b = (int(run.allocations.bytes[rows].sum()) for run, rows in zip((self.a, self.b), self.matched))
        return a, b

    @cached_property
    def matching_curves(self) -> tuple[Peaks, Peaks]:
        """The bytes that the filter matches at each position of each run."""
        a, b = (Peaks(live_bytes(run.allocations, run.n_events, run.filtered(self.filter))) for run in (self.a, self.b))
        return a, b

    @cached_property
    def by_category(self) -> tuple[DiffRow, ...]:
        """Categories at each run's own peak; without a filter the differences sum to that of the peaks."""
        a, b = (_categories(run, rows) for run, rows in zip((self.a, self.b), self.matched))

        def query(run: Run, category: Category) -> AllocationQuery:
            return AllocationQuery(position=run.peak_position, category=category)

        guessed = [
            _categories(run, alive[run.attribution.inferred[alive]])
            for run, alive in zip((self.a, self.b), self.matched)
        ]
        rows = []
        for c in (c for c in Category if c in a or c in b):
            inferred = (c in guessed[0], c in guessed[1])
            label = c.label + _INFERRED[inferred]
            rows.append(DiffRow(label, a.get(c, 0), b.get(c, 0), query(self.a, c), query(self.b, c), inferred, c.label))
        return tuple(rows)

    @cached_property
    def by_super_block(self) -> tuple[DiffRow, ...]:
        """Super-blocks, and what lies outside layers, at each run's own peak; () unless both runs have layers."""
        if not (len(self.a.layers) and len(self.b.layers)):
            return ()
        a, b = _super_blocks(self.a, self.filter), _super_blocks(self.b, self.filter)
        names = [name for name in (*a, *(name for name in b if name not in a)) if name != OUTSIDE_LAYERS]
        nothing = (0, None)
        return tuple(DiffRow(n, *_pair(a.get(n, nothing), b.get(n, nothing))) for n in (*names, OUTSIDE_LAYERS))

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What appeared, disappeared, grew or shrank from peak to peak; the differences sum to that of the peaks."""
        return changes(self.a, self.b, self.filter)

    @cached_property
    def by_layer_slot(self) -> tuple[SlotRow, ...]:
        """The most bytes alive while each layer ran in each phase."""
        return _aligned(slots(self.a, filter=self.filter), slots(self.b, filter=self.filter))

    @cached_property
    def by_super_block_slot(self) -> tuple[SlotRow, ...]:
        """The most bytes alive while each super-block ran in each phase."""
        return _aligned(slots(self.a, False, self.filter), slots(self.b, False, self.filter))

    @cached_property
    def shapes(self) -> tuple[ModelShape | None, ModelShape | None]:
        """The shapes of both runs."""
        return shape_of(self.a), shape_of(self.b)

    @cached_property
    def predictions(self) -> tuple[Prediction, Prediction] | None:
        """Each run's shape under the plan in force in it; None unless both have a shape."""
        a, b = self.shapes
        if a is None or b is None:
            return None
        return predict(a, plan_in_force(self.a)), predict(b, plan_in_force(self.b))

    @property
    def predicted_saving_bytes(self) -> int | None:
        """Predicted activation peak of a minus that of b; None without shapes."""
        if self.predictions is None:
            return None
        a, b = self.predictions
        return a.timeline_peak_bytes - b.timeline_peak_bytes

    @cached_property
    def residuals(self) -> tuple[Residual, Residual] | None:
        """Each run's residual; achieved minus predicted saving is exactly that of a minus that of b."""
        a, b = self.shapes
        if a is None or b is None:
            return None
        return residual(self.a, a, plan_in_force(self.a)), residual(self.b, b, plan_in_force(self.b))

    @cached_property
    def saving_beyond_prediction(self) -> tuple[tuple[str, int], ...]:
        """Achieved minus predicted saving by residual item, largest first: what shapes do not see, saved too."""
        items: dict[str, int] = {}
        for sign, missed in zip((1, -1), self.residuals or (), strict=False):
            for item in missed.items:
                items[item.label] = items.get(item.label, 0) + sign * item.bytes
        return tuple(sorted(((k, v) for k, v in items.items() if v), key=lambda item: -abs(item[1])))

    @cached_property
    def planned(self) -> PlannedBefore | None:
        """What the planner says from a alone of the plan in force in b; None where it cannot."""
        return planned_before(self.a, self.b)

    @property
    def counted_twice_bytes(self) -> int:
        """The running segment's own input, which the prediction for b holds both as boundary and as made again."""
        return self.predictions[1].counted_twice_bytes if self.predictions else 0

    @property
    def achieved_saving_bytes(self) -> int | None:
        """Measured activation peak of a minus that of b; None where a run's activations are not known."""
        if not all("saved_tensors" in run.capabilities for run in (self.a, self.b)):
            return None
        return int(self.a.activation_curve.max()) - int(self.b.activation_curve.max())

    @cached_property
    def warnings(self) -> tuple[Problem, ...]:
        """What makes the comparison doubtful, the gravest first."""
        return warnings_of(self.a, self.b)


def _categories(run: Run, rows: I64) -> dict[Category, int]:
    """Bytes of these allocations by category; categories without bytes are left out."""
    sums = np.zeros(len(Category), np.int64)
    np.add.at(sums, run.attribution.category[rows], run.allocations.bytes[rows])
    return {category: int(sums[category]) for category in Category if sums[category]}


def _super_blocks(run: Run, filter: str) -> dict[str, tuple[int, AllocationQuery | None]]:
    sizes = groups_at_peak(run, "super_block", filter).tolist()
    names = run.grouping("super_block").names
    numbers = [*range(len(names) - 1), NONE]  # the last group is what lies outside layers
    queries = [AllocationQuery(position=run.peak_position, super_block=number) for number in numbers]
    return dict(zip(names, zip(sizes, queries, strict=True), strict=True))


def _pair(
    a: tuple[int, AllocationQuery | None], b: tuple[int, AllocationQuery | None]
) -> tuple[int, int, AllocationQuery | None, AllocationQuery | None]:
    return a[0], b[0], a[1], b[1]


def _aligned(a: dict[Slot, Measured], b: dict[Slot, Measured]) -> tuple[SlotRow, ...]:
    """Slots of both runs in the order of a step: those only one run has go where that run has them."""
    return tuple(SlotRow(slot, a.get(slot), b.get(slot)) for slot in merged_order(list(a), list(b)))
