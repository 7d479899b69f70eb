"""The legend is a table: each group with its colour, its bytes at the cursor and at the peak."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ..charts.theme import Theme, current
from ..look.units import exact_bytes_text
from ..model.paints import Paint, group_paints
from ..state.pointed import NOTHING, Pointed
from ..state.run_tables import group_columns
from ..state.scope import Scope
from ..state.selection import moment
from ..state.view_state import RunView
from ..state.within import CURSOR, shown_query, within_of
from .caption import Caption, wrap_where_high
from .delegates import TableDelegate
from .table_view import TableView

_HIGH = 160  # pixels of the panel from which the place of the cursor has two lines
_FIELDS = ("grouping", "cursor", "mark", "within", "filter")


class LegendPanel(QWidget):
    """Choosing a group lifts its band and restricts the tables to it."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.paints: list[Paint] = []
        self.view = TableView("Groups, with bytes at the cursor and at the peak", self)
        self.view.set_delegate(TableDelegate(self.view, lambda group: self.paints[group]))
        self.view.picked.connect(self._picked)
        self.view.follow_pointer()
        self.view.pointed.connect(lambda group: scope.point(Pointed(group=group) if group >= 0 else NOTHING))
        scope.pointed.connect(lambda at: self.view.show_pointed(at.band(scope.bands)))
        self.where = Caption(self)
        self.where.setObjectName("where")
        self.where.setWordWrap(True)
        self.where.setAccessibleName("Where the cursor is")
        self.where.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.view, 1)
        layout.addWidget(self.where)
        self.set_theme(current())
        scope.changed.connect(self._view_changed)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.paints = group_paints(self.scope.bands.grouping, theme.dark)
        self.view.painter_of_cells.theme = theme
        self.dark = theme.dark
        self._fill()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wrap_where_high(self, self.where, high=_HIGH)

    def _fill(self) -> None:
        view = self.scope.view
        ranged = shown_query(replace(view, query=None)) if within_of(view) != CURSOR else None
        self.view.show_columns(*group_columns(self.scope.bands, view.cursor, view.mark, view.filter, ranged))
        self.view.set_widths(12, 8, 8 if view.mark is None else 10, shared=(0,))
        self.where.setText(f"Cursor: {moment(self.scope.run, view.cursor)}")
        self.where.setToolTip(exact_bytes_text(int(self.scope.run.curve[view.cursor])))
        self.view.select_source(self.scope.bands.group_of(self.scope.view.query))

    def _picked(self, group: int) -> None:
        self.scope.look(self.view.gesture, query=self.scope.bands.query(group), allocation=None)

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.grouping != new.grouping:
            self.paints = group_paints(self.scope.bands.grouping, self.dark)
        if any(getattr(old, name) != getattr(new, name) for name in _FIELDS):
            self._fill()
        self.view.select_source(self.scope.bands.group_of(new.query))
