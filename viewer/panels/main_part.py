"""What a view is about, which is where the keys go: a table, a tree or a chart of it, before its controls."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QAbstractItemView, QScrollArea, QWidget

from ..charts.allocator_map import AllocatorMap
from ..charts.frontier import FrontierChart
from ..charts.icicle import Icicle
from ..charts.plot import Plot
from ..charts.waterfall import WaterfallChart

_MAIN = (QAbstractItemView, Plot, Icicle, AllocatorMap, WaterfallChart, FrontierChart)


def main_part(view: QWidget) -> QWidget | None:
    """What gets the focus of those that go into the view: the first table, tree or chart that it shows, from its top
    and then its left, else the first control. None where it has nothing for the keys."""
    parts = [part for part in _shown_parts(view) if part.isEnabled() and _takes_keys(part)]
    return min(parts, key=lambda part: (not isinstance(part, _MAIN), *_place(part, view)), default=None)


def go_in(view: QWidget) -> None:
    """Give the focus to the main part."""
    part = main_part(view)
    if part is not None:
        part.setFocus(Qt.FocusReason.TabFocusReason)


def holds(view: QWidget, part: QWidget) -> bool:
    """Whether a widget is part of the view, be it of the line that the view lends to the title of its dock."""
    return any(part is one or one.isAncestorOf(part) for one in _pieces(view))


def _pieces(view: QWidget) -> list[QWidget]:
    line = getattr(view, "title_line", None)
    return [view] if line is None or view.isAncestorOf(line) else [view, line]


def _shown_parts(view: QWidget) -> list[QWidget]:
    """Those that can be seen if the view can, which may lie behind a tab as yet."""
    pieces = _pieces(view)
    within = [part for piece in pieces for part in piece.findChildren(QWidget) if part.isVisibleTo(piece)]
    return [*pieces, *within]


def _takes_keys(part: QWidget) -> bool:
    """An area that only scrolls does not show that it has the focus."""
    return type(part) is not QScrollArea and bool(part.focusPolicy() & Qt.FocusPolicy.TabFocus)


def _place(part: QWidget, view: QWidget) -> tuple[int, int]:
    place = part.mapTo(view, QPoint()) if view.isAncestorOf(part) else QPoint()
    return place.y(), place.x()
