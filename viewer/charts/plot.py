"""What the charts with a plot have in common: words under the pointer, keys, and the visible range of the scope."""

from __future__ import annotations

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from ..look.tips import tip
from ..state.scope import Scope
from ..state.within import CURSOR
from .keys import held, moved
from .time_view import HALF, TimeView


class Plot(pg.GraphicsLayoutWidget):
    """A chart with one plot that says what is under the pointer."""

    view: TimeView

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self._says = False
        """Whether words of the chart are shown."""

    def hover_text(self, x: float, y: float) -> str:
        """What is under this point of the plot, in words."""
        raise NotImplementedError

    def point_at(self, where: QPointF | None) -> None:
        """The pointer rests on this point of the plot, None for none."""

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.point_at(None)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        place = event.position() + HALF / self.devicePixelRatioF()
        scene = self.viewportTransform().inverted()[0].map(place)  # mapToScene would round
        if event.buttons() == Qt.MouseButton.NoButton and self.view.sceneBoundingRect().contains(scene):
            where = self.view.mapSceneToView(scene)
            QToolTip.showText(event.globalPosition().toPoint(), tip(self.hover_text(where.x(), where.y())), self)
            self.point_at(where)
            self._says = True
        else:
            self.point_at(None)
            if self._says:
                QToolTip.hideText()  # it would stay as long as the pointer is over any part of the chart
            self._says = False


class RunPlot(Plot):
    """A plot of one run. Reads the scope, changes only the scope."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope, self.run = scope, scope.run
        self._setting = False

    def follow(self, view: TimeView) -> None:
        """Make this the plot; whoever moves or brushes it changes the scope."""
        self.view = view
        view.brushed.connect(self._brushed)
        view.sigXRangeChanged.connect(self._range_changed)

    def bound(self, top: float) -> None:
        """Keep the plot inside the axis and this height."""
        self._setting = True
        self.view.bound(self.scope.axis, top)
        self._setting = False

    def show_range(self) -> None:
        """Show what the scope says is visible."""
        self._setting = True
        self.view.setXRange(*self.scope.visible, padding=0)
        self._setting = False

    def _range_changed(self, _view: object, span: tuple[float, float]) -> None:
        if not self._setting:
            axis = self.scope.axis
            whole = span[0] <= axis.edges[0] and span[1] >= axis.edges[-1]
            visible = None if whole else (axis.fraction_at(span[0]), axis.fraction_at(span[1]))
            self.scope.look(self.view.gesture, visible=visible)

    def _brushed(self, from_x: float, to_x: float) -> None:
        """A stretch drawn with Shift held: its ends are the mark and the cursor, and the tables show it."""
        self.setFocus()
        mark, cursor = (int(self.scope.axis.position_at(x)) for x in (from_x, to_x))
        within = self.scope.view.within
        within = "alive" if within == CURSOR else within
        self.scope.look(self.view.gesture, mark=mark, cursor=cursor, within=within, allocation=None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        change = moved(event, self.scope)
        if change is None:
            event.ignore()
            return
        self.scope.look(held(event), **change)
