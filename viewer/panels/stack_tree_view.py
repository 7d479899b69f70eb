"""Where the bytes alive at the cursor were made: the tree of their stacks as an icicle and as a table."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QSplitter,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from ..charts.icicle import Icicle
from ..charts.theme import Theme, current
from ..look.units import bytes_text, exact_bytes_text
from ..model.stack_tree import stack_tree
from ..state.pointed import NOTHING, Pointed
from ..state.scope import Scope
from ..state.selection import shown_text
from ..state.stack_model import BYTES, COUNT, OWN, SHARE, StackModel, node_name
from ..state.view_state import RunView
from ..state.within import shown_query
from .caption import Caption
from .delegates import TableDelegate

_NUMBERS = {BYTES: 8, SHARE: 6, OWN: 9, COUNT: 6}
"""Characters of each column of numbers; names are cut before one of them is."""
_SPARE = (OWN, COUNT, SHARE)
"""Columns that go where there is too little room, in this order."""
_LEAST = 15  # characters of a name
_NARROW, _TALL = 560, 340  # pixels of the panel
_DIRECTIONS = ("from callers down", "from allocations up to callers")


class StackTreePanel(QWidget):
    """Filled once the cursor rests for a moment, and only while it is seen."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.model = StackModel(scope.run, self)
        self.icicle = Icicle(self._name, self.model.own, self)
        self.tree = QTreeView(self)
        self.direction = QComboBox(self)
        self.own_code = QCheckBox("Only your code", self)
        self.caption = Caption(self)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(60)
        self._later.timeout.connect(self._fill_if_open)
        self._stale = True
        self._set_up_tree()
        self._lay_out()
        self.set_theme(current())
        scope.changed.connect(self._view_changed)

    def _set_up_tree(self) -> None:
        self.tree.setModel(self.model)
        self.delegate = TableDelegate(self.tree)
        self.tree.setItemDelegate(self.delegate)
        self.tree.setUniformRowHeights(True)
        self.tree.setIndentation(9)  # stacks are deep
        self.tree.setAllColumnsShowFocus(True)
        self.tree.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.tree.setAccessibleName("Tree of stacks")
        self.tree.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.tree.header().setStretchLastSection(False)
        self.tree.viewport().installEventFilter(self)
        self.tree.selectionModel().currentChanged.connect(self._row_chosen)
        self.icicle.chosen.connect(self._node_chosen)
        self.icicle.pointed_at.connect(self._pointed)

    def _lay_out(self) -> None:
        self.direction.addItems(_DIRECTIONS)
        self.direction.setAccessibleName("Direction of the stack tree")
        self.direction.currentIndexChanged.connect(lambda _: self.fill())
        self.own_code.setChecked(True)
        self.own_code.setVisible(bool(self.model.own.any()))
        self.own_code.toggled.connect(lambda _: self.fill())
        line = QHBoxLayout()
        line.setContentsMargins(2, 3, 8, 3)
        line.setSpacing(10)
        line.addWidget(self.caption, 1)
        line.addWidget(self.own_code)
        line.addWidget(self.direction)
        both = self.both = QSplitter(Qt.Orientation.Horizontal, self)
        both.addWidget(self.tree)
        both.addWidget(self.icicle)
        both.setStretchFactor(0, 3)
        both.setStretchFactor(1, 2)
        both.setSizes([650, 350])  # shares; the numbers beside the names need room
        both.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(line)
        layout.addWidget(both, 1)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.delegate.theme = theme
        self.icicle.set_theme(theme)

    def _name(self, node: int) -> str:
        assert self.model.tree is not None
        return node_name(self.scope.run, self.model.tree, node)

    def showEvent(self, event: object) -> None:
        super().showEvent(event)  # type: ignore[arg-type]
        if self._stale:
            self.fill()

    def _fill_if_open(self) -> None:
        if self.scope.is_open and self.isVisible():
            self.fill()

    def fill(self) -> None:
        """Show the stacks of what is alive at the cursor now."""
        self._later.stop()
        self._stale = False
        run = self.scope.run
        only = self.model.own if self.own_code.isChecked() and self.model.own.any() else None
        tree = stack_tree(run, self.scope.shown_query().select(run), self.direction.currentIndex() == 1, only)
        self.model.show(tree)
        self.icicle.show_tree(tree)
        self._fit_columns()
        path = tree.heaviest_path()
        for node in path:
            self.tree.expand(self.model.index_of(node))
        of, when = shown_text(run, self.scope.view)
        self.caption.setText(f"{bytes_text(tree.total_bytes)}{of}, {when}; the heaviest path is unfolded")
        self.caption.setToolTip(exact_bytes_text(tree.total_bytes))

    def _fit_columns(self) -> None:
        digit = self.fontMetrics().horizontalAdvance("0")
        widths = {column: characters * digit + 12 for column, characters in _NUMBERS.items()}
        room = self.tree.viewport().width() - _LEAST * digit
        for column in _SPARE:
            self.tree.setColumnHidden(column, sum(widths.values()) > room)
            if self.tree.isColumnHidden(column):
                del widths[column]
        for column, width in widths.items():
            self.tree.setColumnWidth(column, width)
        self.tree.setColumnWidth(0, self.tree.viewport().width() - sum(widths.values()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow panel the icicle lies under the table, if there is the height for both."""
        super().resizeEvent(event)
        narrow = self.width() < _NARROW
        self.both.setOrientation(Qt.Orientation.Vertical if narrow else Qt.Orientation.Horizontal)
        self.icicle.setVisible(not narrow or self.height() >= _TALL)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """A scroll bar that comes takes room from the columns too."""
        if event.type() == QEvent.Type.Resize:
            self._fit_columns()
        return False

    def _row_chosen(self, index: QModelIndex, _before: QModelIndex) -> None:
        node = self.model.node(index)
        if node >= 0 and node != self.icicle.top:
            self.icicle.look_at(node)

    def _pointed(self, node: int) -> None:
        self.scope.point(Pointed(frame=self._name(node)) if node >= 0 else NOTHING)

    def _node_chosen(self, node: int) -> None:
        if node < 0:
            self.tree.clearSelection()
            return
        index = self.model.index_of(node)
        self.tree.setCurrentIndex(index)
        self.tree.scrollTo(index)

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if shown_query(old) != shown_query(new):
            self._stale = True
            self._later.start()
