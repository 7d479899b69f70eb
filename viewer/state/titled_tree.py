"""What the trees of stacks share: titles over columns of which the first is a name and the others are numbers."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPersistentModelIndex, Qt

Index = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
NAME = 0
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class TitledTree(QAbstractItemModel):
    """The internal id of a row is its node."""

    titles: tuple[str, ...] = ()

    def columnCount(self, parent: Index = ROOT) -> int:
        return len(self.titles)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self.titles[section] if 0 <= section < len(self.titles) else None
        if role == Qt.ItemDataRole.TextAlignmentRole and section != NAME:
            return RIGHT
        return None
