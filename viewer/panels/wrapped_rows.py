"""Rows of a table of sentences: as many lines as there is room for, without scrolling."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRect, Qt

from .delegates import AROUND
from .table_view import TableView


class WrappedRows(QObject):
    """Gives the rows of a small table the height that their texts need, the first rows first, while all of them are in
    sight; where there is no room they keep one line."""

    def __init__(self, view: TableView) -> None:
        super().__init__(view)
        self.view = view
        view.setWordWrap(True)
        view.viewport().installEventFilter(self)
        view.horizontalHeader().sectionResized.connect(self.fit)
        view.table.layoutChanged.connect(self.fit)
        view.table.modelReset.connect(self.fit)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize:
            self.fit()
        return super().eventFilter(watched, event)

    def fit(self, *_: object) -> None:
        """Share out the height there is."""
        least, line = self.view.verticalHeader().defaultSectionSize(), self.view.fontMetrics().lineSpacing()
        rows = range(self.view.table.rowCount())
        left = (self.view.viewport().height() - least * len(rows)) // line
        for row in rows:
            more = min(self._lines(row) - 1, max(left, 0))
            self.view.setRowHeight(row, least + more * line)
            left -= more

    def _lines(self, row: int) -> int:
        """How many lines the longest text of a row takes."""
        metrics, most = self.view.fontMetrics(), 1
        for column in range(self.view.table.columnCount()):
            room = QRect(0, 0, self.view.columnWidth(column) - AROUND, 1 << 20)
            text = str(self.view.table.index(row, column).data())
            high = metrics.boundingRect(room, Qt.TextFlag.TextWordWrap, text).height()
            most = max(most, -(-high // metrics.lineSpacing()))
        return most
