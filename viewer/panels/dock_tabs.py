"""The tabs between docks: what the mouse does with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QTabBar, QWidget

from .dock import Dock

_HINT = "Drag to another side, or out; a double click gives it a window of its own; right click for all places"


class DockTabs(QObject):
    """Looks after the bars of tabs that Qt puts between the docks of a host."""

    moved = Signal()
    """A tab has another place among the others."""

    def __init__(self, host: QMainWindow, docks: dict[str, Dock], move_to: Callable[[str, str], None]) -> None:
        """`move_to(key, place)` puts a dock elsewhere."""
        super().__init__(host)
        self.host, self.docks, self.move_to = host, docks, move_to

    def bars(self) -> list[QTabBar]:
        """Those that there are now."""
        return self.host.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly)

    def set_up(self, name: str) -> None:
        """Make bars that Qt has made since look and act like the others; `name` is for those who hear it."""
        for bar in self.bars():
            if bar.property("ours") is None:
                self._set_up(bar, name)

    def _set_up(self, bar: QTabBar, name: str) -> None:
        bar.setProperty("ours", True)
        bar.setAccessibleName(name)
        bar.setDrawBase(False)
        bar.setExpanding(False)
        bar.setElideMode(Qt.TextElideMode.ElideNone)
        bar.setUsesScrollButtons(True)
        bar.setToolTip(_HINT)
        bar.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        bar.customContextMenuRequested.connect(partial(self._menu, bar))
        bar.tabMoved.connect(self.moved)
        bar.installEventFilter(self)

    def _dock_at(self, bar: QTabBar, tab: int) -> Dock | None:
        title = bar.tabText(tab)
        return next((dock for dock in self.docks.values() if dock.windowTitle() == title), None)

    def _menu(self, bar: QTabBar, place: QPoint) -> None:
        dock = self._dock_at(bar, bar.tabAt(place))
        if dock is not None:
            dock.where_asked.emit(dock.key, bar.mapToGlobal(place))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not isinstance(watched, QTabBar) or not isinstance(event, QMouseEvent):
            return False
        dragged = QWidget.mouseGrabber()
        if isinstance(dragged, Dock):
            return _pass_on(event, dragged)
        if event.type() == QEvent.Type.MouseMove:
            return self._dragged(watched, event)
        dock = self._dock_at(watched, watched.tabAt(event.position().toPoint()))
        if event.type() != QEvent.Type.MouseButtonDblClick or dock is None:
            return False
        self.move_to(dock.key, "window")
        return True

    def _dragged(self, bar: QTabBar, event: QMouseEvent) -> bool:
        """A tab that is dragged off its bar is a dock that is dragged; Qt does so only for whole groups of tabs."""
        off = 3 * QApplication.startDragDistance()
        place = event.position().toPoint()
        if event.buttons() != Qt.MouseButton.LeftButton or bar.rect().adjusted(-off, -off, off, off).contains(place):
            return False
        dock = self._dock_at(bar, bar.currentIndex())
        if dock is None or dock.isFloating():
            return False
        inside = QPointF(bar.tabRect(bar.currentIndex()).center())
        _let_go(bar, inside, QPointF(bar.mapToGlobal(inside.toPoint())))
        dock.begin_drag(event.globalPosition())
        return True


def _let_go(bar: QTabBar, place: QPointF, on_screen: QPointF) -> None:
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    kind, keys = QEvent.Type.MouseButtonRelease, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(bar, QMouseEvent(kind, place, on_screen, left, none, keys))


def _pass_on(event: QMouseEvent, dock: Dock) -> bool:
    """The mouse belongs to the dock that is dragged until its button is let go, wherever it was pressed."""
    place, on_screen = QPointF(dock.mapFromGlobal(event.globalPosition().toPoint())), event.globalPosition()
    parts = event.button(), event.buttons(), event.modifiers()
    QApplication.sendEvent(dock, QMouseEvent(event.type(), place, on_screen, *parts))
    return True
