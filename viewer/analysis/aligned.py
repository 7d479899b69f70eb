"""The axes of a comparison. The first choice is the step by phase and layer, the same for both runs however long each
took. Pure numpy.

Every pass of a layer is a cell, and so is what lies between two passes. A cell is equally wide in both runs; inside
it the events of each run are spread evenly, so that each curve keeps every one of its states. A run that lacks a pass
(no recomputation, say) stays at its state through that cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from memstrata.capture.format.schema import NONE, Phase

from ..look import words
from ..model.axes import XAxis
from ..model.run import Run
from .structure import merged_order

_NARROW, _WIDE = 0.08, 1.5
"""Widths of what lies between two passes, in passes: at least, so that it shows, and at most."""
_APART = 1e-9

Span = tuple[int, int]


class Key(NamedTuple):
    """What makes a place of the step the same in two runs."""

    phase: Phase
    layer: int
    """-1 for what lies between two passes."""
    number: int
    """Of a pass the call; else how many places of this phase came before, after the same pass."""
    after: tuple[Phase, int, int] | None = None
    """For what lies between two passes, the one in front of it."""


@dataclass(frozen=True)
class Cell:
    """One place of the step from x0 to x1; `a` and `b` are the positions it spans in each run."""

    phase: Phase
    layer: int
    label: str
    x0: float
    x1: float
    a: Span
    b: Span
    key: Key | None = None
    """The place of the step, by which it is found in a further run."""


@dataclass(frozen=True, eq=False)
class Structure:
    """The cells in order, and for each run the axis that puts its positions into them. The other axes that two runs
    can share have no cells, see `common_axes`."""

    cells: tuple[Cell, ...]
    a: XAxis
    b: XAxis

    @property
    def width(self) -> float:
        """The x of the last cell's end; without cells that of the run that goes on longer."""
        return self.cells[-1].x1 if self.cells else float(max(self.a.edges[-1], self.b.edges[-1]))

    @property
    def whole(self) -> XAxis:
        """An axis as wide as both, for what only asks how far it goes."""
        return replace(self.a, edges=np.array([0.0, self.width]))

    def cell_at(self, x: float) -> int:
        """The number of the cell at x; the nearest one outside."""
        starts = np.array([cell.x0 for cell in self.cells])
        return int(np.clip(np.searchsorted(starts, x, "right") - 1, 0, len(self.cells) - 1))


def structure_of(a: Run, b: Run) -> Structure:
    """Both runs on one axis. Where neither has spans, one cell holds everything."""
    one, two = _places(a), _places(b)
    lengths = [stop - start for places in (one, two) for key, (start, stop) in places.items() if key.layer != NONE]
    typical = max(float(np.median(lengths)) if lengths else 1.0, 1.0)
    cells, x, at = [], 0.0, (0, 0)
    for key in merged_order(list(one), list(two)):
        stops = one.get(key, at[:1] * 2)[1], two.get(key, at[1:] * 2)[1]
        width = 1.0
        if key.layer == NONE:
            width = min(max(max(stops[0] - at[0], stops[1] - at[1]) / typical, _NARROW), _WIDE)
        spans = (at[0], stops[0]), (at[1], stops[1])
        cells.append(Cell(key.phase, key.layer, _label(a, key), x, x + width, *spans, key))
        x, at = x + width, stops
    axes = (_axis([c.a for c in cells], cells, a.n_events), _axis([c.b for c in cells], cells, b.n_events))
    return Structure(tuple(cells), *axes)


def axis_in(structure: Structure, run: Run) -> XAxis:
    """The axis that puts a further run into the same cells; what only it has lies in the cell that comes next."""
    places, at, spans = _places(run), 0, []
    for cell in structure.cells:
        stop = at if cell.key is None else max(places.get(cell.key, (at, at))[1], at)
        spans.append((at, stop))
        at = stop
    spans[-1] = (spans[-1][0], run.n_events)
    return _axis(spans, list(structure.cells), run.n_events)


def _places(run: Run) -> dict[Key, Span]:
    """The whole run without gaps: each pass of a layer, and what lies between them, cut where the phase changes."""
    found: dict[Key, Span] = {}
    at, after = 0, None
    for key, (start, stop) in [*_passes(run), (None, (run.n_events, run.n_events))]:
        for phase, first, last in run.spans.phases() or [(Phase.other, 0, run.n_events)]:
            if max(first, at) < min(last, start):
                same = sum(k.phase == phase and k.after == after and k.layer == NONE for k in found)
                found[Key(phase, NONE, same, after)] = (max(first, at), min(last, start))
        if key is not None:
            at, after = max(stop, at), (key.phase, key.layer, key.number)
            found[key] = (min(start, at), at)
    return found


def _passes(run: Run) -> list[tuple[Key | None, Span]]:
    """Each pass of a layer with its positions, in the order in which they began."""
    spans = run.spans
    modules = np.append(run.layers.modules, np.int32(-2))
    rows = np.flatnonzero(spans.module == modules[spans.layer]) if len(spans) else np.empty(0, np.int64)
    rows = rows[np.argsort(spans.start_position[rows], kind="stable")]
    return [
        (
            Key(Phase(int(spans.phase[row])), int(spans.layer[row]), int(spans.call[row])),
            (int(spans.start_position[row]), int(spans.end_position[row])),
        )
        for row in rows.tolist()
    ]


def _axis(spans: list[Span], cells: list[Cell], n_events: int) -> XAxis:
    """A cell holds the events between its positions; the state that an event leads to begins where the event is."""
    knots = np.array([0.5, *(stop + 0.5 for _, stop in spans)])
    x = np.array([0.0, *(cell.x1 for cell in cells)])
    starts = np.interp(np.arange(n_events + 1), knots, x)
    edges = np.append(starts, x[-1]) + np.arange(n_events + 2) * _APART
    return XAxis("structure", "phase and layer", "cells", edges)


def _label(run: Run, key: Key) -> str:
    phase = words.phase_text(key.phase)
    if key.layer != NONE:
        name = run.layers.labels[key.layer] if key.layer < len(run.layers) else f"layer {key.layer}"
        return f"{phase} of {name}"
    return phase if key.phase in (Phase.optimizer, Phase.other) else f"{phase}, {words.OUTSIDE_LAYERS}"
