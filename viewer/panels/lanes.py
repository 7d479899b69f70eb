"""The lanes: a tree of super-blocks and layers whose rows go on as bytes over time, aligned with the timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import (
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRectF,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QColor, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPen, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
    QTreeView,
    QWidget,
)

from ..charts.keys import moved_from_afar, panned, zoomed
from ..charts.lane_painter import LanePainter, Window
from ..charts.theme import Theme, colour, current
from ..look.tips import tip
from ..state.lane_model import LANE, MEASURED, NAME, PREDICTED, LaneModel
from ..state.lane_text import lane_text
from ..state.lanes import CONTENTS, Lane, lanes_of
from ..state.pointed import NOTHING, Pointed
from ..state.scope import Scope
from ..state.session import Drag, Gesture
from ..state.view_state import RunView, Segments
from ..state.within import CURSOR, limit_query, within_of

Index = QModelIndex | QPersistentModelIndex
OUTER_ROW, INNER_ROW = 50, 32
LEAST_NAMES = 60
"""Pixels of the names, without which nobody knows whose lane it is."""
_NAMES, _NUMBERS = 110, 84
"""Pixels of the names beside numbers, and of a column of numbers; where both do not fit numbers go first."""
_OWN_NAMES, _OWN_SHARE, _OWN_MARGIN = 200, 55, 8
"""Of lanes that stand elsewhere: pixels of the names, percent of the width for names and numbers, pixels after it."""
_REST = 60
"""Milliseconds that a plan stays the same before its lines are drawn."""
_TINT = 34
"""How strong the colour over the lane under the pointer is, of 255."""
_MOVED = 25
"""Milliseconds that a range rests before the lanes are cut to it."""


def plan_drawn(view: RunView) -> Segments | None:
    """The plan whose prediction is drawn: shapes do not know operators, so none where some are kept."""
    return None if view.keep else view.plan


class LaneDelegate(QStyledItemDelegate):
    """Paints the last column as a lane; `window()` says what part of the axis lies between which pixels."""

    def __init__(self, model: LaneModel, window: Callable[[], Window], cursor: Callable[[], int], parent: QWidget):
        super().__init__(parent)
        self.model, self.window, self.cursor = model, window, cursor
        self.painter = LanePainter(model.lanes)
        self.pointed: Lane | None = None
        """The lane under the pointer."""
        self.theme: Theme = current()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(60, INNER_ROW if self.model.is_inner(index) else OUTER_ROW)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        is_pointed = self.model.lane(index) is self.pointed
        if index.column() != LANE:
            if is_pointed:
                painter.fillRect(option.rect, colour(self.theme.accent, _TINT))
            super().paint(painter, option, index)
            return
        rect, window = QRectF(option.rect), self.window()
        rect.setRight(window.right)
        painter.save()
        painter.setClipRect(rect.adjusted(0, 0, 1, 0))
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, QColor(self.theme.raised))
        if is_pointed:
            painter.fillRect(rect, colour(self.theme.accent, _TINT))
        scale = self.model.lanes.scales[self.model.is_inner(index)]
        self.painter.paint(painter, rect, self.model.lane(index), window, scale, self.theme)
        x = window.px_of(self.cursor())
        painter.setPen(QPen(QColor(self.theme.accent), 1.6))
        painter.drawLine(QPointF(x, rect.top()), QPointF(x, rect.bottom() + 1))  # the pixels that the timeline gives it
        painter.restore()


class LaneTree(QTreeView):
    """Names and numbers on the left, lanes on the right: in one column with the timeline exactly as wide as its plot,
    elsewhere as wide as there is room. The visible range of time is that of the scope, here as there."""

    resized = Signal()

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.theme: Theme = current()
        self.span = (0, 1)
        """Left and right edge of the lanes in pixels of this widget's viewport."""
        self.is_aligned = False
        """Whether these are the edges of the timeline's plot."""
        self._pressed: float | None = None
        """Where a button was pressed on the lanes, None while none is."""
        self._held = (0.0, 0.0)
        """What was on screen then."""
        self._is_drag = False
        self._gesture: Gesture = Drag()
        """What the mouse does with the lanes, or did last."""
        self.setAccessibleName("Lanes: bytes over time of each super-block and layer")
        self.setUniformRowHeights(False)
        self.setWordWrap(True)
        self.setRootIsDecorated(True)
        self.setIndentation(16)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QTreeView.ScrollMode.ScrollPerPixel)
        self.header().setSectionsMovable(False)
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.header().setMinimumSectionSize(20)
        self.setMouseTracking(True)
        self._says = False
        """Whether words of a lane are shown."""
        scope.pointed.connect(self._pointed)
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(_REST)
        self._rest.timeout.connect(self._draw_tried)
        self._fill()
        self._moved = QTimer(self)
        self._moved.setSingleShot(True)
        self._moved.setInterval(_MOVED)
        self._moved.timeout.connect(self._limit)
        scope.changed.connect(self._view_changed)

    def _fill(self) -> None:
        title, categories = CONTENTS[self.scope.view.lanes]
        lanes = lanes_of(self.scope.run, categories)
        self.lane_model = LaneModel(lanes, self.scope.view.cursor, title, self)
        self._limit_model()
        self.delegate = LaneDelegate(self.lane_model, self.window_now, lambda: self.scope.view.cursor, self)
        self.delegate.theme = self.theme
        self.delegate.painter.plan = plan_drawn(self.scope.view)
        unfolded = [row for row in range(len(lanes.outer)) if self._is_unfolded(row)]
        self.setModel(self.lane_model)
        self.setItemDelegate(self.delegate)
        for row in unfolded:
            self.expand(self.lane_model.index(row, NAME))
        self.selectionModel().currentRowChanged.connect(self._picked)
        if self.is_aligned:
            self.set_span(self.span)
        else:
            self.use_own_width()

    def _limit_model(self) -> None:
        """Count and draw only what the filter and the range leave."""
        view = self.scope.view
        limit = limit_query(view)
        mask = None if limit is None else limit.mask(self.scope.run)
        self.lane_model.restrict(mask, within_of(view) != CURSOR)

    def _limit(self) -> None:
        if self.scope.is_open:
            self._limit_model()
            self.delegate.painter.forget()
            self.viewport().update()

    def _is_unfolded(self, row: int) -> bool:
        model = self.model()
        return model is not None and self.isExpanded(model.index(row, NAME))

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = self.delegate.theme = theme
        self.viewport().update()

    def set_span(self, span: tuple[int, int]) -> None:
        """Put the lanes between these two pixels of the viewport, the edges of the timeline's plot."""
        self.is_aligned = True
        self._put(span)

    def use_own_width(self) -> None:
        """Put the lanes where there is room for them, as nothing stands in one column with them."""
        self.is_aligned = False
        width = self.viewport().width()
        left = min(_OWN_NAMES + _NUMBERS * (2 if self._has_predicted else 1), max(width * _OWN_SHARE // 100, _NAMES))
        self._put((left, max(width - _OWN_MARGIN, left + 1)))

    def _put(self, span: tuple[int, int]) -> None:
        self.span = span
        room = span[0] - _NAMES
        shown = {MEASURED: room >= _NUMBERS, PREDICTED: self._has_predicted and room >= 2 * _NUMBERS}
        for column, is_shown in shown.items():
            self.setColumnHidden(column, not is_shown)
            self.setColumnWidth(column, _NUMBERS)
        self.setColumnWidth(NAME, max(span[0] - _NUMBERS * sum(shown.values()), LEAST_NAMES))
        self.setColumnWidth(LANE, max(self.viewport().width() - span[0], 60))
        self.viewport().update()

    @property
    def _has_predicted(self) -> bool:
        return any(self.lane_model.lanes.predicted(lane) for lane in self.lane_model.lanes.outer)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if not self.is_aligned:
            self.use_own_width()
        self.resized.emit()

    def window_now(self) -> Window:
        """What part of the axis is on screen, and where."""
        low, high = self.scope.visible
        return Window(self.scope.axis, low, high, float(self.span[0]), float(max(self.span[1], self.span[0] + 1)))

    def _picked(self, index: QModelIndex, _previous: QModelIndex) -> None:
        if index.isValid() and self.hasFocus():
            self.scope.look(("lanes",), query=self.lane_model.lane(index).query, allocation=None)

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.lanes != new.lanes:
            self._fill()
        if old.cursor != new.cursor:
            self.lane_model.move_cursor(new.cursor)
        if limit_query(old) != limit_query(new):
            self._moved.start()
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

    def _hover(self, place: QPoint, at: QPoint) -> bool:
        """Say what is under the pointer, and show it; whether it is a lane."""
        index = self.indexAt(place)
        self.scope.point(Pointed(query=self.lane_model.lane(index).query) if index.isValid() else NOTHING)
        inside = index.isValid() and self._in_lane(place.x())
        if inside:
            position = int(self.scope.axis.position_at(self._x_at(place.x())))
            said = lane_text(self.lane_model.lanes, self.lane_model.lane(index), position, self.delegate.painter.plan)
            QToolTip.showText(at, tip(said), self.viewport())
        elif self._says:
            QToolTip.hideText()  # what was said of a lane
        self._says = inside
        return inside

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.scope.point()
        if isinstance(event, QHelpEvent) and self._hover(event.pos(), event.globalPos()):
            return True
        return super().viewportEvent(event)

    def _pointed(self, at: Pointed) -> None:
        """Only the rows that change are painted."""
        before, self.delegate.pointed = self.delegate.pointed, None
        if at.query is not None:
            self.delegate.pointed = next((lane for lane in self.lane_model.lanes.all if lane.query == at.query), None)
        if before is not self.delegate.pointed:
            for lane in (before, self.delegate.pointed):
                self._repaint(lane)

    def _repaint(self, lane: Lane | None) -> None:
        index = self.indexAt(QPoint(1, 0))
        while lane is not None and index.isValid():
            rect = self.visualRect(index)
            if rect.top() > self.viewport().height():
                return
            if self.lane_model.lane(index) is lane:
                self.viewport().update(0, rect.top(), self.viewport().width(), rect.height())
                return
            index = self.indexBelow(index)

    def _x_at(self, pixel: float) -> float:
        window = self.window_now()
        return window.low + (pixel - window.left) * (window.high - window.low) / (window.right - window.left)

    def _in_lane(self, pixel: float) -> bool:
        return self.span[0] <= pixel <= self.span[1]

    def mousePressEvent(self, event: QMouseEvent) -> None:
        x = event.position().x()
        if not self._in_lane(x):
            self._pressed = None
            super().mousePressEvent(event)
            return
        self._pressed, self._held, self._is_drag = x, self.scope.visible, False
        self._gesture = Drag()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pressed is None:
            super().mouseMoveEvent(event)
            if event.buttons() == Qt.MouseButton.NoButton:
                self._hover(event.position().toPoint(), event.globalPosition().toPoint())
            return
        way = self._pressed - event.position().x()
        self._is_drag |= abs(way) > 4
        if self._is_drag:
            change = panned(self.scope, way / max(self.span[1] - self.span[0], 1), self._held)
            self.scope.look(self._gesture, **change)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._pressed is not None and not self._is_drag:
            index = self.indexAt(event.position().toPoint())
            query = self.lane_model.lane(index).query if index.isValid() else self.scope.view.query
            position = int(self.scope.axis.position_at(self._x_at(event.position().x())))
            self.scope.look(self._gesture, cursor=position, query=query, allocation=None)
            if index.isValid():
                flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
                self.selectionModel().setCurrentIndex(index, flags)
        self._pressed = None
        super().mouseReleaseEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if not self._in_lane(event.position().x()):
            super().wheelEvent(event)
            return
        factor = 0.998 ** event.angleDelta().y()
        self.scope.look(("wheel",), **zoomed(self.scope, factor, self._x_at(event.position().x())))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """What keys do in the timeline they do here too, but for those that go through the rows."""
        if moved_from_afar(event, self.scope) is None:
            super().keyPressEvent(event)
        else:
            event.ignore()  # the window does it
