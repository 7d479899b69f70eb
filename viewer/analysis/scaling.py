"""From two or more recordings of one model at other batch sizes or sequence lengths: how each part of the step's peak
grows, and what still fits.

A part is everything of one kind where activations are highest: what is kept in layers of one kind, what lies outside
layers, what stays whatever the size (parameters, gradients, optimizer state), and the rest. Each grows as

    bytes = linear x tokens + quadratic x batch x sequence^2

with both coefficients at least 0, fitted to the recordings by least squares; what stays is the largest seen. Two
recordings of other sequence lengths determine both coefficients exactly. Where all have one sequence length the
quadratic part cannot be told from the linear one: everything is taken as linear, and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import F64, Category

from ..look.words import OUTSIDE_LAYERS
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .places import Places

STAYS = frozenset((Category.parameter, Category.buffer, Category.gradient, Category.optimizer_state))
MOST_TOKENS = 2**30
ROUNDING = 1e-6
"""Share of a part below which a coefficient is taken for rounding."""


@dataclass(frozen=True)
class Growth:
    """How one part grows."""

    name: str
    constant: float
    linear: float
    """Bytes per token."""
    quadratic: float
    """Bytes per batch x sequence^2."""

    def bytes(self, batch: int, sequence: int) -> int:
        """Bytes at this size."""
        return round(self.constant + self.linear * batch * sequence + self.quadratic * batch * sequence**2)


@dataclass(frozen=True)
class Measured:
    """One recording: its size, its peak, and the parts of it."""

    name: str
    batch: int
    sequence: int
    peak_bytes: int
    parts: dict[str, int]


@dataclass(frozen=True)
class Scaling:
    """The fit over all recordings."""

    measured: tuple[Measured, ...]
    parts: tuple[Growth, ...]
    one_length: bool
    """All recordings have one sequence length: what is quadratic could not be told apart."""

    def bytes(self, batch: int, sequence: int) -> int:
        """The peak at this size."""
        return sum(part.bytes(batch, sequence) for part in self.parts)

    @property
    def error(self) -> float:
        """The largest share by which the fit misses a recording's peak."""
        return max(abs(self.bytes(m.batch, m.sequence) / m.peak_bytes - 1) for m in self.measured)

    def longest(self, budget: int, batch: int) -> int:
        """The longest sequence that fits with this batch; 0 if none does."""
        return _largest(lambda sequence: self.bytes(batch, sequence) <= budget)

    def most(self, budget: int, sequence: int) -> int:
        """The largest batch that fits with this sequence length; 0 if none does."""
        return _largest(lambda batch: self.bytes(batch, sequence) <= budget)


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest number from 1 for which this holds, given that it holds for every smaller one."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high) and high < MOST_TOKENS:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def scaling(runs: Sequence[Run]) -> Scaling:
    """The fit. ValueError with one sentence where the runs cannot be compared: fewer than two sizes, no batch, or
    other layers."""
    measured = tuple(_measured(run) for run in runs)
    sizes = {(each.batch, each.sequence) for each in measured}
    if len(sizes) < 2:
        raise ValueError("two recordings of different batch size or sequence length are needed")
    first = runs[0]
    for run in runs[1:]:
        if run.layers.kinds != first.layers.kinds:
            raise ValueError(f"{run.name} has other layers than {first.name}: they are not one model at two sizes")
    one_length = len({each.sequence for each in measured}) == 1
    names = dict.fromkeys(name for each in measured for name in each.parts)
    return Scaling(measured, tuple(_fitted(name, measured, one_length) for name in names), one_length)


STAYS_NAME = "stays whatever the size"
REST_NAME = "temporaries and the rest"


def _measured(run: Run) -> Measured:
    """The parts of this run where its activations are highest, which is the same moment at every size; what the step's
    own peak has more goes to the rest, so that they sum to that peak."""
    meta = run.recording.meta
    if not meta.batch or not meta.sequence:
        raise ValueError(f"{run.name} does not say its batch size and sequence length")
    position = int(run.activation_curve.argmax())
    parts = {REST_NAME: run.peak_bytes - int(run.curve[position])}
    kinds = [*Places(run).kind_names, OUTSIDE_LAYERS]  # the last one stands for -1
    alive = np.flatnonzero(AllocationQuery(position=position).mask(run))
    for row in alive.tolist():
        category = Category(run.attribution.category[row])
        if category in ACTIVATIONS:
            name = kinds[int(run.attribution.layer[row])]
        else:
            name = STAYS_NAME if category in STAYS else REST_NAME
        parts[name] = parts.get(name, 0) + int(run.allocations.bytes[row])
    return Measured(run.name, meta.batch, meta.sequence, run.peak_bytes, parts)


def _fitted(name: str, measured: Sequence[Measured], one_length: bool) -> Growth:
    values = np.array([each.parts.get(name, 0) for each in measured], np.float64)
    if name == STAYS_NAME or not values.any():
        return Growth(name, float(values.max()), 0.0, 0.0)
    tokens = np.array([each.batch * each.sequence for each in measured], np.float64)
    squares = np.array([each.batch * each.sequence**2 for each in measured], np.float64)
    linear, quadratic = _non_negative(tokens, np.zeros_like(squares) if one_length else squares, values)
    return Growth(name, 0.0, linear, quadratic)


def _non_negative(tokens: F64, squares: F64, values: F64) -> tuple[float, float]:
    """Least squares relative to the values, with both coefficients at least 0."""
    weight = 1 / np.maximum(values, 1.0)
    columns = np.stack([tokens * weight, squares * weight], axis=1)
    target = values * weight
    if squares.any():
        scale = np.abs(columns).max(axis=0)
        both = np.linalg.lstsq(columns / scale, target, rcond=None)[0] / scale
        shares = both * np.array([tokens.max(), squares.max()]) / values.max()
        if (shares >= -ROUNDING).all():
            linear, quadratic = np.where(shares > ROUNDING, both, 0.0)
            return float(linear), float(quadratic)
    alone = [max(float(column @ target / (column @ column)), 0.0) if column.any() else 0.0 for column in columns.T]
    misses = [float(np.abs(column * each - target).sum()) for column, each in zip(columns.T, alone, strict=True)]
    return (alone[0], 0.0) if misses[0] <= misses[1] else (0.0, alone[1])
