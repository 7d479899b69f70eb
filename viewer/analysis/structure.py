"""A step by structure: the most bytes alive while each layer (or super-block) ran in each phase.

Structure, unlike time, is the same in two runs of one model, so it is what a comparison is aligned by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from memstrata.capture.format.schema import B1, I64, NONE, Phase

from ..look import words
from ..model.curves import live_bytes
from ..model.run import Run
from .place import super_block_text


@dataclass(frozen=True)
class Slot:
    """One place in the structure of a step. `unit` is a layer or super-block, -1 for the whole phase."""

    phase: Phase
    unit: int
    label: str


@dataclass(frozen=True)
class Measured:
    """The most bytes alive in a slot, and the first position where they were."""

    bytes: int
    position: int


def slots(run: Run, by_layer: bool = True, filter: str = "") -> dict[Slot, Measured]:
    """The slots of this run in the order in which they first ran, and the whole of each phase last. Empty without
    spans. With the words of a filter only what matches them counts."""
    curve = live_bytes(run.allocations, run.n_events, run.filtered(filter)) if filter else run.curve
    found: dict[Slot, Measured] = {}
    spans = run.spans
    units = spans.layer if by_layer else spans.super_block
    order = np.flatnonzero(_is_layer(run)).tolist()
    for phase, unit in dict.fromkeys((Phase(int(spans.phase[row])), int(units[row])) for row in order):
        _add(run, found, phase, unit, by_layer, curve)
    for phase in Phase:
        whole = [(first, last) for each, first, last in run.spans.phases() if each == phase]
        if whole:
            found[Slot(phase, NONE, f"{words.phase_text(phase)}, whole phase")] = _most(curve, whole)
    return found


def _add(run: Run, found: dict[Slot, Measured], phase: Phase, unit: int, by_layer: bool, curve: I64) -> None:
    spans = run.spans
    units = spans.layer if by_layer else spans.super_block
    rows = np.flatnonzero(_is_layer(run) & (spans.phase == phase) & (units == unit))
    name = run.layers.labels[unit] if by_layer else super_block_text(run, unit)
    intervals = list(zip(spans.start_position[rows].tolist(), spans.end_position[rows].tolist(), strict=True))
    found[Slot(phase, unit, f"{words.phase_text(phase)} of {name}")] = _most(curve, intervals)


def _is_layer(run: Run) -> B1:
    """Spans of the layers themselves, not of modules inside."""
    layer = run.spans.layer
    modules = np.append(run.layers.modules, np.int32(-2))
    whole: B1 = run.spans.module == modules[np.where(layer >= 0, layer, -1)]
    return whole


def _most(curve: I64, intervals: list[tuple[int, int]]) -> Measured:
    tops = [first + int(curve[first : last + 1].argmax()) for first, last in intervals]
    position = max(tops, key=lambda p: (int(curve[p]), -p))
    return Measured(int(curve[position]), position)


Place = TypeVar("Place")


def merged_order(a: Sequence[Place], b: Sequence[Place]) -> list[Place]:
    """The places of two runs: those of a in order, and those only b has where b has them."""
    order, place, known = list(a), 0, set(a)
    for key in b:
        if key in known:
            place = order.index(key) + 1
        else:
            order.insert(place, key)
            place += 1
    return order
