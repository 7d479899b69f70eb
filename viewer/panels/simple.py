"""Panels that are one table: saved tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ..charts.theme import Theme, current
from ..model.run import Run
from ..state.array_table import Column
from ..state.run_tables import saved_columns
from ..state.scope import Scope
from .table_view import TableView


class TablePanel(QWidget):
    """One table of a run that does not depend on the cursor."""

    def __init__(
        self,
        scope: Scope,
        name: str,
        make: Callable[[Run], Sequence[Column]],
        widths: tuple[int, ...],
        shared: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.view = TableView(name, self)
        self.view.show_columns(make(scope.run))
        self.view.set_widths(*widths, shared=shared)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.view)
        self.set_theme(current())

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.view.painter_of_cells.theme = theme


class SavedPanel(TablePanel):
    """What autograd packed for backward."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope, "Saved tensors", saved_columns, (10, 15, 26, 18, 22, 10, 12), (2, 3, 4))
        self.view.sortByColumn(0, Qt.SortOrder.DescendingOrder)
