"""The window: puts the panels together. What they show and do is theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent, QKeySequence
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QMainWindow,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from memstrata.capture.format.problems import FormatError

from .charts.theme import Theme, ThemeWatch
from .model.grouping import preferred
from .panels.content import Content, PageTabs
from .panels.empty import EmptyPanel
from .panels.notices import LoadingBar, MessageBar
from .panels.status import status_text
from .panels.style import style_sheet
from .state.jobs import Jobs
from .state.loading import Loaded, compared_ranks, load, open_paths, prepare
from .state.platform import why_no_window
from .state.session import Session
from .state.view_state import ViewState, compared, opened

TITLE = "memstrata"
_FILES = "Recordings and snapshots (*.mstrata *.pickle *.pkl);;All files (*)"


class Window(QMainWindow):
    """One session, its pages, and what is around them."""

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle(TITLE)
        self.setAcceptDrops(True)
        self.setMinimumSize(760, 480)
        self.session, self.jobs = Session(self), Jobs(self)
        self.watch = ThemeWatch(self)
        self.tabs = PageTabs(self.session, self)
        self.content = Content(self.session, EmptyPanel(self.choose_files), self)
        self.loading, self.message = LoadingBar(self.jobs, self), MessageBar(self)
        self.status = QLabel(self)
        self._actions()
        self._lay_out()
        self.set_theme(self.watch.theme)
        self.watch.changed.connect(self.set_theme)
        self.session.changed.connect(self._changed)
        self._changed(self.session.state, self.session.state)

    def _actions(self) -> None:
        self.open_action = self._action("Open…", QKeySequence.StandardKey.Open, self.choose_files)
        self.undo_action = self._action("↶ Undo", QKeySequence.StandardKey.Undo, self.session.undo)
        self.redo_action = self._action("↷ Redo", QKeySequence.StandardKey.Redo, self.session.redo)
        self.quit_action = self._action("Quit", QKeySequence.StandardKey.Quit, self.close)

    def _action(self, text: str, keys: QKeySequence.StandardKey, act: object) -> QAction:
        action = QAction(text, self)
        action.setIconText(text)
        action.setShortcuts(keys)
        action.triggered.connect(lambda: act())  # type: ignore[operator]
        self.addAction(action)
        return action

    def _lay_out(self) -> None:
        bar = QWidget(self)
        bar.setObjectName("topbar")
        line = QHBoxLayout(bar)
        line.setContentsMargins(8, 4, 8, 0)
        line.addWidget(self.tabs, 1)
        buttons = QHBoxLayout()
        buttons.setContentsMargins(0, 0, 0, 4)
        line.addLayout(buttons)
        for action in (self.undo_action, self.redo_action, self.open_action):
            button = QToolButton(bar)
            button.setDefaultAction(action)
            button.setAccessibleName(action.text())
            buttons.addWidget(button)
        middle = QWidget(self)
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget in (bar, self.loading, self.message):
            column.addWidget(widget)
        column.addWidget(self.content, 1)
        self.setCentralWidget(middle)
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().addWidget(self.status, 1)

    def set_theme(self, theme: Theme) -> None:
        """Light or dark, everywhere."""
        self.setStyleSheet(style_sheet(theme))
        self.content.set_theme(theme)

    def choose_files(self) -> None:
        """Ask for files and open them."""
        paths, _ = QFileDialog.getOpenFileNames(self, "Open", "", _FILES)
        self.open_paths(paths)

    def open_paths(self, paths: Sequence[str]) -> None:
        """Open files in the background; those already open stay."""
        if paths:
            names = ", ".join(os.path.basename(path) for path in paths)
            self.message.hide()
            self.jobs.start(f"Opening {names}", lambda job: load(paths, job), self._loaded, self._failed)

    def open_runs(self, loaded: Loaded) -> None:
        """Show runs that were read already, once their first picture is worked out."""
        if loaded.runs:
            names = ", ".join(run.name for run in loaded.runs)
            self.jobs.start(f"Opening {names}", lambda job: prepare(loaded, job), self._loaded, self._failed)

    def _loaded(self, loaded: Loaded) -> None:
        self.session.set(_with(self.session.state, loaded))
        self.message.say(loaded.sentences)

    def _failed(self, sentence: str) -> None:
        self.message.say((sentence,))

    def _changed(self, _old: ViewState, new: ViewState) -> None:
        self.tabs.show_state(new)
        self.undo_action.setEnabled(self.session.can_undo)
        self.redo_action.setEnabled(self.session.can_redo)
        shown = [new.run] if new.run is not None else list(new.compared or ())
        self.setWindowTitle(" and ".join([*(run.name for run in shown)] or [TITLE]) + (f" - {TITLE}" if shown else ""))
        self.status.setText(status_text(new))
        self.status.setToolTip("\n".join(f"{run.name}: {p.text}" for run in shown for p in run.problems))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        self.open_paths([url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()])

    def closeEvent(self, event: QCloseEvent) -> None:
        self.hide()
        self.jobs.shutdown()
        super().closeEvent(event)


def _with(state: ViewState, loaded: Loaded) -> ViewState:
    for run in loaded.runs:
        state = opened(state, run, preferred(run))
    return compared(state, loaded.pair) if loaded.ranks else state


def run(paths: list[str]) -> int:
    """Show the window with these files and run directories. Returns the exit status: 2 if a file or a system library
    is missing."""
    sentence = why_no_window()
    try:
        loaded = Loaded((), ()) if sentence else open_paths(paths)
    except FormatError as error:
        sentence = str(error)
    if sentence:
        print(f"memstrata: {sentence}", file=sys.stderr)
        return 2
    app = application()
    window = Window()
    window.resize(1600, 1000)
    fit_screen(window)
    window.show()
    window.open_runs(loaded)
    return int(app.exec())


def write_png(paths: list[str], target: str, size: tuple[int, int] = (1600, 1000)) -> None:
    """Write a picture of the window with these files open, without showing it. Raises FormatError for a bad file or
    a target that cannot be written."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    app = application()
    window = Window()
    window.resize(*size)
    window.show()
    window._loaded(compared_ranks(open_paths(paths)))
    app.processEvents()
    picture = window.grab()
    window.close()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # outside exec() nothing else does it
    if not picture.save(target):
        raise FormatError(f"{target} cannot be written.")


def application() -> QApplication:
    """The application, made if there is none yet."""
    app = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(app, QApplication)
    app.setApplicationName(TITLE)
    app.setStyle("Fusion")
    return app


def fit_screen(window: QMainWindow) -> None:
    """Make the window no larger than the screen has room for."""
    room = window.screen().availableGeometry().size()
    window.resize(window.size().boundedTo(room))
