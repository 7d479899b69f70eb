"""The table widget that all panels use: virtual, sortable, one row high as the font needs, copies what is selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, QItemSelectionModel, Qt, Signal
from PySide6.QtGui import QFontMetrics, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from ..state.array_table import ArrayTable, Column
from ..state.session import Gesture
from .copying import make_copyable
from .delegates import TableDelegate
from .manners import Manners

_LEAST, _AROUND = 50, 14
"""Pixels of the narrowest column that shares what is left, and of what is around the text of a cell."""
_NONE: Mapping[int, int] = {}


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
        self._least: Mapping[int, int] = {}
        self._most: Mapping[int, int] = {}
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
        self, *characters: int, shared: tuple[int, ...], least: Mapping[int, int] = _NONE, spare: tuple[int, ...] = (),
        giving: int | None = None, most: Mapping[int, int] = _NONE,
    ) -> None:  # fmt: skip
        """Column widths in characters. Columns get theirs, except that those `shared` share what is left, and none of
        them has fewer than its `least`, nor, where it has one, more than its `most`. Where there is too little room for
        all, those that are `spare` go, the first of them first, and the one `giving` gives what the others lack."""
        for column in self._spare:  # other columns may be in their places by now
            self.setColumnHidden(column, False)
        self._widths, self._shared, self._least, self._spare, self._giving = characters, shared, least, spare, giving
        self._most = {i: self._pixels(count) for i, count in most.items()}
        self._fit_columns()

    def _fit_columns(self) -> None:
        wanted = [self._pixels(count) for count in self._widths]
        yielding = self._shared if self._giving is None else (*self._shared, self._giving)
        floors = {i: self._pixels(self._least[i]) if i in self._least else _LEAST for i in yielding}
        least = {i: floors.get(i, pixels) for i, pixels in enumerate(wanted)}
        for column in self._spare:
            hidden = sum(least.values()) > self.viewport().width()
            self.setColumnHidden(column, hidden)
            if hidden:
                del least[column]
        fixed = {i: wanted[i] for i in least if i not in self._shared}
        left = self.viewport().width() - sum(fixed.values())
        if self._giving is not None and left < 0:
            fixed[self._giving] = max(fixed[self._giving] + left, floors[self._giving])
        shares = shared_out(left, {i: self._widths[i] for i in self._shared if i in least}, floors, self._most)
        for column, pixels in (fixed | shares).items():
            self.setColumnWidth(column, pixels)

    def _pixels(self, characters: int) -> int:
        """What a column of so many characters needs."""
        needed = characters * self.fontMetrics().horizontalAdvance("0") + _AROUND
        return max(needed, self.horizontalHeader().minimumSectionSize())

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


def shared_out(
    room: int, weights: Mapping[int, int], floors: Mapping[int, int], most: Mapping[int, int] = _NONE
) -> dict[int, int]:
    """What each column gets of a room by its weight; what one needs for its floor the others give, and what one has
    over its most they get."""
    found: dict[int, int] = {}
    while True:
        rest = {i: weight for i, weight in weights.items() if i not in found}
        left, whole = room - sum(found.values()), sum(rest.values())
        shares = {i: left * weight // whole for i, weight in rest.items()}
        bound = {i: floors[i] for i in rest if shares[i] < floors[i]}
        bound = bound or {i: most[i] for i in rest if i in most and shares[i] > most[i]}
        if not bound:
            return found | shares
        found |= bound
