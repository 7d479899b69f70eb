"""The common tree of stacks of two runs as an item model."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Qt

from ..analysis.stack_diff import TOP, StackDiff
from ..look.tips import tip
from ..look.units import bytes_text, count_text, difference_text, exact_bytes_text
from .array_table import RawRole, ShareRole
from .titled_tree import RIGHT, ROOT, Index, TitledTree

FRAME, COUNT, IN_A, IN_B, DIFFERENCE = range(5)


class StackDiffModel(TitledTree):
    """The node of the whole is not shown."""

    titles = ("frame", "count", "in A", "in B", "difference")

    def __init__(self, tree: StackDiff, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.tree = tree
        self._most = max((abs(node.difference_bytes) for node in tree.nodes), default=0) or 1
        self._row = {child: row for node in tree.nodes for row, child in enumerate(node.children)}

    def node(self, index: Index) -> int:
        """The node of an index, that of the whole for none."""
        return int(index.internalId()) if index.isValid() else TOP

    def index_of(self, node: int) -> QModelIndex:
        """The index of a node."""
        return QModelIndex() if node == TOP else self.createIndex(self._row[node], 0, node)

    def index(self, row: int, column: int, parent: Index = ROOT) -> QModelIndex:
        if not self.hasIndex(row, column, parent):
            return QModelIndex()
        return self.createIndex(row, column, self.tree.nodes[self.node(parent)].children[row])

    def parent(self, index: Index = ROOT) -> Any:
        return self.index_of(self.tree.nodes[self.node(index)].parent) if index.isValid() else QModelIndex()

    def rowCount(self, parent: Index = ROOT) -> int:
        return 0 if parent.column() > 0 else len(self.tree.nodes[self.node(parent)].children)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        node, column = self.tree.nodes[self.node(index)], index.column()
        size = {IN_A: node.bytes[0], IN_B: node.bytes[1], DIFFERENCE: node.difference_bytes}.get(column)
        if role == Qt.ItemDataRole.TextAlignmentRole and column != FRAME:
            return RIGHT
        if role == ShareRole and column == DIFFERENCE:
            return node.difference_bytes / self._most
        if role == RawRole:
            return node.name if column == FRAME else sum(node.count) if size is None else size
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip(node.name) if size is None else exact_bytes_text(size)
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        if size is not None:
            return difference_text(size) if column == DIFFERENCE else bytes_text(size)
        return node.name if column == FRAME else " → ".join(count_text(count) for count in node.count)
