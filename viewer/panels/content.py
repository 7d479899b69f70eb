"""The pages of the window: one for each open run, one for the comparison, and tabs to go between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QApplication,
    QCheckBox,
    QComboBox,
    QDockWidget,
    QLineEdit,
    QStackedWidget,
    QStyle,
    QStyleOptionTab,
    QTabBar,
    QToolButton,
    QTreeView,
    QWidget,
)

from ..charts.theme import Theme, current
from ..look.name_cut import cut_apart
from ..look.tips import tip
from ..model.preview import Preview
from ..model.run import Run
from ..state.ahead import MANY
from ..state.session import Session
from ..state.view_state import COMPARE, ViewState, closed
from .compare_page import ComparePage
from .copying import make_copyable
from .empty import StartPage
from .entering import go_into, view_with
from .manners import Manners
from .preview_page import PreviewPage
from .run_page import RunPage
from .stages import Stages

COMPARE_TITLE = "Compare"
_WIDEST_TAB = 340  # pixels


def fair_share(room: int, widths: Sequence[int]) -> int:
    """The most that each of these may have so that all of them fit: those that need less leave it to the others."""
    left, share = room, room
    for number, width in enumerate(sorted(widths)):
        share = left // (len(widths) - number)
        if width > share:
            return share
        left -= width
    return max([*widths, share])


class PageTabs(QTabBar):
    """A tab for each run, and for the comparison where there is one. Only runs can be closed."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.setAccessibleName("Open files")
        self.setDrawBase(False)
        self.setExpanding(False)
        self.setElideMode(Qt.TextElideMode.ElideMiddle)
        self._setting = False
        self.is_stepping = False
        """Whether a key of the tabs' own is at work, which goes from tab to tab and not into a page."""
        self.currentChanged.connect(self._chosen)
        self.show_state(session.state)

    def show_state(self, state: ViewState) -> None:
        """The tabs of this state."""
        self._setting = True
        wanted = [run.name.replace("&", "&&") for run in state.runs] + ([COMPARE_TITLE] if state.compared else [])
        if wanted != [self.tabText(i) for i in range(self.count())]:
            while self.count():
                self.removeTab(0)
            for name in wanted:
                self.addTab(name)
            for tab, run in enumerate(state.runs):
                self.setTabToolTip(tab, tip(run.name))
                self.setTabButton(tab, QTabBar.ButtonPosition.RightSide, self._close_button(run))
        self.setCurrentIndex(len(state.runs) if state.page == COMPARE else state.page)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if wanted else Qt.FocusPolicy.NoFocus)
        self._setting = False

    def tabSizeHint(self, index: int) -> QSize:
        """The rest of a long name is in the tooltip. Short names keep their room, long ones share what is left."""
        hints = [super(PageTabs, self).tabSizeHint(tab) for tab in range(self.count())]
        widths = [min(hint.width(), _WIDEST_TAB) for hint in hints]
        room = fair_share(self.width(), widths) if self.isVisible() else _WIDEST_TAB
        return hints[index].boundedTo(QSize(min(room, _WIDEST_TAB), self.maximumHeight()))

    def initStyleOption(self, option: QStyleOptionTab, index: int) -> None:
        """Names that are cut stay different."""
        super().initStyleOption(option, index)
        if index < 0 or option.text == self.tabText(index):
            return
        room = self.style().subElementRect(QStyle.SubElement.SE_TabBarTabText, option, self).width()
        names = [self.tabText(tab) for tab in range(self.count())]
        option.text = cut_apart(names, room, self.fontMetrics().horizontalAdvance, "…")[index]

    def _chosen(self, tab: int) -> None:
        state = self.session.state
        if not self._setting and tab >= 0:
            self.session.set(replace(state, page=tab if tab < len(state.runs) else COMPARE))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.is_stepping = True
        super().keyPressEvent(event)
        self.is_stepping = False

    def go(self, steps: int) -> None:
        """Go to another tab, around the end."""
        if self.count():
            self.setCurrentIndex((self.currentIndex() + steps) % self.count())

    def close_front(self) -> None:
        """Close the run in front; of a comparison the run opened last."""
        state = self.session.state
        if state.runs:
            self._close(state.run or (state.compared or state.runs)[-1])

    def _close_button(self, run: Run) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName("close")
        button.setText("✕")
        button.setAccessibleName(f"Close {run.name}")
        button.setToolTip(tip(f"Close {run.name}"))
        button.clicked.connect(lambda: self._close(run))
        return button

    def _close(self, run: Run) -> None:
        state = self.session.state
        if run in state.runs:
            self.session.set(closed(state, state.runs.index(run)))


class Content(QStackedWidget):
    """Makes a page when it is first looked at, and lets it go when its run is closed."""

    shown = Signal()

    def __init__(
        self,
        session: Session,
        empty: StartPage,
        adopt: Callable[[RunPage | ComparePage], None],
        parent: QWidget | None = None,
    ) -> None:
        """`adopt(page)` is called for each page that is made."""
        super().__init__(parent)
        self.setObjectName("content")
        self.session, self._adopt = session, adopt
        self.empty = empty
        self.addWidget(empty)
        self.stages = Stages(self)
        self.preview: PreviewPage | None = None
        """Stands where the page of a run will be that is being opened."""
        self.previewed_by = 0
        """Number of the job that opens that run."""
        self.pages: dict[Run | tuple[Run, Run], RunPage | ComparePage] = {}
        self.theme = current()
        self._entering: RunPage | ComparePage | None = None
        """The page that gets the focus once there is something in it to have it."""
        self._focus_given: QWidget | None = None
        """What Qt gave the focus to when that page came to the front; what has it later was chosen."""
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._focus_moved)
        session.changed.connect(lambda old, new: self.show_state(new))

    def show_state(self, state: ViewState) -> None:
        """The page of this state; pages whose runs are gone are let go."""
        was_page = self.page is not None
        gone = [self.pages.pop(key) for key in list(self.pages) if key not in state.runs and key != state.compared]
        if self.page in gone:  # else Qt would show what lies beside it, which may be of a run just closed
            self.setCurrentWidget(self.preview or self.empty)
        for page in gone:
            self.removeWidget(page)
            page.release()
        shown = _shown(state)
        if shown is None:
            self.setCurrentWidget(self.preview or self.empty)
            if was_page and self.preview is None:
                self.empty.enter()
        elif shown in self.pages:
            self._bring()
        else:
            page = self.pages[shown] = self._make(shown)
            self._prepare(page)
            self.addWidget(page)
            if all(run.n_events < MANY for run in (shown if isinstance(shown, tuple) else (shown,))):
                self._bring()
                return
            page.stages.pause()  # making the page of a large run and painting it are a step each
            self.stages.add(self._bring)

    def _bring(self) -> None:
        """Bring the page of the state as it is now to the front, once it is made."""
        shown = _shown(self.session.state)
        page = None if shown is None else self.pages.get(shown)
        if page is not None and page is not self.page:
            self.setCurrentWidget(page)
            page.stages.go_on()
            self._come_to(page)
            self.end_preview()

    def show_preview(self, preview: Preview, job: int) -> None:
        """Show a run that this job opens, until `end_preview`, or until a page is made."""
        self.end_preview()
        self.preview, self.previewed_by = PreviewPage(preview, self), job
        self.addWidget(self.preview)
        self.stages.add(self._bring_preview)

    def _bring_preview(self) -> None:
        if self.preview is not None and self.page is None:
            self.setCurrentWidget(self.preview)

    def end_preview(self) -> None:
        """Show what is open, or that nothing is."""
        preview, self.preview = self.preview, None
        if preview is not None:
            if self.currentWidget() is preview:
                self.setCurrentWidget(self.empty)
            self.removeWidget(preview)
            preview.deleteLater()

    def _come_to(self, page: RunPage | ComparePage) -> None:
        """A page came to the front: the keys are to act on it."""
        focus = self._focus_given = QApplication.focusWidget()
        self._entering = None if isinstance(focus, PageTabs) and focus.is_stepping else page
        self._enter(page)

    def _enter(self, page: RunPage | ComparePage) -> None:
        if page is self._entering and page is self.page:
            focus = QApplication.focusWidget()
            is_taken = focus is not None and focus is not self._focus_given and page.isAncestorOf(focus)
            if is_taken or go_into(page):
                self._entering = None

    def _make(self, key: Run | tuple[Run, Run]) -> RunPage | ComparePage:
        if isinstance(key, tuple):
            return ComparePage(self.session, key, self)
        return RunPage(self.session, key, self)

    def _prepare(self, page: RunPage | ComparePage) -> None:
        """What holds for every page, whatever views it has."""
        page.made.connect(partial(self._prepare_view, page))
        page.stages.done.connect(partial(self._enter, page))
        page.docks.tabifiedDockWidgetActivated.connect(partial(self._tab_chosen, page))
        page.filter.left.connect(lambda part: self.go_to_chart() if part is None else part.setFocus())
        _prepare_parts(page)
        self._adopt(page)

    def _prepare_view(self, page: RunPage | ComparePage, key: str, view: QWidget) -> None:
        _prepare_parts(view)
        if key == "timeline":
            self._enter(page)

    def _focus_moved(self, _old: QWidget | None, new: QWidget | None) -> None:
        if new is not None and self.page is not None:
            self.page.looked_at = view_with(self.page, new) or self.page.looked_at

    def _tab_chosen(self, page: RunPage | ComparePage, dock: QDockWidget) -> None:
        page.looked_at = dock.windowTitle()

    @property
    def page(self) -> RunPage | ComparePage | None:
        """The page in front; None where nothing is open."""
        page = self.currentWidget()
        return page if isinstance(page, RunPage | ComparePage) else None

    def take_key(self, event: QKeyEvent) -> bool:
        """Do what a key means for the page in front, of which nobody who has the focus has made use."""
        return self.page is not None and self.page.take_key(event)

    def go_to_chart(self) -> None:
        """Give the focus to the timeline or the curves of the page in front, or to what stands in for them."""
        if self.page is not None:
            self.window().activateWindow()
            go_into(self.page)

    def go_to_filter(self) -> None:
        """Type a filter."""
        if self.page is not None:
            self.page.filter.go_in()

    def go(self, steps: int) -> None:
        """Bring another view of the page in front forward, around the end."""
        if self.page is not None:
            self.page.docks.go(steps)

    def finish(self) -> None:
        """Make all that the page in front shows now, without waiting for the window to be idle."""
        self.stages.finish()
        for _ in range(4):  # what is made may show more
            QApplication.processEvents()
            if self.page is not None:
                self.page.stages.finish()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = theme
        self.empty.set_theme(theme)
        if self.preview is not None:
            self.preview.set_theme(theme)
        for page in self.pages.values():
            page.set_theme(theme)


def _shown(state: ViewState) -> Run | tuple[Run, Run] | None:
    """What the page in front is about; None where nothing is open."""
    return state.compared if state.page == COMPARE else state.run


def _prepare_parts(widget: QWidget) -> None:
    trees = [widget] if isinstance(widget, QTreeView) else widget.findChildren(QTreeView)
    for tree in trees:
        make_copyable(tree)
        Manners(tree)
    for line in widget.findChildren(QLineEdit):
        line.setAcceptDrops(False)  # a file dropped on it is to be opened, not typed
    for kind in (QComboBox, QCheckBox):
        for control in widget.findChildren(kind):
            control.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # whoever uses the mouse keeps the keys of the timeline
