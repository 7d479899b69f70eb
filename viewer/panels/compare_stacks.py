"""The difference of two runs along their stacks: a tree of callers with the bytes of both."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QAbstractItemView, QTreeView, QWidget

from ..analysis.diff import Diff
from ..analysis.stack_diff import StackDiff
from ..charts.theme import Theme, current
from ..state.stack_diff_model import COUNT, DIFFERENCE, FRAME, IN_A, IN_B, StackDiffModel
from .delegates import DifferenceDelegate, TableDelegate
from .work_line import WorkLine

_WIDTHS = {COUNT: 11, IN_A: 9, IN_B: 9, DIFFERENCE: 18}
"""In characters; frames have the rest. The count goes where they would have too little."""
_FRAME = 20


class StackDiffView(QTreeView):
    """Filled in a job when it is first seen; unfolded along the path that bears most of the difference."""

    picked = Signal(object)
    """(query of a, query of b) of the frame chosen."""

    def __init__(self, diff: Diff, parent: QWidget) -> None:
        super().__init__(parent)
        self.diff = diff
        self.work = WorkLine(self)
        self.work.lie_on(self)
        self._begun = False
        self.setModel(QStandardItemModel(self))  # who asks for the rows meanwhile finds none
        self.setAccessibleName("Difference by stack")
        self.setUniformRowHeights(True)
        self.setIndentation(9)  # stacks are deep
        self.setAllColumnsShowFocus(True)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.header().setStretchLastSection(False)
        self.plain, self.bars = TableDelegate(self), DifferenceDelegate(self)
        self.setItemDelegate(self.plain)
        self.setItemDelegateForColumn(DIFFERENCE, self.bars)
        self.set_theme(current())

    def showEvent(self, event: object) -> None:
        """Filled as soon as the tree is there, unless it was before."""
        super().showEvent(event)  # type: ignore[arg-type]
        self.fill()

    def show_diff(self, diff: Diff) -> None:
        """The same runs, restricted by other words."""
        self.diff, self._begun = diff, False
        if self.isVisible():
            self.fill()

    def fill(self) -> None:
        """Work out the tree and show it, once."""
        if not self._begun:
            self._begun, diff = True, self.diff
            self.work.begin("Comparing stacks", lambda job: StackDiff(diff.a, diff.b, diff.filter), self._take)

    def _take(self, tree: StackDiff) -> None:
        model = StackDiffModel(tree, self)
        self.setModel(model)
        for node in tree.telling_path():
            self.expand(model.index_of(node))
        self.selectionModel().currentRowChanged.connect(self._chosen)
        self._fit_columns()

    def _chosen(self, index: QModelIndex, _before: QModelIndex) -> None:
        model = self.model()
        if index.isValid() and isinstance(model, StackDiffModel):
            self.picked.emit(model.tree.queries(model.node(index)))

    def _fit_columns(self) -> None:
        digit = self.fontMetrics().horizontalAdvance("0")
        for column, characters in _WIDTHS.items():
            self.setColumnWidth(column, characters * digit + 12)
        needed = sum(characters * digit + 12 for characters in _WIDTHS.values())
        self.setColumnHidden(COUNT, needed + _FRAME * digit > self.viewport().width())
        rest = self.viewport().width() - sum(self.columnWidth(column) for column in _WIDTHS)
        self.setColumnWidth(FRAME, max(rest, _FRAME * digit))

    def resizeEvent(self, event: object) -> None:
        super().resizeEvent(event)  # type: ignore[arg-type]
        self._fit_columns()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.plain.theme = self.bars.theme = theme
        self.viewport().update()
