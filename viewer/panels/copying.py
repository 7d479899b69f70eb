"""Copying out of tables and trees: the selected rows, or all of them as CSV. Many rows are put together in a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView, QTreeView, QWidget

from memstrata.capture.format.schema import I64

from ..look.units import count_text
from ..state.array_table import ArrayTable, Column
from ..state.jobs import Job, Jobs
from ..state.shortcuts import SHORTCUTS
from ..state.table_text import columns_csv, columns_text, model_csv, row_text, unfolded

MOST = 100_000
"""Rows that the clipboard gets at most; a file takes all of them."""
_AT_ONCE = 500
"""Rows that the window can put together without a wait that is felt."""


def make_copyable(view: QTableView | QTreeView) -> None:
    """Give a view Ctrl+C and a menu on the right button. Needs no hold on anything: the actions are the view's."""
    row = QAction("Copy row", view)
    row.setShortcuts([QKeySequence(key) for key in SHORTCUTS["copy"].keys])
    row.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
    row.triggered.connect(lambda: copy_rows(view))
    table = QAction("Copy table as CSV", view)
    table.triggered.connect(lambda: copy_table(view))
    view.addActions([row, table])
    view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    view.customContextMenuRequested.connect(lambda point: _menu(view, row, table).popup(view.mapToGlobal(point)))


def _menu(view: QAbstractItemView, row: QAction, table: QAction) -> QMenu:
    chosen, count = _selected_count(view), view.model().rowCount()
    row.setText("Copy row" if chosen < 2 else f"Copy {_counted(chosen)}")
    row.setEnabled(chosen > 0)
    table.setText("Copy table as CSV" if count <= MOST else f"Copy {_counted(count)} as CSV")
    table.setEnabled(count > 0)
    menu = QMenu(view)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    menu.addActions([row, table])
    return menu


def _counted(rows: int) -> str:
    return count_text(rows, "row") if rows <= MOST else f"the first {count_text(MOST, 'row')}"


def _selected_count(view: QAbstractItemView) -> int:
    return len(_numbers(view)) if isinstance(view.model(), ArrayTable) else len(selected_rows(view))


def selected_rows(view: QAbstractItemView) -> list[QModelIndex]:
    """The first cell of each selected row from the top; of the current row where none is selected."""
    found = {(_place(index), index.siblingAtColumn(0)) for index in view.selectionModel().selectedIndexes()}
    rows = [index for _, index in sorted(found, key=lambda pair: pair[0])]
    current = view.currentIndex()
    return rows or ([current.siblingAtColumn(0)] if current.isValid() else [])


def _numbers(view: QAbstractItemView) -> I64:
    """Numbers of the rows that `selected_rows` would give, of a plain table: without an object for each cell."""
    chosen = view.selectionModel().selection().toList()
    ranges = [np.arange(part.top(), part.bottom() + 1) for part in chosen]
    current = view.currentIndex()
    if not ranges and current.isValid():
        ranges = [np.array([current.row()])]
    return np.unique(np.concatenate([np.empty(0, np.int64), *ranges]))


def copy_rows(view: QTableView | QTreeView) -> None:
    """Put the selected rows on the clipboard, a line each, cells parted by tabs."""
    table = view.model()
    if isinstance(table, ArrayTable):
        _copy(view, table, table.rows[_numbers(view)], columns_text)
        return
    rows = selected_rows(view)
    if rows:
        QGuiApplication.clipboard().setText(row_text(table, rows, shown_columns(view)))


def copy_table(view: QTableView | QTreeView) -> None:
    """Put the table as it stands on the clipboard as CSV."""
    table = view.model()
    if isinstance(table, ArrayTable):
        _copy(view, table, table.rows, columns_csv)
    else:
        QGuiApplication.clipboard().setText(view_csv(view, MOST))


def _copy(
    view: QTableView | QTreeView, table: ArrayTable, rows: I64, made: Callable[[Sequence[Column], I64, Job], str]
) -> None:
    """Put these source rows on the clipboard: few of them now, many once a job of the window has made the text."""
    rows, columns = rows[:MOST].copy(), [table.columns[column] for column in shown_columns(view)]
    clipboard, title = QGuiApplication.clipboard(), f"Copying {count_text(len(rows), 'row')}"
    jobs = _jobs_of(view)
    if len(rows) > _AT_ONCE and jobs is not None:
        jobs.start(title, lambda job: made(columns, rows, job), clipboard.setText, lambda _sentence: None)
    elif len(rows):
        clipboard.setText(made(columns, rows, Job(0, title, lambda *_: None)))


def _jobs_of(widget: QWidget | None) -> Jobs | None:
    """The jobs of the window that this stands in, or of the one whose dock it stands in."""
    while widget is not None and not isinstance(getattr(widget, "jobs", None), Jobs):
        widget = widget.parentWidget()
    return None if widget is None else widget.jobs  # type: ignore[attr-defined]


def view_csv(view: QTableView | QTreeView, most: int | None = None) -> str:
    """What a view shows as CSV, of a tree the rows that are unfolded."""
    table = view.model()
    if isinstance(table, ArrayTable):
        columns = [table.columns[column] for column in shown_columns(view)]
        return columns_csv(columns, table.rows[:most], Job(0, "", lambda *_: None))
    rows = (index for number, index in enumerate(shown_rows(view)) if most is None or number < most)
    return model_csv(table, rows, shown_columns(view))


def shown_rows(view: QTableView | QTreeView) -> Iterator[QModelIndex]:
    """The first cell of every row, from the top."""
    is_open = view.isExpanded if isinstance(view, QTreeView) else lambda _: False
    return unfolded(view.model(), is_open)


def shown_columns(view: QTableView | QTreeView) -> list[int]:
    """The columns that are not hidden and have a title, in the order on screen."""
    header: QHeaderView = view.header() if isinstance(view, QTreeView) else view.horizontalHeader()
    logical = [header.logicalIndex(place) for place in range(header.count())]
    return [column for column in logical if not header.isSectionHidden(column)]


def _place(index: QModelIndex) -> tuple[int, ...]:
    """The row numbers on the way down to a row: rows in this order stand from the top."""
    rows: list[int] = []
    while index.isValid():
        rows.append(index.row())
        index = index.parent()
    return tuple(reversed(rows))
