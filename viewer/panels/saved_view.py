"""What autograd packed for backward: the whole step, or what the selection, the filter and the range leave of it."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ..charts.theme import Theme, current
from ..look.units import exact_bytes_text
from ..state.array_table import Column
from ..state.saved_table import restriction, saved_columns, saved_shown, saved_text
from ..state.scope import Scope
from ..state.view_state import RunView
from .caption import Caption
from .table_view import TableView

_WIDTHS = (10, 14, 26, 18, 22, 12, 10, 10)
_FEW_WORDS = (1, 5, 6)
"""Columns of few different words: no wider than those that the file has."""
_LEAST = {2: 14, 3: 10, 4: 11}
"""Characters of the columns that share what is left."""
_SPARE = (6, 5)
"""Columns that go where there is too little room: in which phase it was packed, then the dtype."""


class SavedPanel(QWidget):
    """Cut anew once the range rests for a moment."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.caption = Caption(self)
        self.caption.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.caption.setContentsMargins(2, 3, 2, 3)
        self.view = TableView("Saved tensors", self)
        self.view.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # modules differ at their end
        self.columns = saved_columns(scope.run)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.caption)
        layout.addWidget(self.view, 1)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(25)
        self._later.timeout.connect(self._fill)
        self._fill()
        needed = {column: _longest(self.columns[column]) for column in _FEW_WORDS}
        widths = (min(width, needed.get(column, width)) for column, width in enumerate(_WIDTHS))
        self.view.set_widths(*widths, shared=tuple(_LEAST), least=_LEAST, spare=_SPARE)
        self.view.sortByColumn(0, Qt.SortOrder.DescendingOrder)
        self.set_theme(current())
        scope.changed.connect(self._view_changed)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.view.painter_of_cells.theme = theme

    def _fill(self) -> None:
        if self.scope.is_open:  # undo may have closed the run since the range moved
            self.view.show_columns(self.columns, saved_shown(self.scope.run, self.scope.view))
            said, total = saved_text(self.scope.run, self.scope.view)
            self.caption.setText(said)
            self.caption.setToolTip(exact_bytes_text(total))

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if restriction(old) != restriction(new):
            self._later.start()


def _longest(column: Column) -> int:
    """Characters of the longest text in a column, or of its title."""
    rows = np.unique(column.keys, return_index=True)[1].tolist()
    return max(len(text) for text in (column.title, *map(column.text, rows)))
