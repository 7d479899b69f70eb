"""The export menu: the analysis, the table and the view in front, as files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QFileDialog, QMenu, QTableView, QTreeView, QWidget

from memstrata.capture.format.problems import FormatError

from ..report.exports import EXPORTS
from ..state.exporting import COMPARISONS, tables_of, write_comparison, write_export, write_file
from ..state.jobs import Job, Jobs
from ..state.recent import RecentFiles
from ..state.table_text import columns_csv
from .compare_page import ComparePage
from .content import Content
from .copying import view_csv
from .entering import view_with
from .entries import add_entry
from .notices import MessageBar
from .pictures import picture_bytes
from .run_page import RunPage
from .table_view import TableView

_PICTURES = "PNG picture (*.png);;SVG picture (*.svg)"


class Exporter(QObject):
    """Asks where to, then works in a job; says in one sentence what was written or why not."""

    def __init__(self, content: Content, jobs: Jobs, recent: RecentFiles, message: MessageBar, parent: QWidget) -> None:
        super().__init__(parent)
        self.content, self.jobs, self.recent, self.message = content, jobs, recent, message
        self.window = parent

    @property
    def page(self) -> RunPage | ComparePage | None:
        """The page in front, None where nothing is open."""
        page = self.content.currentWidget()
        return page if isinstance(page, RunPage | ComparePage) else None

    def fill(self, menu: QMenu) -> None:
        """What can be exported of the page in front."""
        menu.clear()
        page = self.page
        if page is None:
            menu.addAction("Nothing is open").setEnabled(False)
            return
        if isinstance(page, RunPage):
            self._run_entries(menu, page)
        else:
            for key, (title, suffix, _) in COMPARISONS.items():
                add_entry(menu, _entry(title, suffix), partial(self.export_comparison, key))
        menu.addSeparator()
        table = front_table(page)
        if table is not None:
            add_entry(menu, f"The table in front: {table[0]} (.csv)…", self.export_table)
        add_entry(menu, f"A picture of the view in front: {front_view(page)[0]} (.png, .svg)…", self.save_picture)
        add_entry(menu, "A picture of the whole window (.png)…", self.save_window)

    def _run_entries(self, menu: QMenu, page: RunPage) -> None:
        for key, export in EXPORTS.items():
            if key == "csv":
                tables = menu.addMenu("A whole table (.csv)")
                for name in tables_of(page.scope.run):
                    words = name.replace("_", " ").capitalize()
                    add_entry(tables, f"{words}…", partial(self.export, "csv", name))
            elif key != "svg" or "timeline" in page.scope.run.capabilities:
                add_entry(menu, _entry(export.title, export.suffix), partial(self.export, key))

    def export(self, key: str, table: str = "") -> None:
        """Ask for a file and write this export of the run in front."""
        page, export = self.page, EXPORTS[key]
        if not isinstance(page, RunPage):
            return
        run = page.scope.run
        path = self._ask(export.title, export.suffix, table)
        if path:
            self._start(path, lambda job: write_export(run, key, table, path, job))

    def export_comparison(self, key: str) -> None:
        """Ask for a file and write this export of the comparison in front."""
        page = self.page
        if isinstance(page, ComparePage):
            diff, (title, suffix, _) = page.diff, COMPARISONS[key]
            path = self._ask(title, suffix)
            if path:
                self._start(path, lambda job: write_comparison(diff, key, path, job))

    def export_table(self) -> None:
        """Ask for a file and write the table in front as it stands, in its order."""
        page = self.page
        found = front_table(page) if page is not None else None
        if found is None:
            return
        title, view = found
        path = self._ask(f"the table {title}", ".csv", title.lower())
        if not path:
            return
        if isinstance(view, TableView):
            columns, rows = view.table.columns, view.table.rows
            self._start(path, lambda job: write_file(path, columns_csv(columns, rows, job).encode(), job))
        else:
            text = view_csv(view)
            self._start(path, lambda job: write_file(path, text.encode(), job))

    def save_picture(self) -> None:
        """Ask for a file and save a picture of the view in front."""
        if self.page is not None:
            self._save_picture(*front_view(self.page), _PICTURES)

    def save_window(self) -> None:
        """Ask for a file and save a picture of the window."""
        self._save_picture("window", self.window, _PICTURES.partition(";;")[0])

    def _save_picture(self, title: str, widget: QWidget, kinds: str) -> None:
        path = self._ask(f"a picture of {title}", ".png", title.lower(), kinds)
        if not path:
            return
        try:
            self.message.say((write_file(path, picture_bytes(widget, path, title)),), calm=True)
        except FormatError as error:
            self.message.say((str(error),))

    def _ask(self, title: str, suffix: str, part: str = "", kinds: str = "") -> str:
        kinds = kinds or f"{suffix[1:].upper()} (*{suffix})"
        name = self._stem() + (f"-{_slug(part)}" if part else "") + suffix
        start = os.path.join(self.recent.export_folder, name)
        path, chosen = QFileDialog.getSaveFileName(self.window, f"Save {title}", start, kinds)
        if not path:
            return ""
        if not os.path.splitext(path)[1]:
            path += chosen.rpartition("*")[2].rstrip(")") or suffix
        if self.recent.holds(path):  # what was recorded would be lost
            self.message.say((f"{os.path.basename(path)} was opened here: write to another file.",))
            return ""
        self.recent.export_folder = os.path.dirname(path)
        return path

    def _stem(self) -> str:
        page = self.page
        names = [run.name for run in page.pair] if isinstance(page, ComparePage) else []
        names = [page.scope.run.name] if isinstance(page, RunPage) else names
        return "-and-".join(os.path.splitext(_slug(name))[0] for name in names) or "memstrata"

    def _start(self, path: str, work: Callable[[Job], str]) -> None:
        self.message.hide()
        name = os.path.basename(path)
        self.jobs.start(
            f"Writing {name}", work, lambda said: self.message.say((said,), calm=True),
            lambda sentence: self.message.say((sentence,)),
        )  # fmt: skip


def front_view(page: RunPage | ComparePage) -> tuple[str, QWidget]:
    """Title and widget of the view that had the focus, or was brought forward, last; else of the one that the page is
    about, else of the dock in front."""
    seen = ((title, view) for title, view in page.titled_views() if view.isVisible())
    shown = {title: view for title, view in seen if view.height() > 1}  # lanes that are folded are a line only
    for part in page.entrances():
        about = view_with(page, part)
        if page.looked_at not in shown and about in shown:
            return about, shown[about]
    front = page.views.made.get(page.docks.front)
    in_front = [title for title, view in shown.items() if title == page.looked_at or view is front]
    title = page.looked_at if page.looked_at in shown else next(iter([*in_front, *shown]), "")
    return (title, shown[title]) if title else ("page", page)


def front_table(page: RunPage | ComparePage) -> tuple[str, QTableView | QTreeView] | None:
    """Title and widget of a table in the view that had the focus, or was brought forward, last; there the one with the
    focus. Else of the one with the focus, else in the dock in front, else of any."""
    found = [(title, table) for title, view in page.titled_views() for table in _tables(view) if table.isVisible()]
    focus, front = QApplication.focusWidget(), page.views.made.get(page.docks.front)

    def rank(part: tuple[str, QWidget]) -> int:
        if part[0] == page.looked_at:
            return 0 if part[1] is focus else 1
        if part[1] is focus:  # perhaps only because another was hidden
            return 2
        return 3 if part[1] is front or (front is not None and front.isAncestorOf(part[1])) else 4

    found.sort(key=rank)
    return found[0] if found else None


def _tables(view: QWidget) -> list[QTableView | QTreeView]:
    own = [view] if isinstance(view, QTableView | QTreeView) else []
    return [*own, *view.findChildren(QTableView), *view.findChildren(QTreeView)]


def _entry(title: str, suffix: str) -> str:
    return f"{title[:1].upper()}{title[1:]} ({suffix})…"


def _slug(text: str) -> str:
    """A text as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-")
