"""The tree of stacks as an item model: a node for each frame, with the bytes below it."""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import QModelIndex, QObject, Qt

from ..look.tips import tip
from ..look.units import bytes_text, count_text, exact_bytes_text, percent_text
from ..model.frame_names import frame_name
from ..model.run import Run
from ..model.stack_tree import NO_STACK, StackTree
from ..model.stacks import own_frames
from .array_table import FaintRole, RawRole
from .titled_tree import RIGHT, ROOT, Index, TitledTree

FRAME, BYTES, SHARE, OWN, COUNT = range(5)


def node_name(run: Run, tree: StackTree, node: int) -> str:
    """The frame of a node in short."""
    frame = int(tree.frame[node])
    return "no stack" if frame == NO_STACK else frame_name(run.recording, frame)


def whole_name(run: Run, tree: StackTree, node: int) -> str:
    """The frame of a node with its whole path."""
    frame = int(tree.frame[node])
    if frame == NO_STACK:
        return "no stack was recorded for these allocations"
    frames, strings = run.recording.frames, run.recording.strings
    name, file, line = strings[int(frames.name[frame])], strings[int(frames.file[frame])], int(frames.line[frame])
    return f"{name}\n{file}:{line}" if line > 0 else name


class StackModel(TitledTree):
    """A node for each frame of the tree that is shown."""

    titles = ("frame", "bytes", "share", "made here", "count")

    def __init__(self, run: Run, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.run = run
        self.tree: StackTree | None = None
        self._first = np.zeros(1, np.int64)
        self.own = own_frames(run.recording)

    def show(self, tree: StackTree) -> None:
        """Other contents."""
        self.beginResetModel()
        self.tree = tree
        self._first = np.searchsorted(tree.parent, np.arange(-1, len(tree) + 1))
        self.endResetModel()

    def index_of(self, node: int, column: int = 0) -> QModelIndex:
        """The index of a node."""
        assert self.tree is not None
        row = node - int(self._first[int(self.tree.parent[node]) + 1])
        return self.createIndex(row, column, node)

    def node(self, index: Index) -> int:
        """The node of an index, -1 of none."""
        return int(index.internalId()) if index.isValid() else -1

    def index(self, row: int, column: int, parent: Index = ROOT) -> QModelIndex:
        if not self.hasIndex(row, column, parent):
            return QModelIndex()
        return self.createIndex(row, column, int(self._first[self.node(parent) + 1]) + row)

    def parent(self, index: Index = ROOT) -> Any:
        above = int(self.tree.parent[self.node(index)]) if index.isValid() and self.tree is not None else -1
        return self.index_of(above) if above >= 0 else QModelIndex()

    def rowCount(self, parent: Index = ROOT) -> int:
        if self.tree is None or parent.column() > 0:
            return 0
        node = self.node(parent)
        return int(self._first[node + 2] - self._first[node + 1])

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or self.tree is None:
            return None
        node, column = self.node(index), index.column()
        if role == Qt.ItemDataRole.TextAlignmentRole and column != FRAME:
            return RIGHT
        if role == FaintRole:
            frame = int(self.tree.frame[node])
            return not (frame >= 0 and self.own[frame])
        if role == RawRole:
            return self._value(node, column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip(whole_name(self.run, self.tree, node)) if column == FRAME else self._exact(node, column)
        return self._text(node, column) if role == Qt.ItemDataRole.DisplayRole else None

    def _value(self, node: int, column: int) -> Any:
        assert self.tree is not None
        columns = {BYTES: self.tree.bytes, SHARE: self.tree.bytes, OWN: self.tree.own_bytes, COUNT: self.tree.count}
        return int(columns[column][node]) if column in columns else self._text(node, column)

    def _exact(self, node: int, column: int) -> str | None:
        return exact_bytes_text(self._value(node, column)) if column in (BYTES, OWN) else None

    def _text(self, node: int, column: int) -> str:
        assert self.tree is not None
        if column == FRAME:
            return node_name(self.run, self.tree, node)
        if column == SHARE:
            return percent_text(int(self.tree.bytes[node]) / (self.tree.total_bytes or 1))
        if column == OWN and not self.tree.own_bytes[node]:
            return ""
        value = self._value(node, column)
        return count_text(value) if column == COUNT else bytes_text(value)
