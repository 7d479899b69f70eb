"""A table whose rows lead to the allocations behind them: by a click, or by Enter on the current row."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QWidget

from ..model.query import AllocationQuery
from ..state.array_table import Column
from .table_view import TableView


class LinkTable(TableView):
    """Going through the rows with the arrows leads nowhere yet. `followed` carries the query of the row chosen."""

    followed = Signal(object)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, parent)
        self.queries: tuple[AllocationQuery | None, ...] = ()
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(self._clicked)

    def show_links(self, columns: Sequence[Column], queries: Sequence[AllocationQuery | None]) -> None:
        """Other contents; `queries` has one for each source row, None where there is nothing behind it."""
        self.queries = tuple(queries)
        self.show_columns(columns)

    def _clicked(self, index: QModelIndex) -> None:
        if QGuiApplication.keyboardModifiers() == Qt.KeyboardModifier.NoModifier:  # else rows are chosen to be copied
            self._follow(index)

    def _follow(self, index: QModelIndex) -> None:
        query = self.queries[self.table.source_row(index.row())] if index.isValid() else None
        if query is not None:
            self.followed.emit(query)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._follow(self.currentIndex())
            return
        super().keyPressEvent(event)
