"""The table widget that all panels use: virtual, sortable, one row high as the font needs, copies what is selected."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QItemSelectionModel, Qt, Signal
from PySide6.QtGui import QFontMetrics, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from ..state.array_table import ArrayTable, Column
from ..state.session import Gesture
from .copying import make_copyable
from .delegates import TableDelegate
from .manners import Manners


class TableView(QTableView):
    """Shows an `ArrayTable`. `picked` carries the source row that the user chose."""

    picked = Signal(int)
    pointed = Signal(int)
    """The source row under the pointer, -1 for none; only with `follow_pointer`."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = ArrayTable(parent=self)
        self.setModel(self.table)
        # a header that knows what is selected asks the model about every row, to paint the selected columns' titles
        self.horizontalHeader().setSelectionModel(QItemSelectionModel(self.table, self))
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
        self._giving: int | None = None
        self._setting = False
        self.selectionModel().currentRowChanged.connect(self._picked)
        self.gesture: Gesture | None = None
        """What a row chosen just now is part of: of going through the rows by key."""
        make_copyable(self)
        Manners(self)

    def set_delegate(self, delegate: TableDelegate) -> None:
        """Paint with this delegate."""
        self.painter_of_cells = delegate
        self.setItemDelegate(delegate)

    def show_columns(self, columns: Sequence[Column], rows: object = None) -> None:
        """Other contents; the current row is not kept, the order is."""
        self._setting = True
        self.table.show(columns, rows)  # type: ignore[arg-type]
        self._setting = False

    def set_widths(
        self, *characters: int, shared: tuple[int, ...], spare: tuple[int, ...] = (), giving: int | None = None
    ) -> None:
        """Column widths in characters. Columns get theirs, except that those `shared` share what is left; where there
        is too little room for all, those that are `spare` go, the first of them first, and the one `giving` gives
        what the others lack."""
        self._widths, self._shared, self._spare, self._giving = characters, shared, spare, giving
        self._fit_columns()

    def _fit_columns(self) -> None:
        width, narrowest = self.fontMetrics().horizontalAdvance("0"), self.horizontalHeader().minimumSectionSize()
        wanted = [max(count * width + 14, narrowest) for count in self._widths]
        least = {i: self.least if i in self._shared else pixels for i, pixels in enumerate(wanted)}
        for column in self._spare:
            hidden = sum(least.values()) > self.viewport().width()
            self.setColumnHidden(column, hidden)
            if hidden:
                del least[column]
        fixed = {i: pixels for i, pixels in least.items() if i not in self._shared}
        shared = sum(self._widths[i] for i in self._shared if i in least) or 1
        left = self.viewport().width() - sum(fixed.values())
        if self._giving is not None and left < 0:
            fixed[self._giving] = max(fixed[self._giving] + left, self.least)
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

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.gesture = ("rows", self.accessibleName())
        super().keyPressEvent(event)
        self.gesture = None

    def follow_pointer(self) -> None:
        """Say which row the pointer is over."""
        self.setMouseTracking(True)
        self.entered.connect(lambda index: self.pointed.emit(self.table.source_row(index.row())))

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave and self.hasMouseTracking():
            self.pointed.emit(-1)
        return super().viewportEvent(event)

    def show_pointed(self, source: int | None) -> None:
        """Lift a source row, None for none; nothing but it and the one before is painted."""
        row, before = -1 if source is None else self.table.row_of(source), self.painter_of_cells.pointed_row
        self.painter_of_cells.pointed_row = row
        for one in {row, before} - {-1} if row != before else ():
            top, height = self.rowViewportPosition(one), self.rowHeight(one)
            self.viewport().update(0, top, self.viewport().width(), height)

    def _picked(self, current: object, _previous: object) -> None:
        if not self._setting and current.isValid():  # type: ignore[attr-defined]
            self.picked.emit(self.table.source_row(current.row()))  # type: ignore[attr-defined]

    def _fit_rows(self) -> None:
        self.verticalHeader().setDefaultSectionSize(QFontMetrics(self.font()).height() + 9)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_rows()
