"""The window: puts the panels together. What they show and do is theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QCoreApplication, QEvent, QSize, QTimer
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDragLeaveEvent, QDropEvent, QKeyEvent
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QHBoxLayout,
    QMainWindow,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from memstrata.capture.format.problems import FormatError

from .charts.theme import Theme, ThemeWatch
from .model.called import tell_apart
from .model.grouping import preferred
from .model.preview import Preview
from .panels.appearance import choose
from .panels.arrangement import Arrangement
from .panels.caption import Caption
from .panels.compare_page import ComparePage
from .panels.content import Content, PageTabs
from .panels.dry_run_dialog import DryRunDialog
from .panels.empty import StartPage
from .panels.exporting import Exporter
from .panels.menus import Menus, make_actions, sample_menu
from .panels.notices import BackgroundNote, LoadingBar, MessageBar
from .panels.place import put_back, remember, room_for
from .panels.record_dialog import RecordDialog
from .panels.run_dialog import RunDialog
from .panels.run_page import RunPage
from .panels.shortcuts_dialog import ShortcutsDialog
from .panels.status import status_lines, status_text
from .panels.style import style_sheet
from .state.interrupts import EXIT_STATUS, Interrupts
from .state.jobs import Jobs
from .state.loading import Loaded, compared_ranks, load, open_paths
from .state.platform import why_no_window
from .state.recent import RecentFiles
from .state.session import Session
from .state.settings import Settings, settings_path
from .state.view_state import ViewState, compared, opened

TITLE = "memstrata"
LEAST = QSize(900, 560)
"""Pixels at which a run still has a plot and rows of a table, and numbers that are compared are whole."""
_FILES = "Recordings and snapshots (*.mstrata *.pickle *.pkl *.json *.gz *.zst);;All files (*)"
_THEME = "theme"
_PATIENCE_MS = 200


class Window(QMainWindow):
    """One session, its pages, and what is around them."""

    def __init__(self, settings: Settings | None = None) -> None:
        """What the user arranges is kept in `settings`; without any it lasts as long as the window."""
        super().__init__()
        self.settings = settings or Settings()
        self.recent = RecentFiles(self.settings)
        self.setWindowTitle(TITLE)
        self.setAcceptDrops(True)
        self.setMinimumSize(LEAST.boundedTo(room_for(self)))
        self._choose_theme_remembered()
        self.session, self.jobs = Session(self), Jobs(self)
        self.watch = ThemeWatch(self)
        self.dialogs: dict[type[RunDialog], RunDialog] = {}
        self._make_parts()
        self._lay_out()
        self.set_theme(self.watch.theme)
        self.watch.changed.connect(self.set_theme)
        self.session.changed.connect(self._changed)
        self._changed(self.session.state, self.session.state)

    def _make_parts(self) -> None:
        self.tabs = PageTabs(self.session, self)
        self.arrangement = Arrangement(self.settings, self)
        self._make_actions()
        samples = sample_menu(self.open_paths, self)
        self.start = StartPage(self.actions_by_name, samples, self.recent)
        self.start.recent.chosen.connect(lambda path: self.open_paths([path]))
        self.content = Content(self.session, self.start, self._adopt, self)
        self.loading, self.message = LoadingBar(self.jobs, self), MessageBar(self)
        self.jobs.found.connect(self._preview)
        self.jobs.ended.connect(lambda number: self.content.stages.add(partial(self._ended, number)))
        self.background = BackgroundNote(self)
        self.status = Caption(self)
        self.status.setObjectName("")
        self.exporter = Exporter(self.content, self.jobs, self.recent, self.message, self)
        self.menus = Menus(self.menuBar(), self.actions_by_name, self.arrangement)
        self.menus.fill_file(samples, self.recent, self.open_paths)
        self.menus.fill_exports(self.exporter)
        self.menus.fill_view(lambda: self.content.page, self.settings.text(_THEME), self.choose_theme)

    def _make_actions(self) -> None:
        acts = {
            "open": self.choose_files,
            "open_folder": self.choose_folder,
            "record": lambda: self.show_dialog(RecordDialog),
            "dry_run": lambda: self.show_dialog(DryRunDialog),
            "picture": lambda: self.exporter.save_picture(),
            "close": self.tabs.close_front,
            "quit": self.close,
            "undo": self.session.undo,
            "redo": self.session.redo,
            "next": lambda: self.tabs.go(1),
            "previous": lambda: self.tabs.go(-1),
            "reset": self.arrangement.reset,
            "next_view": lambda: self.content.go(1),
            "previous_view": lambda: self.content.go(-1),
            "timeline": lambda: self.content.go_to_chart(),
            "filter": lambda: self.content.go_to_filter(),
            "shortcuts": lambda: ShortcutsDialog(self).show(),
        }
        self.actions_by_name: dict[str, QAction] = make_actions(acts, self)
        self.open_action, self.undo_action, self.redo_action, self.quit_action = (
            self.actions_by_name[name] for name in ("open", "undo", "redo", "quit")
        )

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
            button.setAccessibleName(action.text().replace("&", ""))
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
        self.statusBar().addPermanentWidget(self.background)
        self.background.hide()

    def _adopt(self, page: RunPage | ComparePage) -> None:
        self.arrangement.adopt(page)
        if isinstance(page, RunPage):
            self.background.follow(page.scope.ahead)

    def set_theme(self, theme: Theme) -> None:
        """Light or dark, everywhere."""
        self.setStyleSheet(style_sheet(theme))
        self.content.set_theme(theme)

    def choose_theme(self, choice: str) -> None:
        """Light, dark, or as the system; remembered."""
        self.settings.set(_THEME, choice)
        choose(choice)

    def _choose_theme_remembered(self) -> None:
        choice = self.settings.text(_THEME)
        if choice in ("light", "dark"):
            choose(choice)

    def choose_files(self) -> None:
        """Ask for files and open them."""
        paths, _ = QFileDialog.getOpenFileNames(self, "Open", self.recent.folder, _FILES)
        self.open_paths(paths)

    def choose_folder(self) -> None:
        """Ask for a run directory and open it."""
        path = QFileDialog.getExistingDirectory(self, "Open a run directory", self.recent.folder)
        self.open_paths([path] if path else [])

    def open_paths(self, paths: Sequence[str], refused: Callable[[str], None] | None = None) -> None:
        """Open files in the background; those already open stay. With `refused` it is all or none of them: it is told
        the sentence about the first that cannot be read."""
        if paths:
            names = ", ".join(os.path.basename(path) for path in paths)
            self.message.hide()
            self.jobs.start(
                f"Opening {names}", lambda job: load(paths, job, all_or_none=refused is not None),
                lambda loaded: self._loaded(loaded, paths), refused or self._failed,
            )  # fmt: skip

    def _loaded(self, loaded: Loaded, paths: Sequence[str] = ()) -> None:
        self.session.set(_with(self.session.state, loaded))
        self.message.say(loaded.sentences)
        self.recent.add_opened(paths, {run.called.file for run in loaded.runs})
        self.start.recent.fill()

    def _preview(self, number: int, preview: Preview) -> None:
        if not self.session.state.runs:  # whoever looks at another run is not disturbed
            self.content.show_preview(preview, number)
            self.status.setText(f"Opening {preview.name}")

    def _ended(self, number: int) -> None:
        """A job is over: if it was called off, or failed, what it had shown of a file goes too."""
        if number == self.content.previewed_by and not self.session.state.runs:
            self.content.end_preview()
            self.status.setText(status_text(self.session.state))

    def show_dialog(self, kind: type[RunDialog]) -> None:
        """Show the dialog of this kind; there is one of each, and its process goes on while it is closed."""
        if kind not in self.dialogs:
            dialog = kind(self)  # type: ignore[call-arg, arg-type]
            dialog.recorded.connect(lambda path: self.open_paths([path]))
            dialog.failed.connect(lambda sentence: self.message.say((sentence,)))
            self.dialogs[kind] = dialog
        self.dialogs[kind].show()
        self.dialogs[kind].raise_()
        self.dialogs[kind].activateWindow()

    def _failed(self, sentence: str) -> None:
        self.message.say((sentence,))

    def _changed(self, _old: ViewState, new: ViewState) -> None:
        self.tabs.show_state(new)
        self.undo_action.setEnabled(self.session.can_undo)
        self.redo_action.setEnabled(self.session.can_redo)
        for name in ("filter", "picture", "close", "next", "previous", "timeline"):
            self.actions_by_name[name].setEnabled(bool(new.runs))
        shown = [new.run] if new.run is not None else list(new.compared or ())
        self.setWindowTitle(" and ".join([*(run.name for run in shown)] or [TITLE]) + (f" - {TITLE}" if shown else ""))
        self.status.setText(status_text(new))
        self.status.setToolTip("\n".join(f"{run.name}: {line}" for run in shown for line in status_lines(run)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if not self.content.take_key(event):
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()
            self.start.set_hot(True)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self.start.set_hot(False)
        super().dragLeaveEvent(event)

    def dropEvent(self, event: QDropEvent) -> None:
        self.start.set_hot(False)
        event.acceptProposedAction()
        self.open_paths([url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()])

    def closeEvent(self, event: QCloseEvent) -> None:
        remember(self, self.settings)
        self.hide()
        self.arrangement.end()
        self.settings.save()
        self.jobs.shutdown()
        for dialog in self.dialogs.values():
            dialog.shutdown()
            dialog.hide()
        super().closeEvent(event)


def _with(state: ViewState, loaded: Loaded) -> ViewState:
    """Of more than two files opened together the first is held against the second, as `diff` begins. Files of one name
    are told apart."""
    tell_apart([*state.runs, *loaded.runs])
    for run in loaded.runs:
        state = opened(state, run, preferred(run))
    if loaded.ranks:
        return compared(state, loaded.pair)
    return compared(state, (loaded.runs[0], loaded.runs[1])) if len(loaded.runs) > 2 else state


def run(paths: list[str]) -> int:
    """Show the window with these files and run directories. Returns the exit status: 2 if a file cannot be read or a
    system library is missing, 130 if Ctrl+C in the terminal closed it."""
    if cause := why_no_window():
        print(f"memstrata: {cause}; `memstrata report` and `memstrata diff` need none.", file=sys.stderr)
        return 2
    app = application()
    window = Window(Settings(settings_path()))
    if not put_back(window, window.settings):
        window.resize(1600, 1000)
        fit_screen(window)

    def refused(sentence: str) -> None:
        print(f"memstrata: {sentence}", file=sys.stderr)
        app.exit(2)

    def interrupted() -> None:
        window.close()
        app.exit(EXIT_STATUS)

    window.open_paths(paths, refused)
    _show_when_it_says_something(window, _PATIENCE_MS if paths else 0)
    with Interrupts() as interrupts:
        interrupts.caught.connect(interrupted)
        status = int(app.exec())
    window.jobs.shutdown()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)  # outside exec() nothing else does it
    return status


def _show_when_it_says_something(window: Window, patience_ms: int) -> None:
    """A file that is none of ours is refused before there is anything to see; one that was read is shown at once, and
    what takes longer shows how far it is."""
    patience = QTimer(window, singleShot=True, interval=patience_ms)
    patience.timeout.connect(window.show)
    window.session.changed.connect(lambda *_: patience.start(0) if patience.isActive() else None)
    patience.start()


def write_png(paths: list[str], target: str, size: tuple[int, int] = (1600, 1000)) -> None:
    """Write a picture of the window with these files open, without showing it. Raises FormatError for a bad file or
    a target that cannot be written."""
    if QApplication.instance() is None:
        os.environ["QT_QPA_PLATFORM"] = "offscreen"  # whatever it was: a picture needs no screen
    application()
    window = Window()
    window.resize(*size)
    window.show()
    window._loaded(compared_ranks(open_paths(paths)))
    window.content.finish()
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
    """Make the window, with the frame that it will get, no larger than the screen has room for."""
    window.resize(window.size().boundedTo(room_for(window)))
