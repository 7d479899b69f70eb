"""How the window is laid out: which views are hidden, where the docks stand, how the room is shared; remembered.

The timeline stays in the middle of a run's page, as the curves do in that of a comparison: theirs is the axis that the
others follow. Every other view is a dock.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from functools import partial

from PySide6.QtCore import QEvent, QObject, Signal
from PySide6.QtWidgets import QSplitter, QWidget

from ..state.settings import Settings
from .compare_page import ComparePage
from .run_page import RunPage

Page = RunPage | ComparePage

_HIDDEN, _SIZES, _FOLDED = "layout/hidden", "layout/sizes", "layout/folded"


class Arrangement(QObject):
    """One arrangement for all pages of runs and one for those of comparisons; each page is given it when adopted."""

    changed = Signal()

    def __init__(self, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.settings = settings
        self._pages: dict[Page, str | None] = {}
        """What was last remembered of, or given to, the docks of each page; None before it was laid out."""
        self._applying = self._ended = False

    def end(self) -> None:
        """Remember nothing from here on: the window is closed, and its parts go one after the other."""
        self._ended = True

    @property
    def hidden(self) -> frozenset[str]:
        """Keys of the views that are not shown."""
        return frozenset(self.settings.texts(_HIDDEN))

    def show_view(self, key: str, shown: bool) -> None:
        """Show a view or hide it, on every page; shown it comes forward."""
        hidden = self.hidden - {key} if shown else self.hidden | {key}
        self.settings.set(_HIDDEN, sorted(hidden))
        for page in self._pages:
            self._hide_in(page)
            if shown and key in page.docks.docks and page.isVisible():
                page.docks.bring_forward(key)
        self.changed.emit()

    def reset(self) -> None:
        """Show everything, and share the room as at the start."""
        self.settings.forget("layout")
        for page in self._pages:
            if self._pages[page] is None:
                continue
            self._applying = True
            page.docks.put_back(page.docks.first)
            self._hide_in(page)
            page.docks.settle()
            if isinstance(page, RunPage) and page.charts is not None:
                page.charts.fold_is_chosen = False
            page.share()
            self._applying = False
            self._pages[page] = ""
        self.changed.emit()

    def adopt(self, page: Page) -> None:
        """Lay a new page out like the others, and remember what the user changes in it."""
        self._pages[page] = None
        page.destroyed.connect(lambda *_: self._pages.pop(page, None))
        self._hide_in(page)
        page.laid_out.connect(partial(self._first, page))
        page.made.connect(partial(self._adopt_view, page))
        page.docks.asked.connect(self._asked)
        page.docks.changed.connect(partial(self._store, page))
        if isinstance(page, RunPage) and page.charts is not None:
            page.charts.fold_chosen.connect(lambda folded: self.settings.set(_FOLDED, [int(folded)]))
        page.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """A page that comes to the front takes over what was changed in another; its windows come and go with it."""
        if isinstance(watched, Page) and not event.spontaneous() and self._pages.get(watched) is not None:
            if event.type() == QEvent.Type.Show:
                self._bring_up_to_date(watched)
                watched.docks.set_apart_shown(True)
            elif event.type() == QEvent.Type.Hide:
                self._store(watched, hiding=True)
                watched.docks.set_apart_shown(False)
        return False

    def _asked(self, key: str, shown: bool) -> None:
        if not self._ended and (key not in self.hidden) != shown:
            self.show_view(key, shown)

    def _hide_in(self, page: Page) -> None:
        hidden = self.hidden
        for key in page.docks.docks:
            page.docks.set_shown(key, key not in hidden)

    def _first(self, page: Page) -> None:
        self._pages[page] = ""
        self._bring_up_to_date(page)

    def _bring_up_to_date(self, page: Page) -> None:
        self._applying = True
        text = self.settings.text(_docks_of(page))
        if isinstance(page, RunPage) and page.charts is not None and self.settings.numbers(_FOLDED):
            page.charts.fold_is_chosen = True
            page.charts.set_folded(self.settings.numbers(_FOLDED) == (1,))
        is_put_back = text and text != self._pages[page] and page.docks.put_back(_state(text))
        self._hide_in(page)
        if is_put_back:
            page.docks.shares.give(self.settings.sizes(_shares_of(page)))
        front = self.settings.text(_front_of(page))
        if front in page.docks.docks and front not in self.hidden and page.docks.area(front) != "window":
            page.docks.bring_forward(front)
        page.docks.settle()
        self._pages[page] = text
        self._applying = False

    def _store(self, page: Page, hiding: bool = False) -> None:
        """Remember where the docks of a page stand; of pages that are not in front nothing is to be learnt."""
        if self._applying or self._ended or self._pages.get(page) is None or not (page.isVisible() or hiding):
            return
        if page.docks.front:
            self.settings.set(_front_of(page), page.docks.front)
        if not page.docks.shares.is_chosen:
            return  # how a page shares its room by itself is no rule for those that show more, or less
        self._pages[page] = text = _text(page.docks.saved())
        self.settings.set(_docks_of(page), text)
        shares = page.docks.shares.now()
        if shares:  # of a page that is just being hidden no dock can be seen any more
            known = self.settings.sizes(_shares_of(page))
            others = {name: share for name, share in known.items() if name.split()[0] in page.docks.absent}
            self.settings.set(_shares_of(page), others | shares)

    def _adopt_view(self, page: Page, key: str, view: QWidget) -> None:
        """The splitters inside a view are remembered too."""
        for number, splitter in enumerate(view.findChildren(QSplitter)):
            name = f"{key}-{number}"
            self._watch(page, name, splitter)
            self._put_sizes(page, name, splitter)

    def _watch(self, page: Page, name: str, splitter: QSplitter) -> None:
        splitter.splitterMoved.connect(lambda *_: self._moved(page, name, splitter))

    def _moved(self, page: Page, name: str, splitter: QSplitter) -> None:
        known = self.settings.sizes(f"{_SIZES}/{name}")
        for part, size in zip(_parts(page, splitter), splitter.sizes()):
            if size > 0:
                known[part] = size
        self.settings.set(f"{_SIZES}/{name}", known)

    def _put_sizes(self, page: Page, name: str, splitter: QSplitter) -> None:
        known = self.settings.sizes(f"{_SIZES}/{name}")
        parts, sizes = _parts(page, splitter), splitter.sizes()
        if known:
            splitter.setSizes([known.get(part, size) for part, size in zip(parts, sizes)])


def _docks_of(page: Page) -> str:
    return f"layout/{page.kind}-docks"


def _front_of(page: Page) -> str:
    return f"layout/{page.kind}-front"


def _shares_of(page: Page) -> str:
    return f"layout/{page.kind}-shares"


def _text(state: bytes) -> str:
    """A state of docks as a text, with a sum by which damage shows."""
    return f"{zlib.crc32(state):08x}:{base64.b64encode(state).decode()}"


def _state(text: str) -> bytes:
    """The state in such a text; none where it is damaged."""
    check, _, packed = text.partition(":")
    try:
        state = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return state if check == f"{zlib.crc32(state):08x}" else b""


def _parts(page: Page, splitter: QSplitter) -> list[str]:
    """Names of what a splitter divides: the key of a view, else where it stands."""
    keys = {id(slot): key for key, slot in page.views.slots.items()}
    last = splitter.count() - 1
    return [
        keys.get(id(splitter.widget(i)), "first" if i == 0 else "last" if i == last else str(i))
        for i in range(splitter.count())
    ]
