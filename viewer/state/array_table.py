"""One item model for every table: columns over rows, an index array for the order, sorted by numpy on raw numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from memstrata.capture.format.schema import I64

from ..look.tips import tip
from ..model.ordering import ascending, descending

Index = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()

RawRole = Qt.ItemDataRole.UserRole
"""The number or text that the column sorts by."""
ShareRole = Qt.ItemDataRole.UserRole + 1
"""From -1 to 1: how long a bar behind the number is; None for no bar."""
SwatchRole = Qt.ItemDataRole.UserRole + 2
"""What the delegate looks the colour up by: the number of the row in the source; None for no swatch."""
FaintRole = Qt.ItemDataRole.UserRole + 3
"""Whether the cell is painted quietly."""

_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True, eq=False)
class Column:
    """One column: `keys` has one value for each source row, `text(row)` is what is shown for it."""

    title: str
    keys: NDArray[Any]
    text: Callable[[int], str]
    hint: Callable[[int], str] | None = None
    """What is shown on hover, e.g. exact bytes."""
    right: bool = False
    share: NDArray[np.float64] | None = None
    swatch: bool = False
    faint: NDArray[np.bool_] | None = None
    """Rows that matter less, painted quietly."""
    meaning: str = ""
    """Hover text of the header."""
    seconds: Callable[[int], float | None] | None = None
    """Of a column of times: what files say, None for a cell whose text is no time."""


class ArrayTable(QAbstractTableModel):
    """Virtual: a cell is made when it is looked at. `rows` are the source rows shown, in order."""

    def __init__(self, columns: Sequence[Column] = (), rows: I64 | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.rows = _all_rows(columns) if rows is None else rows
        self._sorted: tuple[int, Qt.SortOrder] | None = None
        self._cut: dict[int, str] = {}

    def show(self, columns: Sequence[Column], rows: I64 | None = None) -> None:
        """Other contents; the order chosen by the user is kept."""
        self.beginResetModel()
        self.columns, self._cut = tuple(columns), {}
        self.rows = _all_rows(columns) if rows is None else rows
        if self._sorted is not None and self._sorted[0] < len(self.columns):
            self.rows = self._in_order(*self._sorted)
        self.endResetModel()

    def cut_titles(self, titles: dict[int, str]) -> None:
        """Show these columns under titles that are cut; what is copied has them whole."""
        if titles != self._cut:
            self._cut = titles
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(self.columns) - 1)

    def source_row(self, row: int) -> int:
        """The source row shown in this row."""
        return int(self.rows[row])

    def row_of(self, source: int) -> int:
        """The row that shows a source row, -1 if none does."""
        found = np.flatnonzero(self.rows == source)
        return int(found[0]) if len(found) else -1

    def rowCount(self, parent: Index = ROOT) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = ROOT) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        column, source = self.columns[index.column()], int(self.rows[index.row()])
        return cell(column, source, role)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._cut.get(section, column.title)
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.meaning or column.title or None  # a narrow column cuts its title
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if column.right else _LEFT
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        if not 0 <= column < len(self.columns):
            return
        self.layoutAboutToBeChanged.emit()
        old, kept = self.rows, self.persistentIndexList()
        self._sorted = (column, order)
        self.rows = self._in_order(column, order)
        place = ascending(self.rows) if kept else self.rows
        sources = np.array([old[i.row()] for i in kept], np.int64)
        found = place[np.searchsorted(self.rows, sources, sorter=place)] if kept else sources
        moved = [self.index(int(row), i.column()) for row, i in zip(found, kept)]
        self.changePersistentIndexList(kept, moved)
        self.layoutChanged.emit()

    def _in_order(self, column: int, order: Qt.SortOrder) -> I64:
        keys = self.columns[column].keys[self.rows]
        return self.rows[ascending(keys) if order == Qt.SortOrder.AscendingOrder else descending(keys)]


def cell(column: Column, source: int, role: int) -> Any:
    """What a cell says in this role."""
    if role == Qt.ItemDataRole.DisplayRole:
        return column.text(source)
    if role == Qt.ItemDataRole.ToolTipRole:
        return tip(column.hint(source) if column.hint else column.text(source))
    if role == Qt.ItemDataRole.TextAlignmentRole:
        return _RIGHT if column.right else _LEFT
    if role == RawRole:
        key = column.keys[source]
        return key.item() if isinstance(key, np.generic) else key
    if role == ShareRole:
        return None if column.share is None else float(column.share[source])
    if role == SwatchRole:
        return source if column.swatch else None
    if role == FaintRole:
        return column.faint is not None and bool(column.faint[source])
    return None


def _all_rows(columns: Sequence[Column]) -> I64:
    return np.arange(len(columns[0].keys) if columns else 0, dtype=np.int64)
