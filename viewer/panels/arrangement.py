"""How the window is laid out: which views are hidden, how the room is shared, which tab is in front; remembered.

Views are parts of splitters and tabs, not docks: lanes, ribbon and timeline share one x axis, which they keep only
while they stand under each other. So a view can be hidden and given room, and cannot be torn off.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QSplitter, QWidget

from ..state.settings import Settings
from .compare_page import ComparePage
from .registry import VIEWS
from .run_page import RunPage

_HIDDEN, _FRONT, _SIZES = "layout/hidden", "layout/front", "layout/sizes"
_NO_LIMIT = 16777215  # Qt's largest size of a widget
HIDEABLE = tuple(spec for spec in VIEWS if spec.place != "chart")
"""The timeline stays: it is the axis that the others follow."""


class Arrangement(QObject):
    """One arrangement for all pages; each is given it when it is adopted."""

    changed = Signal()

    def __init__(self, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.settings = settings
        self._pages: dict[QWidget, dict[str, list[int]]] = {}
        """The sizes that each page began with, once it was shown."""
        self._applying = False

    @property
    def hidden(self) -> frozenset[str]:
        """Keys of the views that are not shown."""
        return frozenset(self.settings.texts(_HIDDEN)) & {spec.key for spec in HIDEABLE}

    def show_view(self, key: str, shown: bool) -> None:
        """Show a view or hide it, on every page."""
        hidden = self.hidden - {key} if shown else self.hidden | {key}
        self.settings.set(_HIDDEN, sorted(hidden))
        self._apply_to_all()

    def reset(self) -> None:
        """Show everything, and share the room as at the start."""
        self.settings.forget("layout")
        self._apply_to_all()
        for page, first in self._pages.items():
            for name, splitter in splitters(page).items():
                splitter.setSizes(first.get(name, splitter.sizes()))

    def adopt(self, page: RunPage | ComparePage) -> None:
        """Lay a new page out like the others, and remember what the user changes in it."""
        self._pages[page] = {}
        page.destroyed.connect(lambda *_: self._pages.pop(page, None))
        self._hide_in(page)
        for name, splitter in splitters(page).items():
            splitter.splitterMoved.connect(lambda *_, name=name, splitter=splitter: self._moved(page, name, splitter))
        if isinstance(page, RunPage):
            self._to_front(page)
            page.tabs.currentChanged.connect(lambda tab: self._fronted(page, tab))
        page.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """A page shares its room when it is first shown; only then can its sizes be changed."""
        if event.type() == QEvent.Type.Show and isinstance(watched, RunPage | ComparePage):
            watched.removeEventFilter(self)
            QTimer.singleShot(0, watched, lambda: self._restore(watched))
        return False

    def _apply_to_all(self) -> None:
        for page in self._pages:
            self._hide_in(page)
        self.changed.emit()

    def _hide_in(self, page: QWidget) -> None:
        if not isinstance(page, RunPage):
            return
        hidden, self._applying = self.hidden, True
        for spec in HIDEABLE:
            widget = page.views.get(spec.key)
            if widget is None:
                continue
            tab = page.tabs.indexOf(widget)
            if tab >= 0:
                page.tabs.setTabVisible(tab, spec.key not in hidden)
            else:
                widget.setVisible(spec.key not in hidden)
        page.tabs.setVisible(any(page.tabs.isTabVisible(tab) for tab in range(page.tabs.count())))
        _give_room(page)
        self._applying = False

    def _to_front(self, page: RunPage) -> None:
        widget = page.views.get(self.settings.text(_FRONT))
        if widget is not None and page.tabs.indexOf(widget) >= 0 and page.tabs.isTabVisible(page.tabs.indexOf(widget)):
            page.tabs.setCurrentWidget(widget)

    def _fronted(self, page: RunPage, tab: int) -> None:
        key = next((key for key, widget in page.views.items() if widget is page.tabs.widget(tab)), "")
        if self._applying or not key:
            return
        self.settings.set(_FRONT, key)
        if key in self.hidden:  # a number in the headline led to it
            self.show_view(key, True)

    def _moved(self, page: QWidget, name: str, splitter: QSplitter) -> None:
        known = self.settings.sizes(f"{_SIZES}/{name}")
        for number, (part, size) in enumerate(zip(_parts(page, splitter), splitter.sizes())):
            if size > 0 and not _is_folded(splitter.widget(number)):
                known[part] = size
        self.settings.set(f"{_SIZES}/{name}", known)

    def _restore(self, page: RunPage | ComparePage) -> None:
        if page not in self._pages:
            return
        self._pages[page] = {name: splitter.sizes() for name, splitter in splitters(page).items()}
        for name, splitter in splitters(page).items():
            known = self.settings.sizes(f"{_SIZES}/{name}")
            parts, sizes = _parts(page, splitter), splitter.sizes()
            if known:
                splitter.setSizes([known.get(part, size) for part, size in zip(parts, sizes)])


def _give_room(page: RunPage) -> None:
    """Where no table is left, the part below is as high as the filter."""
    box, rest = page.beside.parentWidget(), [page.beside.widget(i) for i in range(page.beside.count())]
    is_empty = all(widget is None or widget.isHidden() for widget in rest)
    page.beside.setVisible(not is_empty)
    if box is not None and box is not page.split:
        box.setMaximumHeight(page.filter.sizeHint().height() if is_empty else _NO_LIMIT)


def splitters(page: QWidget) -> dict[str, QSplitter]:
    """The splitters of a page by name."""
    if not isinstance(page, RunPage):
        return {f"compare-{i}": splitter for i, splitter in enumerate(page.findChildren(QSplitter))}
    own = {name: getattr(page, name, None) for name in ("across", "split", "beside")}
    found = {name: splitter for name, splitter in own.items() if isinstance(splitter, QSplitter)}
    for key, view in page.views.items():
        found |= {f"{key}-{i}": splitter for i, splitter in enumerate(view.findChildren(QSplitter))}
    return found


def _parts(page: QWidget, splitter: QSplitter) -> list[str]:
    """Names of what a splitter divides: the key of a view, else where it stands."""
    keys = {id(widget): key for key, widget in getattr(page, "views", {}).items()}
    last = splitter.count() - 1
    return [
        keys.get(id(splitter.widget(i)), "first" if i == 0 else "last" if i == last else str(i))
        for i in range(splitter.count())
    ]


def _is_folded(widget: QWidget | None) -> bool:
    """Whether it is held to a height of its own, as folded lanes are."""
    return widget is not None and widget.maximumHeight() < _NO_LIMIT
