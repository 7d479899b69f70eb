"""What keys do in the curves of two runs: as in a timeline, but that both cursors go to the same place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

from ..analysis.aligned import Structure
from ..model.run import Run
from ..state.session import Gesture
from .keys import NEAR, held, is_command

Span = tuple[float, float]
_LEAPS = 20


class Curves(Protocol):
    """What the keys act on."""

    structure: Structure
    runs: tuple[Run, Run]

    @property
    def place(self) -> float:
        """The x of the cell that is marked or of the cursors."""

    @property
    def span(self) -> Span:
        """First and last x on screen."""

    def go_to(self, x: float) -> None:
        """Put both cursors to what each run shows at x."""

    def show_span(self, span: Span | None, gesture: Gesture | None) -> None:
        """Ask for this part of the axis, None for the whole."""

    def let_go(self) -> None:
        """Ask for nothing to be selected."""


def take(event: QKeyEvent, curves: Curves, from_afar: bool = False) -> bool:
    """Do what a key asks for; False for keys that are not the chart's. `from_afar` it has not got the focus: the arrows
    and what goes with them belong to whatever has it."""
    key = Qt.Key(event.key())
    if is_command(event) or (from_afar and key in NEAR):
        return False
    leap = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
    if key in _STEPS:
        _step(curves, _STEPS[key], leap)
    elif key in _ZOOMS:
        curves.show_span(_zoomed(curves, _ZOOMS[key]), held(event))
    elif key in _PANS:
        curves.show_span(_panned(curves, _PANS[key]), held(event))
    elif key in _ACTS:
        _ACTS[key](curves)
    else:
        return False
    return True


def _step(curves: Curves, direction: int, leap: bool) -> None:
    """To the next cell or event of either run, or a twentieth of the whole away."""
    starts = _starts(curves.structure)
    if leap:
        x = curves.place + direction * curves.structure.width / _LEAPS
    elif direction > 0:
        x = float(starts[min(int(starts.searchsorted(curves.place, "right")), len(starts) - 1)])
    else:
        x = float(starts[max(int(starts.searchsorted(curves.place, "left")) - 1, 0)])
    curves.go_to(min(max(x, 0.0), float(starts[-1])))


def _starts(structure: Structure) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Where cells begin, or states of either run; rising."""
    if structure.cells:
        return np.array([cell.x0 for cell in structure.cells])
    return np.union1d(structure.a.edges[:-1], structure.b.edges[:-1])


def _phase(curves: Curves, direction: int) -> None:
    """To the next or the last beginning of a phase; nothing where no phases are drawn."""
    cells = curves.structure.cells
    found = [now.x0 for before, now in pairwise(cells) if before.phase != now.phase]
    ahead = [x for x in found if (x - curves.place) * direction > 0]
    if ahead:
        curves.go_to(min(ahead) if direction > 0 else max(ahead))


def _peak(curves: Curves) -> None:
    """To the peak of the first run, and from there to that of the second."""
    structure, peaks = curves.structure, [run.peak_position for run in curves.runs]
    places = [float(axis.x_of(peak)) for axis, peak in zip((structure.a, structure.b), peaks)]
    if structure.cells:
        places = [structure.cells[structure.cell_at(x)].x0 for x in places]
    curves.go_to(places[1] if curves.place == places[0] else places[0])


def _zoomed(curves: Curves, factor: float) -> Span:
    low, high = curves.span
    around = curves.place if low <= curves.place <= high else (low + high) / 2
    return around - (around - low) * factor, around + (high - around) * factor


def _panned(curves: Curves, share: float) -> Span:
    low, high = curves.span
    step = min(max((high - low) * share, -low), curves.structure.width - high)
    return low + step, high + step


_STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
_IN, _OUT = 0.5, 2.0
_ZOOMS = {
    Qt.Key.Key_Plus: _IN, Qt.Key.Key_Equal: _IN, Qt.Key.Key_W: _IN, Qt.Key.Key_Up: _IN,
    Qt.Key.Key_Minus: _OUT, Qt.Key.Key_S: _OUT, Qt.Key.Key_Down: _OUT,
}  # fmt: skip
_PANS = {Qt.Key.Key_A: -0.2, Qt.Key.Key_D: 0.2}
_ACTS: dict[Qt.Key, Callable[[Curves], None]] = {
    Qt.Key.Key_Home: lambda curves: curves.go_to(0.0),
    Qt.Key.Key_End: lambda curves: curves.go_to(float(_starts(curves.structure)[-1])),
    Qt.Key.Key_P: _peak,
    Qt.Key.Key_BracketLeft: lambda curves: _phase(curves, -1),
    Qt.Key.Key_BracketRight: lambda curves: _phase(curves, 1),
    Qt.Key.Key_0: lambda curves: curves.show_span(None, None),
    Qt.Key.Key_Escape: lambda curves: curves.let_go(),
}
