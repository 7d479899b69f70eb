"""One run: the answer, the filter, the charts on one axis, and round them the docks. It is made in steps."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from memstrata.capture.format.schema import Severity

from ..charts.keys import held, moved_from_afar
from ..charts.theme import Theme
from ..model.query import AllocationQuery
from ..model.run import Run
from ..state.answers import answer_of
from ..state.plan_jobs import proposed_plan
from ..state.scope import Scope
from ..state.session import Session
from ..state.view_state import Segments
from ..state.views import ViewSpec, available
from .device_picker import DevicePicker
from .dock_host import DockHost
from .dock_page import DockPage
from .filter_bar import FilterBar
from .headline import HeadlinePanel
from .registry import VIEWS
from .run_charts import LOW, RunCharts
from .slots import Slot
from .warning_bar import WarningBar

TABLES = "alive"
"""The view that a number leads to."""
_LEAST_WIDTHS = {"legend": 240, "chart": 460, "lanes": 240}
"""Pixels by place that what stands beside them leaves to those that are squeezed and never scroll."""
_LEAST_TABLE = 134
"""Pixels that two rows of a table need with all that stands over them."""
_VERSION = 3  # of where the docks stand; in 1 groups and lanes were none, in 2 only those of its page had a place
_FIRST_PLACES: dict[str, dict[str, str]] = {
    "legend": {"area": "left"}, "lanes": {"area": "bottom"}, TABLES: {"under": "lanes"},
    "side": {"beside": TABLES}, "below": {"among": TABLES},
}  # fmt: skip
"""Where a dock stands at first, by its place; in the order in which they can be put there."""


class RunPage(DockPage):
    """Puts together the views that the run can fill."""

    def __init__(self, session: Session, run: Run, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = Scope(session, run, self)
        self.answer = HeadlinePanel(answer_of(run), self.follow, self)
        grave = [problem for problem in run.problems if problem.severity >= Severity.warning]
        self.warnings = WarningBar(grave, self)
        self._offer_plan()
        if len(run.recording.meta.devices) > 1:
            self.answer.add_corner(DevicePicker(self.scope, self.answer))
        self.filter = FilterBar(self.scope, self)
        self.put_docks(DockHost("Views", self, version=_VERSION))
        self.docks.shares.prepare = self._fold
        self.specs = available(VIEWS, run.capabilities)
        self.kind = "run" if "timeline" in self.specs else "state"  # where there are charts tables have less room
        order = [*_FIRST_PLACES, "chart"]
        for spec in sorted(VIEWS, key=lambda spec: order.index(_place_of(spec))):
            self._place(spec)
        self.docks.bring_forward(TABLES)
        self.charts = self._charts()
        self._lay_out()
        self.stages.add(self.scope.work_ahead)

    def _place(self, spec: ViewSpec) -> None:
        if spec.key not in self.specs:
            self._keep_place(spec)
            return
        slot = self.put_view(spec.key, Slot(partial(spec.factory, self.scope), _LEAST_WIDTHS.get(spec.place, 0)))
        if spec.place != "chart":
            self.docks.add(spec.key, spec.title, slot, **_FIRST_PLACES[_place_of(spec)])

    def _keep_place(self, spec: ViewSpec) -> None:
        if spec.place != "chart":
            self.docks.keep_place(spec.key, spec.title, **_FIRST_PLACES[_place_of(spec)])

    def view_made(self, key: str, view: QWidget) -> None:
        if hasattr(view, "followed"):
            view.followed.connect(self.follow)
        if self.charts is not None:
            self.charts.made(key, view)
        self.made.emit(key, view)

    def _charts(self) -> RunCharts | None:
        if "timeline" not in self.views:
            return None
        charts = RunCharts(self.scope.run, self.views, self.docks)
        self.docks.setCentralWidget(self.views.slots["timeline"])
        for key in ("timeline", "legend", "lanes"):
            if key in self.views:
                self.views.slots[key].build_in(self.stages)
        return charts

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for part in (self.answer, self.warnings, *self._no_timeline(), self.filter):
            layout.addWidget(part)
        layout.addWidget(self.docks, 1)

    def _no_timeline(self) -> list[QLabel]:
        """What stands in for the charts of a run without history."""
        if self.charts is not None:
            return []
        said = next((p.text for p in self.scope.run.problems if p.code == "no_timeline"), "There is no timeline.")
        then = "The table shows what was alive then."
        if not len(self.scope.run.allocations):
            then = "Open another file, or record a step with @record_step."
        label = QLabel(f"{said} {then}", self)
        label.setObjectName("notice")
        label.setWordWrap(True)
        return [label]

    def _offer_plan(self) -> None:
        """A button beside the line that says what a checkpoint per super-block would do."""
        proposal = self.scope.run.once(proposed_plan)
        if proposal is None:
            return
        self.tried = self.answer.add_button(-1, "Try", "Draw this plan on the timeline, and open What if")
        self.tried.setObjectName("try")
        self.tried.setCheckable(True)
        self.tried.setChecked(self.scope.view.plan == proposal)
        self.tried.clicked.connect(lambda on: self._try(proposal if on else None))
        self.scope.changed.connect(lambda _, new: self.tried.setChecked(new.plan == proposal))

    def _try(self, plan: Segments | None) -> None:
        self.scope.look(plan=plan)
        if plan is not None and "what_if" in self.views:
            self.bring_forward("what_if")

    def follow(self, query: AllocationQuery) -> None:
        """Go to the allocations behind a number."""
        cursor = self.scope.view.cursor if query.position is None else query.position
        rest = replace(query, position=None)
        self.scope.look(cursor=cursor, query=None if rest == AllocationQuery() else rest, allocation=None)
        self.docks.bring_forward(TABLES)

    def entrances(self) -> list[QWidget]:
        """What gets the focus when the page comes to the front, the first of them that can be seen."""
        made = self.views.made
        if self.charts is not None:
            return [made["timeline"].timeline] if "timeline" in made else []  # type: ignore[attr-defined]
        return [made[TABLES].view] if TABLES in made else []  # type: ignore[attr-defined]

    def take_key(self, event: QKeyEvent) -> bool:
        """Do what a key means in the timeline, wherever on the page the focus is."""
        change = moved_from_afar(event, self.scope) if self.charts is not None else None
        if change is not None:
            self.scope.look(held(event), **change)
        return change is not None

    def titled_views(self) -> list[tuple[str, QWidget]]:
        """Every view made so far with its title, the charts first."""
        made = self.views.made
        specs = sorted(self.specs.values(), key=lambda spec: spec.place != "chart")
        return [(spec.title, made[spec.key]) for spec in specs if spec.key in made]

    def hideable(self) -> dict[str, str]:
        """Title by key of what can be hidden; the timeline stays: it is the axis that the others follow."""
        return {key: spec.title for key, spec in self.specs.items() if spec.place != "chart"}

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        for widget in (self.answer, self.filter, *self.views.made.values()):
            widget.set_theme(theme)  # type: ignore[attr-defined]

    def give_shares(self) -> None:
        """Share the room among charts, lanes and docks."""
        if self.charts is not None:
            self._fold()
            lanes = min(self.charts.lanes_height, self.height() // 3)
            room = self.docks.height() - lanes
            self.docks.give_height(TABLES, max(room * 42 // 100, min(_LEAST_TABLE, room * 48 // 100)))
            self.charts.share(lanes)
        if "stack" in self.views:
            self.docks.give_widths({TABLES: self.width() * 68 // 100, "stack": self.width() * 32 // 100})

    def _fold(self) -> None:
        """In a low page the lanes are folded, unless the user decides."""
        if self.charts is not None and not self.charts.fold_is_chosen:
            self.charts.set_folded(self.height() < LOW)

    def release(self) -> None:
        """Let go of the session, then of everything."""
        self.stages.drop()
        self.scope.release()
        self.deleteLater()


def _place_of(spec: ViewSpec) -> str:
    """Its place, but for the view that others are tabs beside."""
    return TABLES if spec.key == TABLES else spec.place
