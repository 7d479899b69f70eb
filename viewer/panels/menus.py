"""The menu bar. Every action of the window is made here, with the keys of the one table of keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QWidget

from ..look.tips import one_line
from ..state.recent import RecentFiles, samples
from ..state.shortcuts import SHORTCUTS
from .appearance import CHOICES
from .arrangement import Arrangement, Page
from .entries import add_entry
from .exporting import Exporter

TEXTS = {
    "open": ("&Open…", "Open recordings, snapshots or a trace"),
    "open_folder": ("Open a run &directory…", "Open the recordings of all ranks of a run"),
    "record": ("&Record a script…", "Run a training script as it is, and record a step of it."),
    "dry_run": ("&Dry-run a model…", "Record a step of a full-size model, without a GPU and without its memory."),
    "picture": ("Save &picture…", "Save a picture of the view in front"),
    "close": ("&Close file", "Close the file in front"),
    "quit": ("&Quit", "Close the window"),
    "undo": ("↶ Undo", "Go back to what was looked at before"),
    "redo": ("↷ Redo", "Take the last undo back"),
    "next": ("&Next file", "Go to the next open file"),
    "previous": ("&Previous file", "Go to the previous open file"),
    "next_view": ("Next &view", "Go into the view in front, then the next"),
    "previous_view": ("Previous v&iew", "Go into the view in front, then the one before"),
    "timeline": ("&Go to the timeline", "Give the keys to the timeline, or to the curves of a comparison"),
    "filter": ("&Filter…", "Type a filter"),
    "reset": ("&Reset arrangement", "Show all views again, and share the room as at the start"),
    "shortcuts": ("Keyboard &shortcuts", "Show all keys"),
}
"""Text and tip of each action by name."""


def make_actions(acts: Mapping[str, Callable[[], object]], parent: QWidget) -> dict[str, QAction]:
    """The actions by name. `acts` says what each one does."""
    made = {}
    for name, (text, tip) in TEXTS.items():
        action = QAction(text, parent)
        action.setToolTip(tip)
        if name in SHORTCUTS:
            action.setShortcuts([QKeySequence(key) for key in SHORTCUTS[name].keys])
        action.triggered.connect(lambda *_, act=acts[name]: act())
        parent.addAction(action)
        made[name] = action
    return made


def sample_menu(open_paths: Callable[[list[str]], None], parent: QWidget) -> QMenu:
    """The samples that are at hand; empty where none are."""
    menu = QMenu("Open a &sample", parent)
    for sample in samples():
        add_entry(menu, sample.title, partial(open_paths, list(sample.paths)))
    return menu


_MNEMONICS = "1234567890abcdef"


class Menus:
    """Fills the bar; what depends on the page in front is filled when a menu opens."""

    def __init__(self, bar: QMenuBar, actions: dict[str, QAction], arrangement: Arrangement) -> None:
        self.bar, self.actions, self.arrangement = bar, actions, arrangement
        self.file, self.edit, self.view, self.help = (
            bar.addMenu(title) for title in ("&File", "&Edit", "&View", "&Help")
        )
        for name in ("undo", "redo"):
            self.edit.addAction(actions[name])
        self.help.addAction(actions["shortcuts"])

    def fill_file(self, sample: QMenu, recent: RecentFiles, open_paths: Callable[[list[str]], None]) -> None:
        """The first menu, without its exports."""
        self.file.addActions([self.actions["open"], self.actions["open_folder"]])
        self.recent = self.file.addMenu("Open r&ecent")
        self.recent.aboutToShow.connect(lambda: _fill_recent(self.recent, recent, open_paths))
        if not sample.isEmpty():
            self.file.addMenu(sample)
        self.file.addSeparator()
        self.file.addActions([self.actions["record"], self.actions["dry_run"]])
        self.file.addSeparator()

    def fill_exports(self, exporter: Exporter) -> None:
        """The exports, and what closes the first menu."""
        self.export = self.file.addMenu("E&xport")
        self.export.aboutToShow.connect(lambda: exporter.fill(self.export))
        self.file.addAction(self.actions["picture"])
        self.file.addSeparator()
        self.file.addActions([self.actions["close"], self.actions["quit"]])

    def fill_view(self, page: Callable[[], Page | None], theme: str, choose: Callable[[str], None]) -> None:
        """Views to hide and show, and where they stand: those of `page()`, the one in front."""
        self.themes = QMenu("&Theme", self.bar)
        group = QActionGroup(self.themes)
        for key, title in CHOICES.items():
            action = add_entry(self.themes, title, partial(choose, key))
            action.setCheckable(True)
            action.setChecked(key == (theme or "system"))
            group.addAction(action)
        self.where = QMenu(self.bar)
        self.view.aboutToShow.connect(lambda: self._fill_view(page()))
        self._fill_view(page())

    def _fill_view(self, page: Page | None) -> None:
        self.view.clear()
        hidden = self.arrangement.hidden
        for number, (key, title) in enumerate(page.hideable().items() if page is not None else ()):
            action = self.view.addAction(f"&{_MNEMONICS[number]} {title}" if number < len(_MNEMONICS) else title)
            action.setCheckable(True)
            action.setChecked(key not in hidden)
            action.toggled.connect(partial(self.arrangement.show_view, key))
        if page is None:
            self.view.addAction("No views to hide here").setEnabled(False)
        else:
            self._fill_where(page)
        self.view.addSeparator()
        self.view.addActions([self.actions[name] for name in ("timeline", "filter")])
        self.view.addSeparator()
        self.view.addActions([self.actions[name] for name in ("next_view", "previous_view", "reset")])
        self.view.addMenu(self.themes)
        self.view.addSeparator()
        self.view.addActions([self.actions["next"], self.actions["previous"]])

    def _fill_where(self, page: Page) -> None:
        """Where the view in front stands, and where else it can."""
        self.where.clear()
        front = page.docks.front
        if front:
            self.where.setTitle(f"P&lace of {page.docks.docks[front].windowTitle()}")
            self.where.addActions(page.docks.place_actions(front, self.where))
            self.view.addSeparator()
            self.view.addMenu(self.where)


def _fill_recent(menu: QMenu, recent: RecentFiles, open_paths: Callable[[list[str]], None]) -> None:
    menu.clear()
    files = recent.files()
    for file in files:
        text = f"{file.name} - {file.folder}" + (f" - {file.why_not}" if file.why_not else "")
        action = add_entry(menu, one_line(text).replace("&", "&&"), partial(open_paths, [file.path]))
        action.setEnabled(not file.why_not)
    if not files:
        menu.addAction("Nothing was opened yet").setEnabled(False)
        return
    menu.addSeparator()
    add_entry(menu, "Clear list", recent.clear)
