"""Two runs: the answer, both curves on one axis, and round them the docks: from peak to peak in bars, and tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from memstrata.capture.format.problems import Problem

from ..analysis.aligned import Structure
from ..analysis.all_runs import ranks_among
from ..analysis.common_axes import COMMON_AXES, axis_beside, common_axes, first_axis
from ..analysis.comparison import comparison_headline
from ..analysis.diff import Diff
from ..analysis.grouped import first_grouping, rows_by
from ..analysis.ranks import ranks_problem
from ..charts.matching_lines import MatchingLines
from ..charts.structure_chart import StructureChart
from ..charts.theme import Theme, current
from ..model.axes import XAxis
from ..model.query import AllocationQuery
from ..model.run import Run
from ..state.planned_job import PlannedJob
from ..state.session import Gesture, Session
from ..state.view_state import ViewState, looking
from .compare_bar import CompareBar
from .compare_cut import CutPanel
from .compare_filter import CompareFilter
from .compare_views import COMPARE_VIEWS, CompareView
from .dock_host import DockHost
from .dock_page import DockPage
from .headline import HeadlinePanel
from .slots import Slot
from .warning_bar import WarningBar

Queries = tuple[AllocationQuery | None, AllocationQuery | None]
TABLES = "differences"
"""The view that other tables are tabs beside."""
_RESTRICTED = frozenset(("saving", "cut", "changes", "by_stack", "slots"))
"""Views that show what the filter matches; what is differences is in the hands of the cut."""
_NOTHING = AllocationQuery()
_NONE_THERE = AllocationQuery(rows=())


class ComparePage(DockPage):
    """Puts the comparison of two runs together."""

    kind = "compare"
    session: Session
    pair: tuple[Run, Run]
    diff: Diff
    matching: Diff
    """What the filter of both runs leaves of it."""

    def __init__(self, session: Session, pair: tuple[Run, Run], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session, self.pair = session, pair
        self.diff = self.matching = Diff(*pair)
        self.theme: Theme = current()
        self.answer = HeadlinePanel(comparison_headline(self.diff), self.follow, self)
        self.warnings = WarningBar(self._doubts, self)
        self.bar = CompareBar(session, pair, self)
        self.filter = CompareFilter(session, pair, self)
        self.charts: dict[str, StructureChart] = {}
        self.stack = QStackedWidget(self)
        self.put_docks(DockHost("Views of the comparison", self))
        self._match()
        if common_axes(*pair):
            self.stages.add(self._show_chart)
        self.specs = {view.key: view for view in COMPARE_VIEWS if view.fits(pair)}
        for view in self.specs.values():
            self._place(view)
        self.docks.bring_forward(TABLES)
        self.planned = PlannedJob(self.diff, self)
        self._lay_out()
        self.bar.set_theme(self.theme)
        self._beside: dict[tuple[str, Run], XAxis | None] = {}
        self.bar.others.toggled.connect(lambda _: self._show_others())
        session.changed.connect(self._changed)
        self.planned.ready.connect(self._show_planned)

    def _place(self, view: CompareView) -> None:
        slot = self.put_view(view.key, Slot(partial(view.make, self)))
        self.docks.add(view.key, view.title, slot, view.area, view.beside, TABLES)

    def view_made(self, key: str, view: QWidget) -> None:
        view.set_theme(self.theme)  # type: ignore[attr-defined]
        if key == "saving":
            view.show_planned(self.planned.found)  # type: ignore[attr-defined]
        elif key == "cut":
            self.cut.picked.connect(self._row_picked)
            self.cut.cut_chosen.connect(lambda cut: self.session.set(replace(self.session.state, cut=cut), ("cut",)))
            self._show_cut()
        elif key == "changes":
            view.picked.connect(lambda row: self._restrict(self.matching.changes[row].queries))  # type: ignore[attr-defined]
        elif key == "by_stack":
            view.picked.connect(self._restrict)  # type: ignore[attr-defined]
        self.made.emit(key, view)

    @property
    def cut(self) -> CutPanel:
        """The waterfall, with the rows that are cut by what is chosen in it."""
        panel = self.views["cut"]
        assert isinstance(panel, CutPanel)
        return panel

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for part in (self.answer, self.warnings, self.bar, self.filter):
            layout.addWidget(part)
        if common_axes(*self.pair):
            self.docks.setCentralWidget(self.stack)
        else:  # two states have no curves
            self.stack.hide()
        layout.addWidget(self.docks, 1)

    def give_shares(self) -> None:
        """Share the room among curves and docks."""
        if "saving" in self.views:
            self.docks.give_height("cut", self.docks.height() * 46 // 100)
            self.docks.give_widths({"saving": self.views["saving"].sizeHint().width()})
        self.docks.give_widths({"cut": self.width() * 43 // 100, TABLES: self.width() * 57 // 100})

    def hideable(self) -> dict[str, str]:
        """Title by key of what can be hidden: all but the curves."""
        return {key: view.title for key, view in self.specs.items()}

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
            chart.ranged.connect(self._ranged)
            chart.escaped.connect(self._let_go)
            chart.set_theme(self.theme)
            chart.show_matching(self._matching_lines)
            self.charts[key] = chart
            chart.show_planned(self.planned.found)
            self.stack.addWidget(chart)
        return self.charts[key]

    def _show_planned(self) -> None:
        """Beside what was saved, and as a line, what the run before said of the plan of the run after."""
        if "saving" in self.views.made:
            self.views["saving"].show_planned(self.planned.found)  # type: ignore[attr-defined]
        for chart in self.charts.values():
            chart.show_planned(self.planned.found)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = theme
        for part in (self.answer, self.bar, self.filter, *self.views.made.values(), *self.charts.values()):
            part.set_theme(theme)  # type: ignore[attr-defined]

    def entrances(self) -> list[QWidget]:
        """What gets the focus when the page comes to the front, the first of them that can be seen."""
        if common_axes(*self.pair):
            return [self.chart] if self.charts else []
        return [self.views.made[TABLES]] if TABLES in self.views.made else []

    def take_key(self, event: QKeyEvent) -> bool:
        """Do what a key means in the curves, wherever on the page the focus is."""
        return bool(self.charts) and self.chart.take_key(event, from_afar=True)

    def titled_views(self) -> list[tuple[str, QWidget]]:
        """Every view made so far with its title, the curves first."""
        made = self.views.made
        curves: list[tuple[str, QWidget]] = [("Comparison", self.chart)] if common_axes(*self.pair) else []
        return curves + [(view.title, made[key]) for key, view in self.specs.items() if key in made]

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
        self._put(cursors, number, cell.x0)

    def _placed(self, x: float) -> None:
        """Both cursors go to what each run shows there."""
        self._put([int(axis.position_at(x)) for axis in (self.structure.a, self.structure.b)], None, x)

    def _put(self, cursors: list[int], slot: int | None, x: float) -> None:
        state = replace(self.session.state, common_visible=self.chart.span_with(x))
        for run, cursor in zip(self.pair, cursors):
            state = looking(state, state.runs.index(run), cursor=cursor)
        self.session.set(replace(state, slot=slot), self.chart.gesture)

    def _ranged(self, span: tuple[float, float] | None, gesture: Gesture | None) -> None:
        self.session.set(replace(self.session.state, common_visible=span), gesture)

    def _let_go(self) -> None:
        """Show everything of both runs, at the cursors where they are."""
        state = replace(self.session.state, slot=None)
        for run in self.pair:
            state = looking(state, state.runs.index(run), query=None, allocation=None)
        self.session.set(state)

    def _match(self) -> None:
        """Compare what the filter of both runs matches."""
        words = self.filter.words
        if words == self.matching.filter:
            return
        self.matching = Diff(*self.pair, words) if words else self.diff
        for key in _RESTRICTED & self.views.made.keys():
            self.views[key].show_diff(self.matching)  # type: ignore[attr-defined]
        for chart in self.charts.values():
            chart.show_matching(self._matching_lines)

    @property
    def _matching_lines(self) -> MatchingLines | None:
        diff = self.matching
        return MatchingLines(diff.filter, diff.matching_curves) if diff.filter else None

    def release(self) -> None:
        """Let go of the session, then of everything."""
        self.stages.drop()
        self.session.changed.disconnect(self._changed)
        self.deleteLater()

    def _changed(self, old: ViewState, new: ViewState) -> None:
        if new.compared != self.pair:
            return
        if old.runs != new.runs:
            self.bar.show_runs(new.runs)
            self.warnings.show_problems(self._doubts)
            if "runs" in self.views.made:
                self.views["runs"].show_runs(new.runs)  # type: ignore[attr-defined]
        self._show()

    @property
    def _doubts(self) -> list[Problem]:
        """What makes the comparison doubtful; before it which of the open ranks stands out."""
        ranks = ranks_among(self.session.state.runs, self.pair)
        outlier = None if ranks is None else ranks_problem(ranks)
        return [*([] if outlier is None else [outlier]), *self.diff.warnings]

    def _show(self) -> None:
        self._match()
        if self.charts:
            self._show_chart()
        if "cut" in self.views.made:
            self._show_cut()

    def _show_chart(self) -> None:
        state = self.session.state
        self.bar.axis.setCurrentIndex(self.bar.axis.findData(self.axis))
        views = [state.views[state.runs.index(run)] for run in self.pair]
        self.chart.show_range(state.common_visible)
        self.chart.select(state.slot, (views[0].cursor, views[1].cursor))
        self._show_others()
        self.stack.setCurrentWidget(self.chart)

    def _show_others(self) -> None:
        """The curves of the other open runs, as far as they fit this axis."""
        shown = self.session.state.runs if self.bar.others.isChecked() else ()
        axes = [(run, self._axis_beside(run)) for run in shown if run not in self.pair]
        self.chart.show_others(tuple((run, axis) for run, axis in axes if axis is not None))

    def _axis_beside(self, run: Run) -> XAxis | None:
        key = (self.axis, run)
        if key not in self._beside:
            self._beside[key] = axis_beside(self.axis, self.structure, self.pair, run)
        return self._beside[key]

    def _show_cut(self) -> None:
        state = self.session.state
        self.cut.show_cut(state.cut)
        looked = tuple(state.views[state.runs.index(run)].query for run in self.pair)
        rows = ((_rest(row.a_query or _NONE_THERE), _rest(row.b_query or _NONE_THERE)) for row in self.cut.rows)
        self.cut.select(next((number for number, row in enumerate(rows) if row == looked), None))


def _rest(query: AllocationQuery | None) -> AllocationQuery | None:
    """A query without its position, which is the cursor's; None where nothing else is left."""
    rest = _NOTHING if query is None else replace(query, position=None)
    return None if rest == _NOTHING else rest
