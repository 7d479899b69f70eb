"""Two runs: what was saved against what shapes predicted, both curves by phase and layer, and the differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QSplitter, QTabWidget, QVBoxLayout, QWidget

from ..analysis.comparison import comparison_headline
from ..analysis.diff import Diff, DiffRow
from ..charts.structure_chart import StructureChart, run_paints
from ..charts.theme import Theme, current
from ..look import palette
from ..look.words import OUTSIDE_LAYERS
from ..model.paints import Paint, category_paint
from ..model.query import AllocationQuery
from ..model.run import Run
from ..state.array_table import Column
from ..state.comparison import category_of_row, group_columns, slot_columns
from ..state.session import Session
from ..state.structure import structure_of
from ..state.view_state import ViewState, looking
from .delegates import DifferenceDelegate, TableDelegate
from .headline import HeadlinePanel
from .saving import SavingPanel
from .table_view import TableView
from .warning_bar import WarningBar

PaintOf = Callable[[int], Paint]


class DiffTable(TableView):
    """A table of differences with a swatch for each group and bars that diverge."""

    def __init__(
        self, name: str, columns: Sequence[Column], paint_of: Callable[[int], Paint] | None, parent: QWidget
    ) -> None:
        super().__init__(name, parent)
        self.hide()
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # rows differ at the end: which super-block
        self.set_delegate(TableDelegate(self, paint_of))
        self.bars = DifferenceDelegate(self)
        self.setItemDelegateForColumn(3, self.bars)
        self.show_columns(columns)
        one = self.fontMetrics().horizontalAdvance("0")
        wide = [self.fontMetrics().horizontalAdvance(column.title) // one + 1 for column in columns[1:3]]
        named = [min(max(count, 10), 24) for count in wide]
        self.set_widths(30, *named, 21, shared=(0, 3))


class ComparePage(QWidget):
    """Puts the comparison of the two runs opened last together."""

    def __init__(self, session: Session, pair: tuple[Run, Run], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session, self.pair = session, pair
        self.diff = Diff(*pair)
        self.structure = structure_of(*pair)
        self.theme: Theme = current()
        self.answer = HeadlinePanel(comparison_headline(self.diff), self.follow, self)
        self.warnings = WarningBar(self.diff.warnings, self)
        self.chart = StructureChart(self.structure, pair, self)
        self.saving = SavingPanel(self.diff, self)
        self.key = QLabel(self)
        self.key.setObjectName("caption")
        self._make_tables()
        self._lay_out()
        self.set_theme(self.theme)
        self._show()
        self.chart.picked.connect(self._cell_picked)
        session.changed.connect(self._changed)

    def _make_tables(self) -> None:
        names = (self.pair[0].name, self.pair[1].name)
        diff = self.diff
        categories = group_columns("category", diff.by_category, names)
        blocks = group_columns("super-block", diff.by_super_block, names)
        self.categories = DiffTable("category", categories, self._category_paint, self)
        self.blocks = DiffTable("super-block", blocks, self._block_paint, self)
        self.slots = DiffTable("phase and super-block", slot_columns(diff, names), None, self)
        self.categories.picked.connect(lambda row: self._row_picked(diff.by_category, row))
        self.blocks.picked.connect(lambda row: self._row_picked(diff.by_super_block, row))

    def _category_paint(self, row: int) -> Paint:
        category = category_of_row(self.diff.by_category, row)
        return Paint(self.theme.panel) if category is None else category_paint(category, self.theme.dark)

    def _block_paint(self, row: int) -> Paint:
        rows = self.diff.by_super_block
        if row >= len(rows):
            return Paint(self.theme.panel)
        if rows[row].label == OUTSIDE_LAYERS:
            return Paint(palette.neutral(self.theme.dark))
        return Paint(palette.ramp(len(rows) - 1, self.theme.dark)[row])

    def _lay_out(self) -> None:
        top = QWidget(self)
        grid = QGridLayout(top)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(0)
        bar = QHBoxLayout()
        bar.setContentsMargins(12, 5, 8, 2)
        bar.addWidget(self.key, 1)
        grid.addLayout(bar, 0, 0)
        grid.addWidget(self.chart, 1, 0)
        grid.addWidget(self.saving, 0, 1, 2, 1)
        grid.setRowStretch(1, 1)
        grid.setColumnStretch(0, 1)
        below = QSplitter(Qt.Orientation.Horizontal, self)
        below.setChildrenCollapsible(False)
        below.addWidget(_titled(self.categories, "By category, each run at its own peak"))
        self.tabs = QTabWidget(below)
        self.tabs.setDocumentMode(True)
        self.tabs.tabBar().setDrawBase(False)
        if self.diff.by_super_block:
            self.tabs.addTab(self.blocks, "By super-block")
        if self.diff.by_super_block_slot:
            self.tabs.addTab(self.slots, "By phase and super-block")
        below.addWidget(self.tabs)
        self.tabs.setVisible(self.tabs.count() > 0)
        split = QSplitter(Qt.Orientation.Vertical, self)
        split.setChildrenCollapsible(False)
        split.addWidget(top)
        split.addWidget(below)
        split.setSizes([540, 400])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for widget in (self.answer, self.warnings):
            layout.addWidget(widget)
        layout.addWidget(split, 1)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = theme
        for part in (self.answer, self.chart, self.saving):
            part.set_theme(theme)
        for table in (self.categories, self.blocks, self.slots):
            table.painter_of_cells.theme = table.bars.theme = theme
            table.viewport().update()
        inks = run_paints(theme)
        along = "by phase and layer" if any(len(run.spans) for run in self.pair) else "in the order of their events"
        self.key.setText(
            f"Both runs {along}: "
            + " &nbsp; ".join(f'<span style="color:{i.fill}">█</span> {r.name}' for i, r in zip(inks, self.pair))
        )

    def follow(self, query: AllocationQuery) -> None:
        """Restrict both runs to the allocations behind a number; each keeps its own cursor."""
        rest = replace(query, position=None)
        self._restrict(None if rest == AllocationQuery() else rest)

    def _restrict(self, query: AllocationQuery | None) -> None:
        state = self.session.state
        for run in self.pair:
            state = looking(state, state.runs.index(run), query=query, allocation=None, cursor=run.peak_position)
        self.session.set(state)

    def _row_picked(self, rows: Sequence[DiffRow], row: int) -> None:
        if row >= len(rows):
            self._restrict(None)
            return
        query = rows[row].a_query or rows[row].b_query
        if query is not None:
            self.follow(query)

    def _cell_picked(self, number: int) -> None:
        """Both cursors go to the highest state of the cell."""
        state, cell = self.session.state, self.structure.cells[number]
        for run, (first, last) in zip(self.pair, (cell.a, cell.b)):
            cursor = first + int(run.curve[first : last + 1].argmax())
            state = looking(state, state.runs.index(run), cursor=cursor)
        self.session.set(replace(state, slot=number))

    def release(self) -> None:
        """Let go of the session, then of everything."""
        self.session.changed.disconnect(self._changed)
        self.deleteLater()

    def _changed(self, _old: ViewState, new: ViewState) -> None:
        if new.compared == self.pair:
            self._show()

    def _show(self) -> None:
        self.chart.select(self.session.state.slot)


def _titled(widget: QWidget, title: str) -> QWidget:
    box = QWidget()
    layout = QVBoxLayout(box)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(0)
    label = QLabel(title, box)
    label.setObjectName("caption")
    layout.addWidget(label)
    layout.addWidget(widget, 1)
    widget.show()
    return box
