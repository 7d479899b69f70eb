"""One run: the answer, its charts on one axis, and the tables below."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSplitter, QTabWidget, QVBoxLayout, QWidget

from memstrata.capture.format.schema import Severity

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
from .filter_bar import FilterBar
from .headline import HeadlinePanel
from .registry import VIEWS
from .warning_bar import WarningBar

_LOW = 800  # pixels of height below which the lanes start folded


class RunPage(QWidget):
    """Puts together the views that the run can fill; `views` holds them by key."""

    def __init__(self, session: Session, run: Run, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = Scope(session, run, self)
        self.views: dict[str, QWidget] = {}
        self.answer = HeadlinePanel(answer_of(run), self.follow, self)
        grave = [problem for problem in run.problems if problem.severity >= Severity.warning]
        self.warnings = WarningBar(grave, self)
        self._offer_plan()
        if len(run.recording.meta.devices) > 1:
            self.answer.add_corner(DevicePicker(self.scope, self.answer))
        self.top = self._charts()
        self.split = QSplitter(Qt.Orientation.Vertical, self)
        for part in (self.top, self.views.get("lanes"), self._tables()):
            if part is not None:
                self.split.addWidget(part)
        self.split.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.answer)
        layout.addWidget(self.warnings)
        layout.addWidget(self.split, 1)
        self._laid_out = False
        self._follow_plot()
        self.scope.work_ahead()

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
            self.tabs.setCurrentWidget(self.views["what_if"])

    def _made(self, place: str) -> list[tuple[ViewSpec, QWidget]]:
        made = []
        for spec in available(VIEWS, self.scope.run.capabilities, place):
            self.views[spec.key] = spec.factory(self.scope)
            made.append((spec, self.views[spec.key]))
        return made

    def _charts(self) -> QWidget | None:
        across = QSplitter(Qt.Orientation.Horizontal, self)
        across.setChildrenCollapsible(False)
        for _, widget in (*self._made("legend"), *self._made("chart")):
            across.addWidget(widget)
        self._made("lanes")
        if across.count() == 0:
            across.deleteLater()
            return self._no_timeline()
        across.setStretchFactor(1, 1)
        self.across = across
        across.splitterMoved.connect(lambda *_: self._align())
        return across

    def _no_timeline(self) -> QWidget:
        """What stands in for the charts of a run without history."""
        said = next((p.text for p in self.scope.run.problems if p.code == "no_timeline"), "There is no timeline.")
        then = "The table shows what was alive then."
        if not len(self.scope.run.allocations):
            then = "Open another file, or record a step with @record_step."
        label = QLabel(f"{said} {then}", self)
        label.setObjectName("notice")
        label.setWordWrap(True)
        return label

    def _tables(self) -> QWidget:
        whole = QWidget(self)
        self.filter = FilterBar(self.scope, whole)
        layout = QVBoxLayout(whole)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.filter)
        layout.addWidget(self._tabs(), 1)
        return whole

    def _tabs(self) -> QWidget:
        across = QSplitter(Qt.Orientation.Horizontal, self)
        across.setChildrenCollapsible(False)
        self.tabs = QTabWidget(across)
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName("Tables")
        for spec, widget in self._made("below"):
            self.tabs.addTab(widget, spec.title)
            if hasattr(widget, "followed"):
                widget.followed.connect(self.follow)
        self.tabs.tabBar().setDrawBase(False)
        across.addWidget(self.tabs)
        for _, widget in self._made("side"):
            across.addWidget(widget)
        across.setStretchFactor(0, 1)
        self.beside = across
        return across

    def _follow_plot(self) -> None:
        chart = self.views.get("timeline")
        if chart is not None:
            chart.timeline.moved.connect(self._align)  # type: ignore[attr-defined]

    def _align(self) -> None:
        """Put the lanes exactly under the plot."""
        lanes, chart = self.views.get("lanes"), self.views.get("timeline")
        if lanes is None or chart is None:
            return
        timeline, viewport = chart.timeline, lanes.tree.viewport()  # type: ignore[attr-defined]
        left, right = timeline.plot_span
        shift = viewport.mapFromGlobal(timeline.mapToGlobal(QPoint(0, 0))).x()
        lanes.tree.set_span((left + shift, right + shift))  # type: ignore[attr-defined]

    def follow(self, query: AllocationQuery) -> None:
        """Go to the allocations behind a number."""
        cursor = self.scope.view.cursor if query.position is None else query.position
        rest = replace(query, position=None)
        self.scope.look(cursor=cursor, query=None if rest == AllocationQuery() else rest, allocation=None)
        self.tabs.setCurrentIndex(0)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        for widget in (self.answer, self.filter, *self.views.values()):
            widget.set_theme(theme)  # type: ignore[attr-defined]

    def release(self) -> None:
        """Let go of the session, then of everything."""
        self.scope.release()
        self.deleteLater()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if not self._laid_out:
            self._laid_out = True
            QTimer.singleShot(0, self, self._first_sizes)

    def _first_sizes(self) -> None:
        width, height = self.width(), self.height()
        lanes = self.views.get("lanes")
        wanted = 0
        if lanes is not None:
            lanes.set_folded(height < _LOW)  # type: ignore[attr-defined]
            wanted = min(lanes.sizeHint().height() + 12, height // 3)
        if self.views.get("timeline"):
            legend = max(min(width * 22 // 100, 380), 312)
            self.across.setSizes([legend, width - legend])
        rest = self.split.height() - wanted
        charts = rest * 55 // 100 if self.views.get("timeline") else 40
        self.split.setSizes([charts, *([wanted] if lanes is not None else []), rest - charts])
        self.beside.setSizes([width * 68 // 100, width * 32 // 100])
