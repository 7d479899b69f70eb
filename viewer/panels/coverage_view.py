"""How much is explained, what was lost and what recording cost; the steps, where there are several; all problems."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QVBoxLayout, QWidget

from ..analysis.steps import steps_of
from ..charts.theme import Theme, current
from ..state.coverage_text import coverage_lines, outside_exactly, step_columns
from ..state.run_tables import problem_columns
from ..state.scope import Scope
from ..state.view_state import RunView
from .caption import Caption, wrap_where_high
from .link_table import LinkTable
from .table_view import TableView
from .whole_step import put_whole_step_note

_STEP_WIDTHS = (14, 9, 9, 10, 14, 11, 40)
_STEP_SPARE = (2, 6, 4, 5)
"""Columns of the steps that go where there is too little room, in this order: tokens, what was left behind, ..."""
_LOW = 150
"""Pixels of height below which the steps stand beside the problems: under each other neither would have a row."""
_STEPS_SHOWN, _FEW = 5, 3  # rows of height
_PROBLEMS, _OVER, _BESIDE = 4, 2, 5
"""Shares of the room: of the problems, of the steps over them, of the steps beside them."""


class ProblemsPanel(QWidget):
    """The lines follow the cursor once it rests."""

    followed = Signal(object)

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.text = Caption(self)
        self.text.setObjectName("facts")
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.text.setAccessibleName("Coverage")
        self.text.setToolTip(outside_exactly(scope.run))
        self.view = TableView("Problems", self)
        self.view.show_columns(problem_columns(scope.run))
        self.view.set_widths(9, 8, 80, shared=(2,), least={2: 18}, spare=(1,))
        self.view.sortByColumn(0, Qt.SortOrder.DescendingOrder)
        self.steps: LinkTable | None = self._steps()
        self._lay_out()
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(60)
        self._later.timeout.connect(self._show)
        self._show()
        self.set_theme(current())
        scope.changed.connect(self._view_changed)

    def _steps(self) -> LinkTable | None:
        steps = self.scope.run.once(steps_of)
        if len(steps) < 2:
            return None
        table = LinkTable("Steps", self)
        table.show_links(step_columns(steps), [step.query for step in steps])
        table.set_widths(*_STEP_WIDTHS, shared=(6,), least={6: 20}, spare=_STEP_SPARE)
        table.followed.connect(self.followed)
        table.setMaximumHeight(_height(table, min(len(steps), _STEPS_SHOWN)))
        return table

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.text)
        self.tables = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        if self.steps is not None:
            self.tables.addWidget(self.steps, _OVER)
        self.tables.addWidget(self.view, _PROBLEMS)
        layout.addLayout(self.tables, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The problems come first: a few of them are whole, and the steps have what is left."""
        super().resizeEvent(event)
        wrap_where_high(self, self.text)
        low = self.height() < _LOW
        self.tables.setDirection(QBoxLayout.Direction.LeftToRight if low else QBoxLayout.Direction.TopToBottom)
        if self.steps is not None:
            self.tables.setStretch(0, _BESIDE if low else _OVER)
        few = min(max(self.view.table.rowCount(), 1), _FEW)
        self.view.setMinimumHeight(0 if low else min(_height(self.view, few), self.height() // 2))
        put_whole_step_note(self, self.scope)

    def _show(self) -> None:
        if self.scope.is_open:
            self.text.setText("\n".join(coverage_lines(self.scope.run, self.scope.view.cursor)))

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.cursor != new.cursor:
            self._later.start()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        for table in (self.view, self.steps):
            if table is not None:
                table.painter_of_cells.theme = theme


def _height(table: TableView, rows: int) -> int:
    """Pixels for the head and so many rows."""
    return table.horizontalHeader().sizeHint().height() + rows * table.verticalHeader().defaultSectionSize() + 4
