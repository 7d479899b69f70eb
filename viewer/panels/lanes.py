"""The lanes: a tree of super-blocks and layers whose rows go on as bytes over time, aligned with the timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPen, QWheelEvent
from PySide6.QtWidgets import QHeaderView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTreeView, QWidget

from ..charts.keys import panned, zoomed
from ..charts.lane_painter import LanePainter, Window
from ..charts.theme import Theme, current
from ..state.lane_model import LANE, MEASURED, NAME, PREDICTED, LaneModel
from ..state.lanes import CONTENTS, lanes_of
from ..state.scope import Scope
from ..state.view_state import RunView, Segments

Index = QModelIndex | QPersistentModelIndex
OUTER_ROW, INNER_ROW = 50, 32
_NUMBERS = 84
_REST = 60
"""Milliseconds that a plan stays the same before its lines are drawn."""


def plan_drawn(view: RunView) -> Segments | None:
    """The plan whose prediction is drawn: shapes do not know operators, so none where some are kept."""
    return None if view.keep else view.plan


class LaneDelegate(QStyledItemDelegate):
    """Paints the last column as a lane; `window()` says what part of the axis lies between which pixels."""

    def __init__(self, model: LaneModel, window: Callable[[], Window], cursor: Callable[[], int], parent: QWidget):
        super().__init__(parent)
        self.model, self.window, self.cursor = model, window, cursor
        self.painter = LanePainter(model.lanes)
        self.theme: Theme = current()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(60, INNER_ROW if self.model.is_inner(index) else OUTER_ROW)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        if index.column() != LANE:
            super().paint(painter, option, index)
            return
        rect, window = QRectF(option.rect), self.window()
        rect.setRight(window.right)
        painter.save()
        painter.setClipRect(rect.adjusted(0, 0, 1, 0))
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, QColor(self.theme.raised))
        scale = self.model.lanes.scales[self.model.is_inner(index)]
        self.painter.paint(painter, rect, self.model.lane(index), window, scale, self.theme)
        x = window.px_of(self.cursor())
        painter.setPen(QPen(QColor(self.theme.accent), 1.6))
        painter.drawLine(int(x), int(rect.top()), int(x), int(rect.bottom()) + 1)
        painter.restore()


class LaneTree(QTreeView):
    """Names and numbers on the left as wide as the timeline's margin, lanes on the right under its plot."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.theme: Theme = current()
        self.span = (0, 1)
        """Left and right edge of the plot in pixels of this widget's viewport."""
        self._dragged: float | None = None
        self._pressed: float | None = None
        self.setAccessibleName("Lanes: bytes over time of each super-block and layer")
        self.setUniformRowHeights(False)
        self.setRootIsDecorated(True)
        self.setIndentation(16)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QTreeView.ScrollMode.ScrollPerPixel)
        self.header().setSectionsMovable(False)
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.header().setMinimumSectionSize(20)
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(_REST)
        self._rest.timeout.connect(self._draw_tried)
        self._fill()
        scope.changed.connect(self._view_changed)

    def _fill(self) -> None:
        title, categories = CONTENTS[self.scope.view.lanes]
        lanes = lanes_of(self.scope.run, categories)
        self.lane_model = LaneModel(lanes, self.scope.view.cursor, title, self)
        self.delegate = LaneDelegate(self.lane_model, self.window_now, lambda: self.scope.view.cursor, self)
        self.delegate.theme = self.theme
        self.delegate.painter.plan = plan_drawn(self.scope.view)
        unfolded = [row for row in range(len(lanes.outer)) if self._is_unfolded(row)]
        self.setModel(self.lane_model)
        self.setItemDelegate(self.delegate)
        for row in unfolded:
            self.expand(self.lane_model.index(row, NAME))
        self.selectionModel().currentRowChanged.connect(self._picked)
        self.set_span(self.span)

    def _is_unfolded(self, row: int) -> bool:
        model = self.model()
        return model is not None and self.isExpanded(model.index(row, NAME))

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = self.delegate.theme = theme
        self.viewport().update()

    def set_span(self, span: tuple[int, int]) -> None:
        """Put the lanes between these two pixels of the viewport."""
        self.span = span
        shown = any(self.lane_model.lanes.predicted(lane) for lane in self.lane_model.lanes.outer)
        self.setColumnHidden(PREDICTED, not shown)
        numbers = _NUMBERS * (1 if self.isColumnHidden(PREDICTED) else 2)
        self.setColumnWidth(NAME, max(span[0] - numbers, 60))
        for column in (MEASURED, PREDICTED):
            self.setColumnWidth(column, _NUMBERS)
        self.setColumnWidth(LANE, max(self.viewport().width() - span[0], 60))
        self.viewport().update()

    def window_now(self) -> Window:
        """What part of the axis is on screen, and where."""
        low, high = self.scope.visible
        return Window(self.scope.axis, low, high, float(self.span[0]), float(max(self.span[1], self.span[0] + 1)))

    def _picked(self, index: QModelIndex, _previous: QModelIndex) -> None:
        if index.isValid() and self.hasFocus():
            self.scope.look(query=self.lane_model.lane(index).query, allocation=None)

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.lanes != new.lanes:
            self._fill()
        if old.cursor != new.cursor:
            self.lane_model.move_cursor(new.cursor)
        if new.query is None and old.query is not None:
            self.clearSelection()
        changed = new != replace(old, plan=new.plan, keep=new.keep)
        if plan_drawn(old) != plan_drawn(new):
            changed |= self.delegate.painter.plan is not None
            self.delegate.painter.plan = None
            self._rest.start()  # a slider that moves goes on to the next plan at once
        if changed:
            self.viewport().update()

    def _draw_tried(self) -> None:
        if self.scope.is_open:
            self.delegate.painter.plan = plan_drawn(self.scope.view)
            self.viewport().update()

    def _x_at(self, pixel: float) -> float:
        window = self.window_now()
        return window.low + (pixel - window.left) * (window.high - window.low) / (window.right - window.left)

    def _in_lane(self, pixel: float) -> bool:
        return self.span[0] <= pixel <= self.span[1]

    def mousePressEvent(self, event: QMouseEvent) -> None:
        x = event.position().x()
        self._pressed = self._dragged = x if self._in_lane(x) else None
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._dragged is None or self._pressed is None:
            super().mouseMoveEvent(event)
            return
        x = event.position().x()
        if abs(x - self._pressed) > 4 or self._dragged != self._pressed:
            change = panned(self.scope, (self._dragged - x) / max(self.span[1] - self.span[0], 1))
            self._dragged = x
            self.scope.look(**change)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._pressed is not None and self._dragged == self._pressed:
            index = self.indexAt(event.position().toPoint())
            query = self.lane_model.lane(index).query if index.isValid() else self.scope.view.query
            position = int(self.scope.axis.position_at(self._x_at(event.position().x())))
            self.scope.look(cursor=position, query=query, allocation=None)
        self._pressed = self._dragged = None
        super().mouseReleaseEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if not self._in_lane(event.position().x()):
            super().wheelEvent(event)
            return
        factor = 0.998 ** event.angleDelta().y()
        self.scope.look(**zoomed(self.scope, factor, self._x_at(event.position().x())))
        event.accept()
