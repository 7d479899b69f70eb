"""What is alive at the cursor, largest first, and the stack of the allocation that is selected."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ..charts.theme import Theme, current
from ..look.units import bytes_text, count_text, exact_bytes_text
from ..model.paints import group_paints
from ..state.run_tables import allocation_columns
from ..state.scope import Scope
from ..state.selection import shown_text
from ..state.view_state import RunView
from ..state.within import shown_query
from .caption import Caption
from .delegates import TableDelegate
from .table_view import TableView

_WIDTHS = {"bytes": 9, "category": 17, "layer": 12, "what": 28, "module": 24, "made in": 28, "allocated": 9, "freed": 8}
_KEPT = ("category", "layer")
"""Columns of words that are not cut for others."""
_LEAST = {"what": 12, "module": 12, "made in": 14}
_ORDER = len("event 12,345")  # where there are no times
_SPARE = ("allocated", "freed")
"""Columns that go where names would have fewer characters: the stack beside the table says when as well."""


class AlivePanel(QWidget):
    """The table is filled once the cursor rests for a moment."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.columns = allocation_columns(scope.bands)
        self.caption = Caption(self)
        self.caption.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.clear = QPushButton("Show all", self)
        self.clear.setAccessibleName("Show all allocations again")
        self.clear.clicked.connect(lambda: scope.look(query=None, filter=""))
        self.view = TableView("Allocations alive at the cursor", self)
        self.view.picked.connect(lambda row: scope.look(self.view.gesture, allocation=row))
        self._lay_out()
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(25)
        self._later.timeout.connect(self._fill_if_open)
        self.set_theme(current())
        self.view.setAutoScroll(False)  # it opens with the largest in sight, wherever the selection is
        self.fill()
        self.view.setAutoScroll(True)
        scope.changed.connect(self._view_changed)

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.setContentsMargins(2, 3, 8, 3)
        line.addWidget(self.caption, 1)
        line.addWidget(self.clear)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(line)
        layout.addWidget(self.view, 1)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        bands = self.scope.bands
        paints, labels = group_paints(bands.grouping, theme.dark), bands.grouping.labels
        self.view.set_delegate(TableDelegate(self.view, lambda row: paints[labels[row]]))
        self.view.painter_of_cells.theme = self.theme = theme

    def _fill_if_open(self) -> None:
        if self.scope.is_open:  # undo may have closed the run since the cursor moved
            self.fill()

    def fill(self) -> None:
        """Show what is alive at the cursor now."""
        self._later.stop()
        run, query = self.scope.run, self.scope.shown_query()
        rows = query.select(run)
        self.view.show_columns(self.columns, rows)
        titles = [column.title for column in self.columns]
        shared = tuple(i for i, c in enumerate(self.columns) if not c.right and c.title not in _KEPT)
        least = {titles.index(title): count for title, count in _LEAST.items() if title in titles}
        spare = tuple(titles.index(title) for title in _SPARE if title in titles)
        orders = {} if run.has_times else dict.fromkeys(_SPARE, _ORDER)
        widths = ((_WIDTHS | orders).get(title, 24) for title in titles)
        self.view.set_widths(*widths, shared=shared or (1,), least=least, spare=spare)
        total = int(run.allocations.bytes[rows].sum())
        of, when = shown_text(run, self.scope.view)
        self.caption.setText(f"{count_text(len(rows), 'allocation')}{of}, {bytes_text(total)}, {when}")
        self.caption.setToolTip(exact_bytes_text(total))
        self.clear.setVisible(bool(self.scope.view.query or self.scope.view.filter))
        self.view.select_source(self.scope.view.allocation)

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.grouping != new.grouping:
            self.columns = allocation_columns(self.scope.bands)
            self.set_theme(self.theme)
            self.fill()
        if shown_query(old) != shown_query(new):
            self._later.start()
        elif old.allocation != new.allocation:
            self.view.select_source(new.allocation)
