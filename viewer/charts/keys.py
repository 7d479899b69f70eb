"""What keys do while a timeline has the focus: move the cursor, zoom, pan, mark, go from peak to peak."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent

from ..state.scope import Scope
from ..state.session import Gesture

Change = dict[str, Any]
_PAGE = 0.05


def zoomed(scope: Scope, factor: float, around: float | None = None) -> Change:
    """The visible part made `factor` times as wide, around an x; by default the cursor where it is on screen."""
    low, high = scope.visible
    if around is None:
        cursor = float(scope.axis.x_of(scope.view.cursor))
        around = cursor if low <= cursor <= high else (low + high) / 2
    return shown(scope, around - (around - low) * factor, around + (high - around) * factor)


def panned(scope: Scope, share: float, start: tuple[float, float] | None = None) -> Change:
    """The visible part, or what it was at the start, moved by a share of its width as far as there is something to
    see."""
    low, high = start or scope.visible
    edges = scope.axis.edges
    step = min(max((high - low) * share, float(edges[0]) - low), float(edges[-1]) - high)
    return shown(scope, low + step, high + step)


def stepped(scope: Scope, events: int) -> Change:
    """The cursor moved by so many events, the visible part following it."""
    cursor = min(max(scope.view.cursor + events, 0), scope.run.n_events)
    (low, high), x = scope.visible, float(scope.axis.x_of(cursor))
    if low <= x <= high:
        return {"cursor": cursor}
    shift = x - (low + (high - low) * (0.1 if x < low else 0.9))
    return {"cursor": cursor, **shown(scope, low + shift, high + shift)}


def phase_edge(scope: Scope, direction: int) -> Change:
    """The cursor on the next (1) or the last (-1) beginning of a phase; nothing where there is none."""
    starts = [first for _, first, _ in scope.run.phases] + [scope.run.n_events]
    return _next_of(scope, starts, direction)


def local_peak(scope: Scope, direction: int) -> Change:
    """The cursor on the next (1) or the last (-1) peak of all bytes that stands out."""
    return _next_of(scope, scope.local_peaks.tolist(), direction)


def _next_of(scope: Scope, places: list[int], direction: int) -> Change:
    cursor = scope.view.cursor
    ahead = [place for place in places if (place - cursor) * direction > 0]
    if not ahead:
        return {}
    return stepped(scope, (min(ahead) if direction > 0 else max(ahead)) - cursor)


def marked(scope: Scope) -> Change:
    """The mark set at the cursor, or taken away where it stands there already."""
    view = scope.view
    return {"mark": None} if view.mark == view.cursor else {"mark": view.cursor}


def shown(scope: Scope, low: float, high: float) -> Change:
    """The part of the axis between two x, cut to the axis; nothing where less than one event would be left."""
    axis = scope.axis
    low, high = max(low, float(axis.edges[0])), min(high, float(axis.edges[-1]))
    if (low, high) == (axis.edges[0], axis.edges[-1]):
        return {"visible": None}
    first, last = axis.fraction_at(low), axis.fraction_at(high)
    return {"visible": (first, last)} if last - first >= 1 else {}


def is_command(event: QKeyEvent) -> bool:
    """Whether a key is meant for a menu."""
    return bool(event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier))


def held(event: QKeyEvent) -> Gesture | None:
    """What the presses of a key that moves by steps are part of; None for a key that means one thing."""
    return ("key", event.key()) if Qt.Key(event.key()) in _HELD else None


def moved_from_afar(event: QKeyEvent, scope: Scope) -> Change | None:
    """The change that a key asks for while the chart has not got the focus: the arrows and what goes with them belong
    to whatever has it."""
    return None if Qt.Key(event.key()) in NEAR else moved(event, scope)


def moved(event: QKeyEvent, scope: Scope) -> Change | None:
    """The change that a key asks for; None for keys that are not the chart's."""
    if is_command(event):
        return None
    key = Qt.Key(event.key())
    if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and key in _PAGES:
        return stepped(scope, _PAGES[key] * max(int(scope.run.n_events * _PAGE), 1))
    act = _KEYS.get(key)
    return act(scope) if act else None


_PAGES = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
_ARROWS = frozenset({Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Down})
NEAR = _ARROWS | {Qt.Key.Key_Home, Qt.Key.Key_End}
"""Keys that mean something in every table and box."""
_HELD = _ARROWS | {
    Qt.Key.Key_Plus, Qt.Key.Key_Equal, Qt.Key.Key_Minus, Qt.Key.Key_W, Qt.Key.Key_A, Qt.Key.Key_S, Qt.Key.Key_D,
}  # fmt: skip
_KEYS: dict[Qt.Key, Callable[[Scope], Change]] = {
    Qt.Key.Key_Left: lambda scope: stepped(scope, -1),
    Qt.Key.Key_Right: lambda scope: stepped(scope, 1),
    Qt.Key.Key_Home: lambda scope: stepped(scope, -scope.run.n_events),
    Qt.Key.Key_End: lambda scope: stepped(scope, scope.run.n_events),
    Qt.Key.Key_P: lambda scope: stepped(scope, scope.run.peak_position - scope.view.cursor),
    Qt.Key.Key_M: marked,
    Qt.Key.Key_BracketLeft: lambda scope: phase_edge(scope, -1),
    Qt.Key.Key_BracketRight: lambda scope: phase_edge(scope, 1),
    Qt.Key.Key_Comma: lambda scope: local_peak(scope, -1),
    Qt.Key.Key_Period: lambda scope: local_peak(scope, 1),
    Qt.Key.Key_Plus: lambda scope: zoomed(scope, 0.5),
    Qt.Key.Key_Equal: lambda scope: zoomed(scope, 0.5),
    Qt.Key.Key_W: lambda scope: zoomed(scope, 0.5),
    Qt.Key.Key_Up: lambda scope: zoomed(scope, 0.5),
    Qt.Key.Key_Minus: lambda scope: zoomed(scope, 2.0),
    Qt.Key.Key_S: lambda scope: zoomed(scope, 2.0),
    Qt.Key.Key_Down: lambda scope: zoomed(scope, 2.0),
    Qt.Key.Key_A: lambda scope: panned(scope, -0.2),
    Qt.Key.Key_D: lambda scope: panned(scope, 0.2),
    Qt.Key.Key_0: lambda scope: {"visible": None},
    Qt.Key.Key_Escape: lambda scope: {"query": None, "allocation": None, "mark": None},
}
