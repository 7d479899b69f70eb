"""Copying out of tables and trees: the selected rows, or all of them as CSV."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView, QTreeView

from ..look.units import count_text
from ..state.shortcuts import SHORTCUTS
from ..state.table_text import model_csv, row_text, unfolded

MOST = 100_000
"""Rows that the clipboard gets at most; a file takes all of them."""


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
    chosen, count = len(selected_rows(view)), view.model().rowCount()
    row.setText("Copy row" if chosen < 2 else f"Copy {count_text(chosen, 'row')}")
    row.setEnabled(chosen > 0)
    table.setText("Copy table as CSV" if count <= MOST else f"Copy the first {count_text(MOST, 'row')} as CSV")
    table.setEnabled(count > 0)
    menu = QMenu(view)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    menu.addActions([row, table])
    return menu


def selected_rows(view: QAbstractItemView) -> list[QModelIndex]:
    """The first cell of each selected row from the top; of the current row where none is selected."""
    found = {(_place(index), index.siblingAtColumn(0)) for index in view.selectionModel().selectedIndexes()}
    rows = [index for _, index in sorted(found, key=lambda pair: pair[0])]
    current = view.currentIndex()
    return rows or ([current.siblingAtColumn(0)] if current.isValid() else [])


def copy_rows(view: QTableView | QTreeView) -> None:
    """Put the selected rows on the clipboard, a line each, cells parted by tabs."""
    rows = selected_rows(view)
    if rows:
        QGuiApplication.clipboard().setText(row_text(view.model(), rows, shown_columns(view)))


def copy_table(view: QTableView | QTreeView) -> None:
    """Put the table as it stands on the clipboard as CSV."""
    QGuiApplication.clipboard().setText(view_csv(view, MOST))


def view_csv(view: QTableView | QTreeView, most: int | None = None) -> str:
    """What a view shows as CSV, of a tree the rows that are unfolded."""
    rows = (index for number, index in enumerate(shown_rows(view)) if most is None or number < most)
    return model_csv(view.model(), rows, shown_columns(view))


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
