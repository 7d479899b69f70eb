"""The part of a page that has docks: a main window inside the page, with the charts in its middle."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QGuiApplication, QMouseEvent
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QMenu, QTabBar, QTabWidget, QWidget

from .dock import Dock
from .slots import Slot

AREAS = {
    "bottom": Qt.DockWidgetArea.BottomDockWidgetArea,
    "left": Qt.DockWidgetArea.LeftDockWidgetArea,
    "right": Qt.DockWidgetArea.RightDockWidgetArea,
    "top": Qt.DockWidgetArea.TopDockWidgetArea,
}
PLACES = {
    "bottom": "&Below", "left": "On the &left", "right": "On the &right", "top": "A&bove",
    "window": "In a &window",
}  # fmt: skip
"""Where a dock can be put, and how a menu calls it."""
_HINT = "Drag to another side, or out; a double click gives it a window of its own; right click for all places"
_WINDOW = QSize(720, 460)
_WHOLE = 10_000
_FORMAT = 1
"""Of what `saved` gives; a state of another one is not read."""


class DockHost(QMainWindow):
    """Docks by key. `changed` follows what the user does with them, once it rests."""

    changed = Signal()
    asked = Signal(str, bool)
    """(key, whether to show it): a view is shown on all pages or on none."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowFlags(Qt.WindowType.Widget)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.setDockOptions(QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AllowNestedDocks)
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        self.setDocumentMode(True)
        self.setMinimumSize(200, 120)
        self.name = name
        self.docks: dict[str, Dock] = {}
        self.first = b""
        """Where all docks stood at the start."""
        self._latest = ""
        self._apart: list[Dock] = []
        """Docks in windows of their own that are hidden only while another page is in front."""
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self._later.timeout.connect(self._rested)
        self.tabifiedDockWidgetActivated.connect(self._tab_chosen)

    def add(self, key: str, title: str, slot: Slot, area: str = "bottom", beside: str = "", among: str = "") -> Dock:
        """A dock for this slot: `beside` or `among` the tabs of another one, else at a side of its own."""
        dock = Dock(key, title, slot, self)
        if beside in self.docks:
            self.splitDockWidget(self.docks[beside], dock, Qt.Orientation.Horizontal)
        elif among in self.docks:
            self.tabifyDockWidget(self.docks[among], dock)
        else:
            self.addDockWidget(AREAS[area], dock)
        self.docks[key] = dock
        dock.hide_asked.connect(lambda key: self.asked.emit(key, False))
        dock.where_asked.connect(self.offer_places)
        for signal in (dock.topLevelChanged, dock.dockLocationChanged, dock.visibilityChanged):
            signal.connect(self._soon)
        dock.installEventFilter(self)
        return dock

    def area(self, key: str) -> str:
        """The side where it stands, `window` for one on its own."""
        if self.docks[key].isFloating():
            return "window"
        area = self.dockWidgetArea(self.docks[key])
        return next((name for name, found in AREAS.items() if found == area), "")

    def move_to(self, key: str, place: str) -> None:
        """Put a dock at one of `PLACES`: with those that stand there, as a tab."""
        dock = self.docks[key]
        if place == "window":
            dock.setFloating(True)
            dock.resize(dock.size().expandedTo(_WINDOW))
            self._onto_screen(dock)
        elif self.area(key) != place:
            there = [d for d in self.docks.values() if d is not dock and self.area(d.key) == place and not d.isHidden()]
            dock.setFloating(False)
            self.addDockWidget(AREAS[place], dock)
            if there:
                self.tabifyDockWidget(max(there, key=lambda d: len(self.tabifiedDockWidgets(d))), dock)
            else:
                self._give_share(dock, place)
        self.bring_forward(key)

    def _give_share(self, dock: Dock, place: str) -> None:
        """Room for the first dock at a side."""
        least, across = dock.slot.build().minimumSizeHint(), place in ("left", "right")
        whole, needed = (self.width(), least.width()) if across else (self.height(), least.height())
        size = min(max(whole * 25 // 100, needed + 20), whole * 32 // 100)
        way = Qt.Orientation.Horizontal if across else Qt.Orientation.Vertical
        self.resizeDocks([dock], [size], way)

    def bring_forward(self, key: str) -> None:
        """Show a dock before those it shares its place with."""
        dock, self._latest = self.docks[key], key
        if dock.isHidden():
            dock.show()
            self.asked.emit(key, True)
        dock.raise_()
        if dock.isFloating():
            dock.activateWindow()
        self._soon()

    def _tab_chosen(self, dock: QDockWidget) -> None:
        self._latest = dock.objectName()
        self._soon()

    @property
    def front(self) -> str:
        """Key of the dock that was brought forward last, if it is still to be seen; else of the first that is."""
        seen = [key for key, dock in self.docks.items() if dock.slot.is_seen]
        return self._latest if self._latest in seen else (seen[0] if seen else "")

    def go(self, steps: int) -> None:
        """Bring the next dock that is shown forward, around the end, and go into it."""
        shown = list(self.tabs())
        if not shown:
            return
        place = shown.index(self.front) + steps if self.front in shown else 0
        key = shown[place % len(shown)]
        self.bring_forward(key)
        view = self.docks[key].slot.build()
        parts = [part for part in (view, *view.findChildren(QWidget)) if part.isEnabled() and part.isVisibleTo(view)]
        inside = (part for part in parts if part.focusPolicy() & Qt.FocusPolicy.TabFocus)
        next(inside, self.docks[key]).setFocus(Qt.FocusReason.TabFocusReason)

    def tabs(self) -> dict[str, str]:
        """Title of every dock that is shown, by key; those that share a place in the order of their tabs."""
        found: dict[str, str] = {}
        for dock in self.docks.values():
            for one in self._group(dock):
                if not one.isHidden():
                    found.setdefault(one.objectName(), one.windowTitle())
        return found

    def _group(self, dock: Dock) -> list[QDockWidget]:
        """A dock and those that it shares tabs with, in the order of the tabs."""
        group = [dock, *self.tabifiedDockWidgets(dock)]
        titles = {one.windowTitle() for one in group if not one.isHidden()}
        for bar in self.tab_bars():
            order = [bar.tabText(tab) for tab in range(bar.count())]
            if set(order) == titles:
                return sorted((d for d in group if not d.isHidden()), key=lambda d: order.index(d.windowTitle()))
        return group

    def tab_bars(self) -> list[QTabBar]:
        """The bars of tabs that Qt has put between the docks."""
        return self.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly)

    def give_room(self, on: bool) -> None:
        """Give the docks the room of the charts too, or back."""
        middle = self.centralWidget()
        if middle is not None:
            middle.setVisible(not on)

    def give_height(self, key: str, height: int) -> None:
        """So many pixels to a dock above or below the charts."""
        self.resizeDocks([self.docks[key]], [height], Qt.Orientation.Vertical)

    def give_widths(self, widths: dict[str, int]) -> None:
        """So many pixels to docks that stand beside each other or beside the charts."""
        self.resizeDocks([self.docks[key] for key in widths], list(widths.values()), Qt.Orientation.Horizontal)

    def saved(self) -> bytes:
        """Where all docks stand, with the size of this widget it holds for."""
        return bytes(self.saveState(_FORMAT).data())

    def shares(self) -> dict[str, int]:
        """What docks that can be seen have of the width and the height of all, in parts of 10,000."""
        width, height, found = max(self.width(), 1), max(self.height(), 1), {}
        for key, dock in self.docks.items():
            if dock.slot.is_seen and not dock.isFloating():
                found[f"{key} across"] = dock.width() * _WHOLE // width
                found[f"{key} down"] = dock.height() * _WHOLE // height
        return found

    def give_shares(self, shares: dict[str, int]) -> None:
        """Give the docks such shares of what there is now."""
        ways = (("across", Qt.Orientation.Horizontal, self.width()), ("down", Qt.Orientation.Vertical, self.height()))
        for area in AREAS:
            for name, way, whole in ways:
                docks = [dock for key, dock in self.docks.items() if f"{key} {name}" in shares and not dock.isHidden()]
                docks = [dock for dock in docks if self.area(dock.key) == area]
                self.resizeDocks(docks, [shares[f"{dock.key} {name}"] * whole // _WHOLE + 1 for dock in docks], way)

    def put_back(self, state: bytes) -> bool:
        """Put docks where they stood; False, and nothing is changed, if the state is not a good one."""
        if not state or not self.restoreState(state, _FORMAT):
            return False
        for dock in self.docks.values():
            if dock.isFloating():
                self._onto_screen(dock)
        self._soon()
        return True

    def _onto_screen(self, dock: Dock) -> None:
        """A window that no screen shows enough of stands over the page."""
        place = dock.geometry()
        rooms = [screen.availableGeometry() for screen in QGuiApplication.screens()]
        if not any(room.intersected(place).width() >= 80 and _holds_title(room, place) for room in rooms):
            middle = QRect(QPoint(0, 0), place.size().boundedTo(rooms[0].size()))
            middle.moveCenter(self.mapToGlobal(self.rect().center()))
            dock.setGeometry(middle)

    def set_apart_shown(self, shown: bool) -> None:
        """Windows of docks come and go with their page."""
        if shown:
            for dock in self._apart:
                dock.show()
            self._apart = []
        else:
            self._apart = [dock for dock in self.docks.values() if dock.isFloating() and not dock.isHidden()]
            for dock in self._apart:
                dock.hide()

    def offer_places(self, key: str, where: QPoint) -> None:
        """A menu of where the dock can stand."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addActions(self.place_actions(key, menu))
        menu.addSeparator()
        menu.addAction("&Hide").triggered.connect(lambda: self.asked.emit(key, False))
        menu.popup(where)

    def place_actions(self, key: str, parent: QObject) -> list[QAction]:
        """An entry of a menu for each place; that where the dock stands is marked."""
        made = []
        for place, text in PLACES.items():
            action = QAction(text, parent)
            action.setCheckable(True)
            action.setChecked(self.area(key) == place)
            action.triggered.connect(partial(self._placed, key, place))
            made.append(action)
        return made

    def _placed(self, key: str, place: str, _on: bool = True) -> None:
        self.move_to(key, place)

    def _soon(self, *_: object) -> None:
        self._later.start()

    def _rested(self) -> None:
        self._later.stop()
        for dock in self.docks.values():
            beside = [other for other in self.tabifiedDockWidgets(dock) if not other.isHidden()]
            dock.title_bar.set_slim(bool(beside) and not dock.isFloating())
            dock.look()
        for bar in self.tab_bars():
            if bar.property("ours") is None:
                self._set_up(bar)
        self.changed.emit()

    def settle(self) -> None:
        """Do now what waits until the docks rest."""
        if self._later.isActive():
            self._rested()

    def _set_up(self, bar: QTabBar) -> None:
        bar.setProperty("ours", True)
        bar.setAccessibleName(self.name)
        bar.setDrawBase(False)
        bar.setExpanding(False)
        bar.setElideMode(Qt.TextElideMode.ElideNone)
        bar.setUsesScrollButtons(True)
        bar.setToolTip(_HINT)
        bar.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        bar.customContextMenuRequested.connect(partial(self._tab_menu, bar))
        bar.installEventFilter(self)

    def _dock_at(self, bar: QTabBar, place: QPoint) -> Dock | None:
        title = bar.tabText(bar.tabAt(place))
        return next((dock for dock in self.docks.values() if dock.windowTitle() == title), None)

    def _tab_menu(self, bar: QTabBar, place: QPoint) -> None:
        dock = self._dock_at(bar, place)
        if dock is not None:
            self.offer_places(dock.key, bar.mapToGlobal(place))

    def _dragged(self, bar: QTabBar, event: QMouseEvent) -> bool:
        """A tab that is dragged off its bar is a dock that is dragged; Qt does so only for whole groups of tabs."""
        off = 3 * QApplication.startDragDistance()
        place = event.position().toPoint()
        if event.buttons() != Qt.MouseButton.LeftButton or bar.rect().adjusted(-off, -off, off, off).contains(place):
            return False
        title = bar.tabText(bar.currentIndex())
        dock = next((dock for dock in self.docks.values() if dock.windowTitle() == title), None)
        if dock is None or dock.isFloating():
            return False
        inside = QPointF(bar.tabRect(bar.currentIndex()).center())
        _send(bar, QEvent.Type.MouseButtonRelease, inside, QPointF(bar.mapToGlobal(inside.toPoint())))
        dock.begin_drag(event.globalPosition())
        return True

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if kind == QEvent.Type.MouseButtonDblClick and isinstance(watched, QTabBar) and isinstance(event, QMouseEvent):
            dock = self._dock_at(watched, event.position().toPoint())
            if dock is not None:
                self.move_to(dock.key, "window")
                return True
        elif kind == QEvent.Type.MouseMove and isinstance(watched, QTabBar) and isinstance(event, QMouseEvent):
            return self._dragged(watched, event)
        elif kind in (QEvent.Type.Resize, QEvent.Type.Move) and isinstance(watched, Dock):
            self._later.start()
        return False


def _send(bar: QTabBar, kind: QEvent.Type, place: QPointF, on_screen: QPointF) -> None:
    left, none = Qt.MouseButton.LeftButton, Qt.MouseButton.NoButton
    QApplication.sendEvent(bar, QMouseEvent(kind, place, on_screen, left, none, Qt.KeyboardModifier.NoModifier))


def _holds_title(room: QRect, place: QRect) -> bool:
    """Whether the part by which a window can be dragged lies in this room."""
    return room.top() <= place.top() <= room.bottom() - 30
