"""A dock in a row of its own, next to the middle: Qt has no call that puts a dock before others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

_DOWN, _ACROSS = Qt.Orientation.Vertical, Qt.Orientation.Horizontal
_BELOW = Qt.DockWidgetArea.BottomDockWidgetArea


@dataclass(frozen=True)
class Group:
    """Docks that share a place, in the order of their tabs, and the place of the one in front."""

    docks: list[QDockWidget]
    front: QDockWidget
    place: QRect

    @property
    def first(self) -> QDockWidget:
        return self.docks[0]


def put_in_own_row(
    host: QMainWindow,
    dock: QDockWidget,
    area: Qt.DockWidgetArea,
    group_of: Callable[[QDockWidget], list[QDockWidget]],
) -> None:
    """Put a dock above or below the middle, next to it, as wide as the area.

    Of those below, each is put after it again, as it stood. Rows are kept; where docks stood under each other in one
    part of a row, they come under each other in rows of their own. `group_of(dock)` gives a dock that is shown and
    those that share tabs with it, in the order of the tabs.
    """
    others = [one for one in host.findChildren(QDockWidget) if one is not dock and not one.isFloating()]
    others = [one for one in others if host.dockWidgetArea(one) == area]
    if area != _BELOW or not others:
        host.addDockWidget(area, dock, _DOWN)
        return
    with _all_shown(host, others):
        rows = _rows(_groups(others, group_of))
        host.addDockWidget(area, dock, _DOWN)
        _put_after(host, dock, rows)
        for row in rows:
            host.resizeDocks([group.front for group in row], [group.place.width() for group in row], _ACROSS)


@contextmanager
def _all_shown(host: QMainWindow, docks: list[QDockWidget]) -> Iterator[None]:
    """Only of docks that are shown can be learnt where they stand; those that are hidden are so again in the end."""
    hidden = [dock for dock in docks if dock.isHidden()]
    layout = host.layout()
    assert layout is not None
    host.setUpdatesEnabled(False)
    for dock in hidden:
        dock.show()
    layout.activate()
    yield
    for dock in hidden:
        dock.hide()
    host.setUpdatesEnabled(True)


def _put_after(host: QMainWindow, dock: QDockWidget, rows: list[list[Group]]) -> None:
    for above, below in pairwise([dock, *(row[0].first for row in rows)]):
        host.splitDockWidget(above, below, _DOWN)
    for row in rows:
        for left, right in pairwise(row):
            host.splitDockWidget(left.first, right.first, _ACROSS)
    for group in (group for row in rows for group in row):
        for one, other in pairwise(group.docks):
            host.tabifyDockWidget(one, other)
        group.front.raise_()


def _groups(docks: list[QDockWidget], group_of: Callable[[QDockWidget], list[QDockWidget]]) -> list[Group]:
    """The docks by the place that they share."""
    found: list[Group] = []
    for dock in docks:
        if not any(dock in group.docks for group in found):
            shared = group_of(dock)
            front = next((one for one in shared if _is_in_front(one)), dock)
            found.append(Group(shared, front, QRect(front.geometry())))
    return found


def _is_in_front(dock: QDockWidget) -> bool:
    return dock.geometry().right() >= 0 and dock.geometry().bottom() >= 0


def _rows(groups: list[Group]) -> list[list[Group]]:
    """The groups from the top down; those of which one begins before the other ends stand in a row."""
    rows: list[list[Group]] = []
    foot = 0
    for group in sorted(groups, key=lambda group: group.place.y()):
        if rows and group.place.top() <= foot and not _over(rows[-1], group.place):
            rows[-1].append(group)
            foot = min(foot, group.place.bottom())
        else:
            rows.append([group])
            foot = group.place.bottom()
    return [sorted(row, key=lambda group: group.place.x()) for row in rows]


def _over(row: list[Group], place: QRect) -> bool:
    """Whether one of the row stands above or below this place."""
    return any(group.place.x() <= place.right() and place.left() <= group.place.right() for group in row)
