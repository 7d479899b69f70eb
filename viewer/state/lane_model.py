"""The tree beside the lanes: super-blocks that unfold into their layers."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from memstrata.capture.format.schema import B1

from ..look.tips import tip
from ..look.units import bytes_text, exact_bytes_text
from .array_table import RawRole
from .lanes import Lane, Lanes

Index = QModelIndex | QPersistentModelIndex
ROOT = QModelIndex()
LaneRole = Qt.ItemDataRole.UserRole + 10
"""The `Lane` of the row."""

NAME, MEASURED, PREDICTED, LANE = range(4)
AT_CURSOR, IN_RANGE = "at cursor", "in range"
SHAPES, SHAPES_OF_ALL = "shapes say", "shapes, all"
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class LaneModel(QAbstractItemModel):
    """Two levels: the internal id of an inner row is 1 + the row of its parent, that of an outer row 0."""

    def __init__(self, lanes: Lanes, cursor: int, what: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lanes, self.cursor, self.ranged = lanes, cursor, False
        self.titles = [what, AT_CURSOR, SHAPES, "over time"]

    def restrict(self, mask: B1 | None, ranged: bool) -> None:
        """Count only what this mask over the run's allocations leaves; of a range, whatever of it the mask leaves."""
        self.lanes.restrict(mask)
        self.ranged, self.titles[MEASURED] = ranged, IN_RANGE if ranged else AT_CURSOR
        self.titles[PREDICTED] = SHAPES if mask is None else SHAPES_OF_ALL
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, MEASURED, PREDICTED)
        self.move_cursor(self.cursor)

    def move_cursor(self, cursor: int) -> None:
        """Show the bytes at another position."""
        self.cursor = cursor
        parents = [ROOT, *(self.index(row, 0) for row in range(len(self.lanes.outer)))]
        for parent in parents:
            if count := self.rowCount(parent):
                last = self.index(count - 1, PREDICTED, parent)
                self.dataChanged.emit(self.index(0, MEASURED, parent), last)

    def lane(self, index: Index) -> Lane:
        """The lane of a row."""
        outer = index.internalId() - 1
        return self.lanes.inner[outer][index.row()] if outer >= 0 else self.lanes.outer[index.row()]

    def is_inner(self, index: Index) -> bool:
        """Whether the row is a layer inside a super-block."""
        return index.internalId() > 0

    def predicted_at(self, lane: Lane, position: int) -> int | None:
        """Predicted bytes of a lane at a position."""
        curve = self.lanes.predicted(lane)
        return None if curve is None else curve.at(position)

    def index(self, row: int, column: int, parent: Index = ROOT) -> QModelIndex:
        if not self.hasIndex(row, column, parent):
            return QModelIndex()
        return self.createIndex(row, column, parent.row() + 1 if parent.isValid() else 0)

    def parent(self, index: Index = ROOT) -> Any:
        outer = index.internalId() - 1 if index.isValid() else -1
        return self.createIndex(outer, 0, 0) if outer >= 0 else QModelIndex()

    def rowCount(self, parent: Index = ROOT) -> int:
        if not parent.isValid():
            return len(self.lanes.outer)
        if parent.internalId() or parent.column() > 0:
            return 0
        return len(self.lanes.inner[parent.row()])

    def columnCount(self, parent: Index = ROOT) -> int:
        return len(self.titles)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self.titles[section] if 0 <= section < len(self.titles) else None
        if role == Qt.ItemDataRole.TextAlignmentRole and section in (MEASURED, PREDICTED):
            return _RIGHT
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        lane, column = self.lane(index), index.column()
        if role == LaneRole:
            return lane
        if role == Qt.ItemDataRole.TextAlignmentRole and column in (MEASURED, PREDICTED):
            return _RIGHT
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole, RawRole):
            return None
        if column == NAME:
            return tip(lane.name) if role == Qt.ItemDataRole.ToolTipRole else lane.name
        value = self._value(lane, column)
        if value is None or role == RawRole:
            return value
        return bytes_text(value) if role == Qt.ItemDataRole.DisplayRole else self._exact(lane, column, value)

    def _exact(self, lane: Lane, column: int, value: int) -> str:
        """To the byte; of a part also what it is a part of."""
        if column != MEASURED or not self.lanes.is_restricted:
            return exact_bytes_text(value)
        what, when = (lane.bytes, "in the step") if self.ranged else (lane.total_at(self.cursor), "at the cursor")
        return f"{exact_bytes_text(value)} of {exact_bytes_text(what)} {when}"

    def _value(self, lane: Lane, column: int) -> int | None:
        if column == MEASURED:
            shown = self.lanes.shown(lane)
            return shown.bytes if self.ranged else shown.total_at(self.cursor)
        return self.predicted_at(lane, self.cursor) if column == PREDICTED else None
