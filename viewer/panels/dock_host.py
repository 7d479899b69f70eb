"""The part of a page that has docks: a main window inside the page, with what the others follow in its middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QMenu, QTabBar, QTabWidget, QWidget

from .dock import Dock
from .dock_rows import put_in_own_row
from .dock_shares import DockShares
from .dock_tabs import DockTabs
from .main_part import go_in, main_part
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
_LEVEL = ("top", "bottom")
_WINDOW = QSize(720, 460)


class DockHost(QMainWindow):
    """Docks by key. `changed` follows what the user does with them, once it rests."""

    changed = Signal()
    asked = Signal(str, bool)
    """(key, whether to show it): a view is shown on all pages or on none."""

    def __init__(self, name: str, parent: QWidget | None = None, version: int = 1) -> None:
        """`version` is that of what `saved` gives: states of another one are not read."""
        super().__init__(parent)
        self.setWindowFlags(Qt.WindowType.Widget)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.setDockOptions(QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AllowNestedDocks)
        self.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        self.setDocumentMode(True)
        self.setMinimumSize(200, 120)
        self.name, self.version = name, version
        self.docks: dict[str, Dock] = {}
        self.absent: dict[str, QDockWidget] = {}
        """What keeps the places of docks that only other pages have, never to be seen: where all docks stand can be put
        back on each page, whichever page it is of."""
        self._tabs = DockTabs(self, self.docks, self.move_to)
        self.shares = DockShares(self)
        self.first = b""
        """Where all docks stood at the start."""
        self._latest = ""
        self.rows: dict[str, Callable[[], int]] = {}
        """Keys of those that have a row of their own where they are above or below the middle, and the pixels of
        height that they need."""
        self._row_heights: dict[str, int] = {}
        self.companions: set[str] = set()
        """Keys of those that give their room away with the middle."""
        self._unwanted: set[str] = set()
        self._apart: list[Dock] = []
        """Docks in windows of their own that are hidden only while another page is in front."""
        self._aside: list[Dock] = []
        """Companions that are hidden only while others have the room of the middle."""
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self._later.timeout.connect(self._rested)
        self.tabifiedDockWidgetActivated.connect(self._tab_chosen)
        self._tabs.moved.connect(self.shares.touch)
        self._tabs.moved.connect(self._soon)

    def add(
        self, key: str, title: str, slot: Slot, area: str = "bottom", beside: str = "", among: str = "", under: str = ""
    ) -> Dock:
        """A dock for this slot: `beside`, `under` or `among` the tabs of another one, else at a side of its own."""
        dock = Dock(key, title, slot, self)
        self._stand(dock, area, beside, among, under)
        self.docks[key] = dock
        dock.hide_asked.connect(lambda key: self.asked.emit(key, False))
        dock.where_asked.connect(self.offer_places)
        for signal in (dock.topLevelChanged, dock.dockLocationChanged, dock.visibilityChanged):
            signal.connect(self._soon)
        for signal in (dock.topLevelChanged, dock.dockLocationChanged):
            signal.connect(self.shares.touch)
        dock.installEventFilter(self)
        return dock

    def keep_place(
        self, key: str, title: str, area: str = "bottom", beside: str = "", among: str = "", under: str = ""
    ) -> None:
        """Like `add`, for a dock that this page has not got."""
        dock = self.absent[key] = QDockWidget(title, self)
        dock.setObjectName(key)
        self._stand(dock, area, beside, among, under)
        dock.hide()

    def _stand(self, dock: QDockWidget, area: str, beside: str, among: str, under: str) -> None:
        there: dict[str, QDockWidget] = {**self.docks, **self.absent}
        if beside in there:
            self.splitDockWidget(there[beside], dock, Qt.Orientation.Horizontal)
        elif under in there:
            self.splitDockWidget(there[under], dock, Qt.Orientation.Vertical)
        elif among in there:
            self.tabifyDockWidget(there[among], dock)
        else:
            self.addDockWidget(AREAS[area], dock)

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
            with self._same_heights(dock):
                dock.setFloating(True)
            dock.resize(dock.size().expandedTo(_WINDOW))
            self._onto_screen(dock)
        elif self.area(key) != place or (self._has_row(dock, place) and not self.fills_row(key)):
            with self._same_heights(dock):
                dock.setFloating(False)
                self._put(dock, place)
        self.bring_forward(key)

    @contextmanager
    def _same_heights(self, dock: Dock) -> Iterator[None]:
        """Where a row comes or goes it is the middle that gives or takes the room, not what stands in rows after it."""
        was_hidden = dock.isHidden()
        others = [one for place in _LEVEL for one in self._standing(place) if one is not dock and one.slot.is_seen]
        heights = {one: self.height_of(one) for one in others if dock.key in self.rows}
        if heights and not was_hidden:
            self._row_heights[dock.key] = dock.height()
        yield
        if heights and was_hidden and self._has_row(dock, self.area(dock.key)):
            heights[dock] = self._row_heights.get(dock.key, self._row_height(dock))
        if heights:
            self.resizeDocks(list(heights), list(heights.values()), Qt.Orientation.Vertical)

    def height_of(self, dock: Dock) -> int:
        """Pixels of the place of a dock, with its tabs."""
        bars = (bar for bar in self.tab_bars() if dock.windowTitle() in map(bar.tabText, range(bar.count())))
        bar = next(bars, None) if dock.title_bar.is_slim else None
        return dock.height() + (bar.height() if bar is not None else 0)

    def _row_height(self, dock: Dock) -> int:
        return min(self.rows[dock.key](), self.height() * 32 // 100)

    def _has_row(self, dock: Dock, place: str) -> bool:
        return dock.key in self.rows and place in _LEVEL

    def _put(self, dock: Dock, place: str) -> None:
        """At a side: in its row, as a tab of those there, or the first there."""
        there = [one for one in self._standing(place) if one is not dock]
        rows = [one for one in there if self._has_row(one, place)]
        others = [one for one in there if one not in rows]
        if self._has_row(dock, place):
            put_in_own_row(self, dock, AREAS[place], self._group)
            self._give_share(dock, place)
            return
        if rows:
            self.addDockWidget(AREAS[place], dock, Qt.Orientation.Vertical)
        else:
            self.addDockWidget(AREAS[place], dock)
        if others:
            self.tabifyDockWidget(max(others, key=lambda one: len(self.tabifiedDockWidgets(one))), dock)
        else:
            for row in rows:
                put_in_own_row(self, row, AREAS[place], self._group)
            self._give_share(dock, place)

    def _standing(self, place: str) -> list[Dock]:
        """Those that are shown at a side."""
        return [dock for dock in self.docks.values() if self.area(dock.key) == place and not dock.isHidden()]

    def fills_row(self, key: str) -> bool:
        """Whether nothing stands beside a dock and shares its height, as tabs behind it do too. A window is no row."""
        dock = self.docks[key]
        others = [one for one in self._standing(self.area(key)) if one is not dock]
        beside = [one for one in others if _are_beside(one.geometry(), dock.geometry())]
        behind = any(one in self.tabifiedDockWidgets(dock) for one in others)
        return not dock.isFloating() and not beside and not behind

    def is_alone(self, key: str) -> bool:
        """Whether nothing else stands at its side."""
        return not self.docks[key].isFloating() and len(self._standing(self.area(key))) < 2

    def _give_share(self, dock: Dock, place: str) -> None:
        """Room for the first dock at a side: a quarter of all, or what it needs, but not most of the middle."""
        if self._has_row(dock, place):
            self.give_height(dock.key, self._row_height(dock))
            return
        least, across, middle = dock.slot.build().minimumSizeHint(), place in ("left", "right"), self.centralWidget()
        whole, needed = (self.width(), least.width()) if across else (self.height(), least.height())
        size = min(max(whole * 25 // 100, needed + 20), whole * 32 // 100)
        if middle is not None and middle.isVisible():
            size = min(size, (middle.width() if across else middle.height()) * 45 // 100)
        way = Qt.Orientation.Horizontal if across else Qt.Orientation.Vertical
        self.resizeDocks([dock], [size], way)

    def bring_forward(self, key: str) -> None:
        """Show a dock before those it shares its place with."""
        dock, self._latest = self.docks[key], key
        if dock.isHidden():
            self._unwanted.discard(key)
            with self._same_heights(dock):
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
        """Go into the dock in front; from there into the next one that is shown and has something for the keys, around
        the end, which it brings forward."""
        shown, focus = list(self.tabs()), QApplication.focusWidget()
        inside = next((key for key in shown if focus is not None and self.docks[key].isAncestorOf(focus)), "")
        start = shown.index(inside or self.front) if (inside or self.front) in shown else 0
        first = steps if inside else 0
        turns = [start + first + (turn if steps > 0 else -turn) for turn in range(len(shown))]
        keys = [shown[turn % len(shown)] for turn in turns]
        key = next((key for key in keys if main_part(self.docks[key].slot.build()) is not None), None)
        if key is not None:
            self.bring_forward(key)
            go_in(self.docks[key].slot.build())

    def tabs(self) -> dict[str, str]:
        """Title of every dock that is shown, by key; those that share a place in the order of their tabs."""
        found: dict[str, str] = {}
        for dock in self.docks.values():
            for one in self._group(dock):
                if not one.isHidden():
                    found.setdefault(one.objectName(), one.windowTitle())
        return found

    def _group(self, dock: QDockWidget) -> list[QDockWidget]:
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
        return self._tabs.bars()

    def give_room(self, on: bool) -> None:
        """Give the docks the room of the middle and of its companions too, or back."""
        middle = self.centralWidget()
        if middle is not None:
            middle.setVisible(not on)
        companions = [self.docks[key] for key in self.companions if not self.docks[key].isFloating()]
        self._aside, before = (companions if on else []), self._aside
        for dock in {*companions, *before}:
            self._show_or_hide(dock)

    def set_shown(self, key: str, shown: bool) -> None:
        """Whether the user wants to see a dock."""
        (self._unwanted.discard if shown else self._unwanted.add)(key)
        self._show_or_hide(self.docks[key])

    def _show_or_hide(self, dock: Dock) -> None:
        shown = dock.key not in self._unwanted and dock not in self._apart and dock not in self._aside
        if dock.isHidden() == shown:
            with self._same_heights(dock):
                dock.setVisible(shown)

    def give_height(self, key: str, height: int) -> None:
        """So many pixels to a dock above or below the charts."""
        self.resizeDocks([self.docks[key]], [height], Qt.Orientation.Vertical)

    def give_widths(self, widths: dict[str, int]) -> None:
        """So many pixels to docks that stand beside each other or beside the charts."""
        self.resizeDocks([self.docks[key] for key in widths], list(widths.values()), Qt.Orientation.Horizontal)

    def saved(self) -> bytes:
        """Where all docks stand, with the size of this widget it holds for."""
        return bytes(self.saveState(self.version).data())

    def put_back(self, state: bytes) -> bool:
        """Put docks where they stood; False, and nothing is changed, if the state is not a good one."""
        if not state or not self.restoreState(state, self.version):
            return False
        for absent in self.absent.values():
            absent.hide()
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
        floating = [dock for dock in self.docks.values() if dock.isFloating()]
        self._apart, before = ([] if shown else floating), self._apart
        for dock in before if shown else floating:
            self._show_or_hide(dock)

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
            dock.title_bar.set_low(self.area(dock.key) not in ("bottom", "window"))
            dock.look()
        self._tabs.set_up(self.name)
        self.changed.emit()

    def settle(self) -> None:
        """Do now what waits until the docks rest."""
        if self._later.isActive():
            self._rested()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Move) and isinstance(watched, Dock):
            self._later.start()
        return False


def _are_beside(one: QRect, other: QRect) -> bool:
    """Whether two docks stand in one row. Where there is too little room Qt lays docks over each other by some pixels:
    those under each other are the ones that share more of their width than of their height."""
    across = min(one.right(), other.right()) - max(one.left(), other.left()) + 1
    down = min(one.bottom(), other.bottom()) - max(one.top(), other.top()) + 1
    return down > 0 and across < down


def _holds_title(room: QRect, place: QRect) -> bool:
    """Whether the part by which a window can be dragged lies in this room."""
    return room.top() <= place.top() <= room.bottom() - 30
