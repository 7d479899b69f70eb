"""The selected allocation: what it is, and the stack that made it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ..charts.theme import Theme, current
from ..state.array_table import FaintRole
from ..state.run_tables import stack_columns
from ..state.scope import Scope
from ..state.selection import allocation_lines
from ..state.view_state import RunView
from .caption import Caption, wrap_where_high
from .table_view import TableView

_NOTHING = "Select an allocation to see what it is and which stack made it."
_NO_STACK = "The file has no stack for this allocation."
_HIGH = 150
"""Pixels of height below which each fact is one line, so that the stack keeps some."""


class StackPanel(QWidget):
    """Follows the selected allocation."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.facts = Caption(self, lines=True)
        self.facts.setObjectName("facts")
        self.facts.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.facts.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.view = TableView("Stack of the selected allocation, innermost frame first", self)
        self.view.setSortingEnabled(False)
        self.view.setVerticalScrollMode(TableView.ScrollMode.ScrollPerItem)
        self.view.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.facts)
        layout.addWidget(self.view, 1)
        self.set_theme(current())
        self.fill()
        scope.changed.connect(self._view_changed)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wrap_where_high(self, self.facts, high=_HIGH)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.view.painter_of_cells.theme = theme

    def fill(self) -> None:
        """Show the allocation that is selected now."""
        run, row = self.scope.run, self.scope.view.allocation
        stack = -1 if row is None else int(run.allocations.stack[row])
        self.view.show_columns(stack_columns(run, stack))
        self.view.set_widths(20, 20, shared=(0, 1))
        self.view.setVisible(stack >= 0)
        self._to_own_code()
        if row is None:
            self.facts.setText(_NOTHING)
            return
        lines = [*allocation_lines(run, row), *([] if stack >= 0 else [_NO_STACK])]
        self.facts.setText("\n".join(lines))

    def _to_own_code(self) -> None:
        """Bring the innermost frame of the user's own code into sight."""
        table = self.view.table
        for row in range(table.rowCount()):
            if not table.index(row, 0).data(FaintRole):
                self.view.scrollTo(table.index(row, 0), TableView.ScrollHint.PositionAtCenter)
                return

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.allocation != new.allocation:
            self.fill()
