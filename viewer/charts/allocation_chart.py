"""Every allocation of a run on the x axis that all its views share, by address or stacked."""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import QPointF, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from ..model.address_index import Box
from ..model.axes import XAxis
from ..model.layout import Stacked, address_layout
from ..model.paints import group_paints
from ..model.peaks import peaks_of
from ..model.run import Run
from ..model.said import Said, quiet
from ..state.allocation_text import allocation_text, place_text
from ..state.pointed import NOTHING, Pointed
from ..state.scope import Scope
from ..state.view_state import RunView
from ..state.within import limit_query, picture_query
from .allocation_address import AddressPainter
from .allocation_colours import allocation_colours
from .allocation_item import AllocationItem, LinesItem
from .allocation_stacked import StackedPainter
from .axis_items import BytesAxis, UnitAxis, style_axis
from .frame import PixelItem
from .plot import RunPlot
from .pointed_items import PointedAllocation
from .theme import Theme, current
from .time_view import TimeView

STACKED, ADDRESS = "stacked", "address"
LAYOUTS = {STACKED: "stacked, newest on top", ADDRESS: "by address"}
_TITLES = {STACKED: "bytes alive", ADDRESS: "address space"}
AXIS_WIDTH = 98
_HEADROOM = 1.04
_LOW = 220
"""Pixels of height below which the axes go without their titles."""
_HALF_LINE = 9
"""Pixels over the plot for the upper half of a number at its upper edge."""
_NEAR = 3
"""Pixels by which a small allocation may be missed."""
_REST = 60
"""Milliseconds that a range rests before what lies outside of it is made pale."""
_UPRIGHT = {Qt.Key.Key_Up: 0.5, Qt.Key.Key_Down: 2.0}

Painter = StackedPainter | AddressPainter


def painter_of(run: Run, axis: XAxis, key: str, said: Said = quiet) -> Painter:
    """What paints a layout on an axis. Takes a while for a million allocations, and no Qt; `said(part)` is told how far
    it is, and calls it off by raising."""
    said(0.0)
    if key == ADDRESS:
        run.once(address_layout)
        said(0.5)
        return AddressPainter(run, axis)
    live = run.live
    said(0.8)
    return StackedPainter(Stacked(live), run.once(peaks_of), axis)


class PlaneView(TimeView):
    """A timeline's view that also zooms upright: the wheel with Ctrl held or over the bytes."""

    def bound(self, axis: XAxis, top: float) -> None:
        """Keep inside the axis and the height."""
        self.setLimits(yMin=0, yMax=top, minYRange=min(512.0, top), maxYRange=top)
        super().bound(axis, top)
        self.setMouseEnabled(x=True, y=True)

    def wheelEvent(self, event: Any, axis: int | None = None) -> None:
        if axis is None:
            axis = 1 if event.modifiers() & Qt.KeyboardModifier.ControlModifier else 0
        super().wheelEvent(event, axis)


class AllocationChart(RunPlot):
    """Shows one run; how high it looks is its own."""

    wanted = Signal()
    """There is no painter for what is to be shown: give one with `show_painter`."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(scope, parent)
        self.layout_key = STACKED
        self.made: dict[tuple[str, str], Painter] = {}
        self.setAccessibleName("Every allocation")
        self._stale = True
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(_REST)
        self._rest.timeout.connect(self._recolour)
        self._build()
        self.set_theme(current())
        scope.changed.connect(self._view_changed)

    def _build(self) -> None:
        self.ci.layout.setContentsMargins(0, _HALF_LINE, 16, 2)
        self.ci.layout.setSpacing(0)
        self.bytes_axis, self.x_axis = BytesAxis(AXIS_WIDTH), UnitAxis()
        self.follow(PlaneView())
        self.addItem(self.bytes_axis, row=0, col=0)
        self.addItem(self.view, row=0, col=1)
        self.addItem(self.x_axis, row=1, col=1)
        self.bytes_axis.enableAutoSIPrefix(False)
        self.bytes_axis.linkToView(self.view)
        self.x_axis.linkToView(self.view)
        self.item, self.lines = AllocationItem(), LinesItem()
        self.pointed = PointedAllocation(self.item)
        for item in self._items:
            self.view.addItem(item, ignoreBounds=True)
        self.scope.pointed.connect(lambda at: self.pointed.show_row(-1 if at.allocation is None else at.allocation))
        self.view.clicked.connect(self._clicked)

    @property
    def _items(self) -> tuple[PixelItem, ...]:
        return self.item, self.pointed, self.lines

    @property
    def painter(self) -> Painter | None:
        """What paints now; None while it is being made."""
        return self.made.get((self.layout_key, self.scope.view.axis))

    @property
    def top(self) -> float:
        """The upper edge in bytes."""
        painter = self.painter
        height = painter.layout.height if isinstance(painter, AddressPainter) else self.run.peak_bytes
        return max(height * _HEADROOM, 1.0)

    def set_theme(self, theme: Theme) -> None:
        """Repaint in this theme."""
        self.theme = theme
        self.setBackground(theme.panel)
        for axis in (self.bytes_axis, self.x_axis):
            style_axis(axis, theme)
        for item in self._items:
            item.theme = theme
        self._stale = True
        if self.isVisible():
            self.refresh()

    def show_layout(self, key: str) -> None:
        """Stacked or by address."""
        self.layout_key = key
        self.refresh()

    def show_painter(self, painter: Painter) -> None:
        """What `wanted` asked for."""
        key = ADDRESS if isinstance(painter, AddressPainter) else STACKED
        self.made[key, painter.axis.key] = painter
        self.refresh()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        if hasattr(self, "x_axis"):  # Qt resizes before there is anything in it
            self._title_axes()

    def _title_axes(self) -> None:
        for axis in (self.x_axis, self.bytes_axis):
            axis.showLabel(self.height() >= _LOW)

    def showEvent(self, event: object) -> None:
        super().showEvent(event)
        if self._stale:
            self.refresh()

    def refresh(self) -> None:
        """Everything anew."""
        self._stale = False
        painter, axis = self.painter, self.scope.axis
        self.bytes_axis.setLabel(_TITLES[self.layout_key])
        self.x_axis.set_unit(axis.unit, axis.title)
        self._title_axes()
        for item in self._items:
            item.set_extent(float(axis.edges[0]), float(axis.edges[-1]), self.top)
        self.bound(self.top)
        self.show_range()
        self._show_lines()
        self.item.selected = self.scope.view.allocation
        if painter is None:
            self.item.show_layout(None)
            self.wanted.emit()
        else:
            self._show_colours(painter)

    def _show_colours(self, painter: Painter) -> None:
        view, bands = self.scope.view, self.scope.bands
        query = picture_query(view)
        matches = None if query is None else query.mask(self.run)
        paints = group_paints(bands.grouping, self.theme.dark)
        painter.show(allocation_colours(bands.grouping.labels, paints, matches, self.theme))
        self.item.show_layout(painter)

    def _recolour(self) -> None:
        """A range came to rest."""
        painter = self.painter
        if self.scope.is_open and painter is not None:
            self._show_colours(painter)

    def _show_lines(self) -> None:
        axis, view = self.scope.axis, self.scope.view
        cursor = float(axis.x_of(view.cursor)), float(axis.x_of(view.cursor + 1))
        self.lines.show_lines(cursor, None if view.mark is None else float(axis.x_of(view.mark)))

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if not self.isVisible():
            self._stale = True
            return
        if old.axis != new.axis:
            self.refresh()
            return
        if old.visible != new.visible:
            self.show_range()
        painter = self.painter
        if painter is not None and (old.grouping, old.query, old.filter) != (new.grouping, new.query, new.filter):
            self._show_colours(painter)
        elif limit_query(old) != limit_query(new):
            self._rest.start()
        if old.allocation != new.allocation:
            self.item.selected = new.allocation
            self.item.update()
        self._show_lines()

    def allocation_at(self, x: float, y: float) -> tuple[int, int]:
        """(position, allocation painted at this point, -1 for none)."""
        painter = self.painter
        if isinstance(painter, StackedPainter):
            position = painter.position_at(x)
            return position, painter.stacked.at(position, y)
        position = int(self.scope.axis.position_at(x))
        if painter is None:
            return position, -1
        rows = self.run.live.at(position)
        low = painter.layout.low[rows]
        found = rows[(low >= 0) & (low <= y) & (y < low + self.run.allocations.bytes[rows])]
        return position, int(found[-1]) if len(found) else self._nearby(painter, x, y)

    def _nearby(self, painter: AddressPainter, x: float, y: float) -> int:
        """The largest allocation within a few pixels, among those that are small on the screen; -1 for none."""
        wide, high = (_NEAR * size for size in self.view.viewPixelSize())
        index = painter.index
        at = index.touching(Box(x - wide, x + wide, y - high, y + high))
        if not len(at):
            return -1
        near = np.hypot(
            np.maximum(np.maximum(index.x0[at] - x, x - index.x1[at]), 0) / wide,
            np.maximum(np.maximum(index.y0[at] - y, y - index.y1[at]), 0) / high,
        )
        return int(index.row[at[np.argmin(near)]])

    def _clicked(self, x: float, y: float) -> None:
        self.setFocus()
        position, row = self.allocation_at(x, y)
        if row >= 0:
            a = self.run.allocations
            position = min(max(position, int(a.start[row])), int(a.end[row]) - 1)
        self.scope.look(cursor=position, allocation=row if row >= 0 else None)

    def point_at(self, where: QPointF | None) -> None:
        """The allocation there is what the pointer rests on."""
        row = -1 if where is None else self.allocation_at(where.x(), where.y())[1]
        self.scope.point(NOTHING if row < 0 else Pointed(allocation=row))

    def hover_text(self, x: float, y: float) -> str:
        """What is under this point, in words."""
        painter = self.painter
        position, row = self.allocation_at(x, y)
        if row >= 0:
            return allocation_text(self.run, row)
        return place_text(painter.layout, position, y) if isinstance(painter, AddressPainter) else ""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """As in the timeline; with Shift up and down zoom upright, 0 shows the whole height as well."""
        key = Qt.Key(event.key())
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and key in _UPRIGHT:
            self.view.scaleBy(y=_UPRIGHT[key])
            return
        if key == Qt.Key.Key_0:
            self.whole_height()
        super().keyPressEvent(event)

    def whole_height(self) -> None:
        """Show the whole height again."""
        self.view.setYRange(0, self.top, padding=0)
