"""Two runs: the answer, both curves on one axis, from peak to peak in bars, and the tables that prove it."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QStackedWidget, QTabWidget, QVBoxLayout, QWidget

from ..analysis.comparison import comparison_headline
from ..analysis.diff import Diff
from ..analysis.grouped import first_grouping, rows_by
from ..charts.structure_chart import StructureChart
from ..charts.theme import Theme, current
from ..model.query import AllocationQuery
from ..model.run import Run
from ..state.common_axes import COMMON_AXES, common_axes, first_axis
from ..state.comparison import slot_columns
from ..state.session import Session
from ..state.structure import Structure
from ..state.view_state import ViewState, looking
from .compare_bar import CompareBar
from .compare_cut import CutPanel
from .compare_stacks import StackDiffView
from .compare_tables import ChangesTable, DiffTable, RunsPanel
from .headline import HeadlinePanel
from .saving import SavingPanel
from .warning_bar import WarningBar

Queries = tuple[AllocationQuery | None, AllocationQuery | None]
_NOTHING = AllocationQuery()
_NONE_THERE = AllocationQuery(rows=())


class ComparePage(QWidget):
    """Puts the comparison of two runs together."""

    def __init__(self, session: Session, pair: tuple[Run, Run], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session, self.pair = session, pair
        self.diff = Diff(*pair)
        self.theme: Theme = current()
        self.answer = HeadlinePanel(comparison_headline(self.diff), self.follow, self)
        self.warnings = WarningBar(self.diff.warnings, self)
        self.bar = CompareBar(session, pair, self)
        self.charts: dict[str, StructureChart] = {}
        self.stack = QStackedWidget(self)
        self.saving = SavingPanel(self.diff, self)
        self.cut = CutPanel(self.diff, self)
        self._make_tabs()
        self._lay_out()
        self.set_theme(self.theme)
        self._show()
        self.cut.picked.connect(self._row_picked)
        self.cut.cut_chosen.connect(lambda key: session.set(replace(session.state, cut=key)))
        session.changed.connect(self._changed)

    def _make_tabs(self) -> None:
        self.differences, self.changes = self.cut.table, ChangesTable(self.diff, self)
        self.stacks = StackDiffView(self.diff, self)
        self.stacks.picked.connect(self._restrict)
        self.slots = DiffTable("By phase and super-block", None, self)
        self.runs = RunsPanel(self.session.state.runs, self.pair, self)
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName("Tables of the comparison")
        self.tabs.tabBar().setDrawBase(False)
        self.tabs.addTab(self.differences, "Differences")
        self.tabs.addTab(self.changes, "Appeared, gone, grown")
        if any("stacks" in run.capabilities for run in self.pair):
            self.tabs.addTab(self.stacks, "By stack")
        else:
            self.stacks.hide()
        if all("spans" in run.capabilities for run in self.pair):
            self.slots.show_rows(slot_columns(self.diff, (f"A: {self.pair[0].name}", f"B: {self.pair[1].name}")))
            self.tabs.addTab(self.slots, "By phase and super-block")
        else:
            self.slots.hide()
        self.tabs.addTab(self.runs, "All open runs")
        self.changes.picked.connect(lambda row: self._restrict(self.diff.changes[row].queries))

    def _lay_out(self) -> None:
        top = QWidget(self)
        across, left = QHBoxLayout(top), QVBoxLayout()
        for layout in (across, left):
            layout.setContentsMargins(0, 0, 0, 0)
            layout.setSpacing(0)
        left.addWidget(self.bar)
        left.addWidget(self.stack, 1)
        across.addLayout(left, 1)
        across.addWidget(self.saving)
        below = QSplitter(Qt.Orientation.Horizontal, self)
        below.addWidget(self.cut)
        below.addWidget(self.tabs)
        below.setSizes([440, 560])
        split = QSplitter(Qt.Orientation.Vertical, self)
        split.addWidget(top)
        split.addWidget(below)
        split.setSizes([520, 420])
        for splitter in (below, split):
            splitter.setChildrenCollapsible(False)
        if not common_axes(*self.pair):  # two states have no curves
            self.stack.hide()
            self.saving.hide()
            top.setMaximumHeight(self.bar.sizeHint().height())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for widget in (self.answer, self.warnings):
            layout.addWidget(widget)
        layout.addWidget(split, 1)

    @property
    def axis(self) -> str:
        """Key of the axis that is shown."""
        wanted = self.session.state.common_axis
        return wanted if wanted in common_axes(*self.pair) else first_axis(*self.pair)

    @property
    def chart(self) -> StructureChart:
        """The chart on that axis."""
        return self._chart(self.axis)

    @property
    def structure(self) -> Structure:
        """Where both runs lie on that axis."""
        return self.chart.structure

    def _chart(self, key: str) -> StructureChart:
        """Made when it is first looked at."""
        if key not in self.charts:
            chart = StructureChart(COMMON_AXES[key].make(*self.pair), self.pair, self)
            chart.picked.connect(self._cell_picked)
            chart.placed.connect(self._placed)
            chart.set_theme(self.theme)
            self.charts[key] = chart
            self.stack.addWidget(chart)
        return self.charts[key]

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = theme
        parts = (self.answer, self.bar, self.saving, self.cut, self.changes, self.stacks, self.slots, self.runs)
        for part in (*parts, *self.charts.values()):
            part.set_theme(theme)  # type: ignore[attr-defined]

    def titled_views(self) -> list[tuple[str, QWidget]]:
        """Every view with its title, the charts first."""
        parts: list[tuple[str, QWidget]] = [("Comparison", self.chart), ("Savings", self.saving)]
        parts.append(("From peak to peak", self.cut))
        tabs = [(self.tabs.tabText(tab), self.tabs.widget(tab)) for tab in range(self.tabs.count())]
        return parts + [(title, view) for title, view in tabs if view is not None]

    def follow(self, query: AllocationQuery) -> None:
        """Restrict both runs to the allocations behind a number; each keeps its own cursor."""
        rows = (*self.cut.rows, *rows_by(self.diff, first_grouping(self.diff)))
        row = next((row for row in rows if query in (row.a_query, row.b_query)), None)
        self._restrict((query, query) if row is None else (row.a_query or _NONE_THERE, row.b_query or _NONE_THERE))

    def _restrict(self, queries: Queries) -> None:
        state = self.session.state
        for run, query in zip(self.pair, queries):
            rest = _rest(query)
            state = looking(state, state.runs.index(run), query=rest, allocation=None, cursor=run.peak_position)
        self.session.set(state)

    def _row_picked(self, row: int) -> None:
        if row < 0:
            self._restrict((None, None))
        else:
            chosen = self.cut.rows[row]
            self._restrict((chosen.a_query or _NONE_THERE, chosen.b_query or _NONE_THERE))

    def _cell_picked(self, number: int) -> None:
        """Both cursors go to the highest state of the cell."""
        cell = self.structure.cells[number]
        cursors = [i + int(run.curve[i : j + 1].argmax()) for run, (i, j) in zip(self.pair, (cell.a, cell.b))]
        self._put(cursors, number)

    def _placed(self, x: float) -> None:
        """Both cursors go to what each run shows there."""
        self._put([int(axis.position_at(x)) for axis in (self.structure.a, self.structure.b)], None)

    def _put(self, cursors: list[int], slot: int | None) -> None:
        state = self.session.state
        for run, cursor in zip(self.pair, cursors):
            state = looking(state, state.runs.index(run), cursor=cursor)
        self.session.set(replace(state, slot=slot))

    def release(self) -> None:
        """Let go of the session, then of everything."""
        self.session.changed.disconnect(self._changed)
        self.deleteLater()

    def _changed(self, old: ViewState, new: ViewState) -> None:
        if new.compared != self.pair:
            return
        if old.runs != new.runs:
            self.bar.show_runs(new.runs)
            self.runs.show_runs(new.runs)
        self._show()

    def _show(self) -> None:
        state = self.session.state
        self.bar.axis.setCurrentIndex(self.bar.axis.findData(self.axis))
        views = [state.views[state.runs.index(run)] for run in self.pair]
        self.chart.select(state.slot, (views[0].cursor, views[1].cursor))
        self.stack.setCurrentWidget(self.chart)
        self.cut.show_cut(state.cut)
        looked = views[0].query, views[1].query
        rows = ((_rest(row.a_query or _NONE_THERE), _rest(row.b_query or _NONE_THERE)) for row in self.cut.rows)
        self.cut.select(next((number for number, row in enumerate(rows) if row == looked), None))


def _rest(query: AllocationQuery | None) -> AllocationQuery | None:
    """A query without its position, which is the cursor's; None where nothing else is left."""
    rest = _NOTHING if query is None else replace(query, position=None)
    return None if rest == _NOTHING else rest
