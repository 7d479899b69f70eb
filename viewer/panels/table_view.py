"""The table widget that all panels use: virtual, sortable, one row high as the font needs, copies what is selected."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QItemSelectionModel, Qt, Signal
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from ..state.array_table import ArrayTable, Column
from .copying import make_copyable
from .delegates import TableDelegate


class TableView(QTableView):
    """Shows an `ArrayTable`. `picked` carries the source row that the user chose."""

    picked = Signal(int)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = ArrayTable(parent=self)
        self.setModel(self.table)
        self.setAccessibleName(name)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setSortingEnabled(True)
        self.setCornerButtonEnabled(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.DescendingOrder)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.horizontalHeader().setMinimumSectionSize(40)
        self.set_delegate(TableDelegate(self))
        self._fit_rows()
        self._widths: tuple[int, ...] = ()
        self._shared: tuple[int, ...] = ()
        self.least = 50
        """Pixels that a column has at least where it shares what is left."""
        self._spare: tuple[int, ...] = ()
        self._setting = False
        self.selectionModel().currentRowChanged.connect(self._picked)
        make_copyable(self)

    def set_delegate(self, delegate: TableDelegate) -> None:
        """Paint with this delegate."""
        self.painter_of_cells = delegate
        self.setItemDelegate(delegate)

    def show_columns(self, columns: Sequence[Column], rows: object = None) -> None:
        """Other contents; the current row is not kept, the order is."""
        self._setting = True
        self.table.show(columns, rows)  # type: ignore[arg-type]
        self._setting = False

    def set_widths(self, *characters: int, shared: tuple[int, ...], spare: tuple[int, ...] = ()) -> None:
        """Column widths in characters. Columns get theirs, except that those `shared` share what is left; where there
        is too little room for all, those that are `spare` go, the first of them first."""
        self._widths, self._shared, self._spare = characters, shared, spare
        self._fit_columns()

    def _fit_columns(self) -> None:
        width = self.fontMetrics().horizontalAdvance("0")
        least = {i: self.least if i in self._shared else n * width + 14 for i, n in enumerate(self._widths)}
        for column in self._spare:
            hidden = sum(least.values()) > self.viewport().width()
            self.setColumnHidden(column, hidden)
            if hidden:
                del least[column]
        fixed = {i: pixels for i, pixels in least.items() if i not in self._shared}
        shared = sum(self._widths[i] for i in self._shared if i in least) or 1
        left = self.viewport().width() - sum(fixed.values())
        for column, count in enumerate(self._widths):
            self.setColumnWidth(column, fixed.get(column, max(left * count // shared, self.least)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit_columns()

    def select_source(self, source: int | None) -> None:
        """Put the current row where a source row is shown, without saying that the user did."""
        self._setting = True
        row = -1 if source is None else self.table.row_of(source)
        if row < 0:
            self.selectionModel().clear()
        elif self.currentIndex().row() != row or not self.selectionModel().hasSelection():
            flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
            self.selectionModel().setCurrentIndex(self.table.index(row, 0), flags)
        self._setting = False

    def _picked(self, current: object, _previous: object) -> None:
        if not self._setting and current.isValid():  # type: ignore[attr-defined]
            self.picked.emit(self.table.source_row(current.row()))  # type: ignore[attr-defined]

    def _fit_rows(self) -> None:
        self.verticalHeader().setDefaultSectionSize(QFontMetrics(self.font()).height() + 9)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_rows()
