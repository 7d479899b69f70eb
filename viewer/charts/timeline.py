"""The step timeline: bands, ribbon, lines and marks on one x axis that every view of the run shares."""

from __future__ import annotations

import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from ..look.units import bytes_text, exact_bytes_text
from ..look.words import PREDICTION, RESERVED, WHAT_IF
from ..model.curves import live_bytes
from ..model.failed import failed_allocations
from ..model.paints import group_paints
from ..model.peaks import reserved_peaks
from ..model.query import AllocationQuery
from ..model.step_positions import step_positions
from ..state.pointed import Pointed
from ..state.scope import Scope
from ..state.tab_facts import predicted_step
from ..state.view_state import RunView
from .axis_items import BytesAxis, UnitAxis, style_axis
from .band_item import BandItem, BandNames, StepLine
from .frame import PixelItem
from .grid import GridItem
from .marks import MarkItem, Marks
from .plot import RunPlot
from .pointed_items import PointedBand
from .ribbon import HEIGHT, LOW_HEIGHT, RibbonItem
from .theme import Theme, current
from .time_view import TimeView

AXIS_WIDTH = 78
RIGHT_MARGIN = 16
_LOW = 170  # pixels of height below which the curves have the room of the title under them
HEADROOM = 1.14  # for the flag over the peak


class Timeline(RunPlot):
    """Shows one run."""

    moved = Signal()
    """The plot's place or range on the screen changed."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(scope, parent)
        self.setAccessibleName("Timeline of memory by group")
        self.predicted = self.run.once(predicted_step)
        self.failed = failed_allocations(self.run)
        self._top = 0
        self._build()
        self.set_theme(current())
        scope.changed.connect(self._view_changed)
        scope.what_if.changed.connect(self._show_what_if)
        scope.pointed.connect(lambda at: self.pointed_band.show_group(at.band(scope.bands)))
        self._show_what_if()

    def _build(self) -> None:
        self.ci.layout.setContentsMargins(0, 2, RIGHT_MARGIN, 2)
        self.ci.layout.setVerticalSpacing(2)
        self.ci.layout.setHorizontalSpacing(0)
        self.ribbon_view = pg.ViewBox(enableMenu=False, enableMouse=False, defaultPadding=0)
        self.ribbon_view.setYRange(0, 1, padding=0)
        self.ribbon_view.setFixedHeight(HEIGHT if self.run.phases else 1)
        self.bytes_axis, self.x_axis = BytesAxis(AXIS_WIDTH), UnitAxis()
        self.follow(TimeView())
        self.addItem(self.ribbon_view, row=0, col=1)
        self.addItem(self.bytes_axis, row=1, col=0)
        self.addItem(self.view, row=1, col=1)
        self.addItem(self.x_axis, row=2, col=1)
        self.bytes_axis.linkToView(self.view)
        self.x_axis.linkToView(self.view)
        self.ribbon_view.setXLink(self.view)
        self.ribbon, self.bands_item, self.marks_item = RibbonItem(), BandItem(), MarkItem()
        self.pointed_band = PointedBand(self.bands_item)
        self.names, self.grid = BandNames(self.bands_item), GridItem(self.bytes_axis)
        self.reserved_line = StepLine(Qt.PenStyle.SolidLine)
        self.predicted_line = StepLine(Qt.PenStyle.DashLine, 2.0)
        self.matching_line = StepLine(Qt.PenStyle.SolidLine, 2.0)
        self.what_if_line = StepLine(Qt.PenStyle.DotLine, 2.4)
        self.ribbon_view.addItem(self.ribbon, ignoreBounds=True)
        for item in self._over_plot:
            self.view.addItem(item, ignoreBounds=True)
        self.view.clicked.connect(self._clicked)

    @property
    def _over_plot(self) -> tuple[PixelItem, ...]:
        return (
            self.bands_item, self.pointed_band, self.grid, self.reserved_line, self.predicted_line, self.matching_line,
            self.what_if_line, self.names, self.marks_item,
        )  # fmt: skip

    @property
    def top(self) -> int:
        """Bytes at the upper edge of what is shown: peak, reserved and predicted all fit under it."""
        highest = [self.run.peak_bytes, 1]
        if self.run.reserved is not None:
            highest.append(int(self.run.reserved.max()))
        if self.predicted is not None:
            highest.append(self.predicted.peak_bytes)
        if self.what_if_line.values is not None:
            highest.append(int(self.what_if_line.values.max()))
        return int(max(highest) * HEADROOM)

    @property
    def plot_span(self) -> tuple[int, int]:
        """Left and right edge of the plot in pixels of the viewport; what is aligned with it uses these."""
        rect = self.view.mapRectToScene(self.view.rect())  # its bounds are half a pixel wider
        left, right = self.mapFromScene(rect.topLeft()), self.mapFromScene(rect.bottomRight())
        return left.x(), right.x()

    def set_theme(self, theme: Theme) -> None:
        """Repaint in this theme."""
        self.setBackground(theme.panel)
        for axis in (self.bytes_axis, self.x_axis):
            style_axis(axis, theme)
        for item in (*self._over_plot, self.ribbon):
            item.theme = theme
        self.theme = theme
        self._show_axis()

    def _show_axis(self) -> None:
        axis = self.scope.axis
        self._show_top()
        self.x_axis.set_unit(axis.unit, axis.title)
        self._title_axis()
        said = " (inferred)" if self.run.phases_inferred else ""
        self.ribbon.show_phases(self.run.phases, axis, said, self.run.once(step_positions))
        self.reserved_line.show_values(self.run.reserved, axis, self.theme.faint, self.run.once(reserved_peaks))
        predicted = None if self.predicted is None else self.predicted.bytes
        self.predicted_line.show_values(predicted, axis, self.theme.text)
        self._show_range()
        self._show_bands()
        self._show_matching()
        self._show_marks()
        self.what_if_line.show_values(self.what_if_line.values, axis, self.theme.accent)

    def _show_top(self) -> None:
        """Give the bytes the height that all lines need."""
        axis, self._top = self.scope.axis, self.top
        for item in (*self._over_plot, self.ribbon):
            item.set_extent(float(axis.edges[0]), float(axis.edges[-1]), self._top if item is not self.ribbon else 1)
        self.bound(self._top)

    def _show_what_if(self) -> None:
        """The bytes with the plan that is tried, once they are known."""
        if not self.scope.is_open:
            return
        curve = self.scope.what_if.curve(self.scope.view.plan)
        self.what_if_line.show_values(curve, self.scope.axis, self.theme.accent)
        if self.top != self._top:
            self._show_top()
            self._show_range()

    def _show_matching(self) -> None:
        """The bytes that the filter matches, over the bands."""
        words = self.scope.view.filter
        values = live_bytes(self.run.allocations, self.run.n_events, self.run.filtered(words)) if words else None
        self.matching_line.show_values(values, self.scope.axis, self.theme.accent)

    def _show_bands(self) -> None:
        bands = self.scope.bands
        paints = group_paints(bands.grouping, self.theme.dark)
        self.bands_item.show_bands(bands, self.scope.axis, paints, bands.group_of(self.scope.view.query))
        self.names.update()

    def _show_marks(self) -> None:
        axis, view, run = self.scope.axis, self.scope.view, self.run
        life = None
        if view.allocation is not None:
            start, end = (int(a[view.allocation]) for a in (run.allocations.start, run.allocations.end))
            life = (float(axis.x_of(start)), float(axis.x_of(end)))
        x, end_x = (float(axis.x_of(p)) for p in (view.cursor, view.cursor + 1))
        peak_x = float(axis.x_of(run.peak_position))
        here = int(run.curve[view.cursor])
        failed = tuple((float(axis.x_of(p)), size) for p, size in self.failed)
        capacity = run.device.total_bytes
        mark = None if view.mark is None else (float(axis.x_of(view.mark)), int(run.curve[view.mark]))
        self.marks_item.show_marks(Marks(peak_x, run.peak_bytes, x, end_x, here, life, capacity, mark, failed))

    def _show_range(self) -> None:
        self.show_range()
        self.moved.emit()

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.axis != new.axis:
            self._show_axis()
            return
        if old.visible != new.visible:
            self._show_range()
        if old.grouping != new.grouping or old.query != new.query:
            self._show_bands()
        if old.filter != new.filter:
            self._show_matching()
        if old.plan != new.plan:
            self._show_what_if()
        self._show_marks()

    def group_at(self, x: float, y: float) -> tuple[int, int | None]:
        """(position, group of the band under this point or None)."""
        position = int(self.scope.axis.position_at(x))
        low, high = self.view.viewRange()[0]
        columns, sums = self.bands_item.sample(low, high, self.bands_item.columns)
        if not len(columns.positions):
            return position, None
        column = min(max(int(columns.x.searchsorted(x)) - 1, 0), sums.shape[1] - 1)
        tops = sums[:, column].cumsum()
        group = int(tops.searchsorted(y, "right"))
        return position, group if y >= 0 and group < len(tops) else None

    def _clicked(self, x: float, y: float) -> None:
        self.setFocus()
        position, group = self.group_at(x, y)
        bands = self.scope.bands
        query: AllocationQuery | None = None if group is None else bands.query(group)
        self.scope.look(cursor=position, query=None if query == self.scope.view.query else query, allocation=None)

    def point_at(self, where: QPointF | None) -> None:
        """The band there is what the pointer rests on."""
        self.scope.point(Pointed(group=None if where is None else self.group_at(where.x(), where.y())[1]))

    def hover_text(self, x: float, y: float) -> str:
        """What is under this point, with exact bytes."""
        position, group = self.group_at(x, y)
        lines = [f"all: {exact_bytes_text(int(self.run.curve[position]))}"]
        if group is not None:
            here = int(self.scope.bands.bytes_at(self.scope.axis.position_at([x]))[group, 0])
            name = self.scope.bands.grouping.names[group]
            lines.insert(0, f"{name}: {bytes_text(here)} ({exact_bytes_text(here)})")
        if self.matching_line.values is not None:
            lines.append(f"matching: {exact_bytes_text(int(self.matching_line.values[position]))}")
        if self.predicted is not None:
            lines.append(f"{PREDICTION}: {exact_bytes_text(int(self.predicted.bytes[position]))}")
        if self.what_if_line.values is not None:
            lines.append(f"{WHAT_IF}: {exact_bytes_text(int(self.what_if_line.values[position]))}")
        if self.run.reserved is not None:
            lines.append(f"{RESERVED}: {exact_bytes_text(int(self.run.reserved[position]))}")
        return "\n".join(lines)

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        super().resizeEvent(event)
        if hasattr(self, "x_axis"):  # Qt resizes before there is anything in it
            self._title_axis()
        self.moved.emit()

    def _title_axis(self) -> None:
        low = self.height() < _LOW
        self.x_axis.showLabel(not low)
        if self.run.phases:
            self.ribbon_view.setFixedHeight(LOW_HEIGHT if low else HEIGHT)
