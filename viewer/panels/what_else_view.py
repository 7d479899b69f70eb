"""What else than checkpoints would help: changes on top of the plan that is tried, stages of a pipeline, and, with
recordings of other sizes open, how the step grows and what fits."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QLineEdit, QSpinBox, QSplitter, QVBoxLayout, QWidget

from ..analysis.parallel import Parallel
from ..analysis.scaling import Scaling, scaling
from ..analysis.what_else import Under, as_recorded, stages, under_plan, without
from ..charts.theme import Theme, current
from ..look.units import bytes_text, exact_bytes_text, parse_bytes
from ..model.run import Run
from ..report.scaling_text import AskedSize, answer_text
from ..state.scope import Scope
from ..state.view_state import RunView, ViewState
from ..state.what_else_tables import change_columns, curve_columns, growth_columns, stage_columns
from .link_table import LinkTable
from .table_view import TableView
from .whole_step import put_whole_step_note

_MOST = 4096  # microbatches
_HIGH = 300
"""Pixels of height below which one section is shown, that of the box above it."""
_SECTIONS = ("changes, each by itself", "stages of a pipeline", "other batch sizes and sequence lengths")


class WhatElsePanel(QWidget):
    """Works things out when it is seen; rows of changes and stages lead to their allocations."""

    followed = Signal(object)

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.fit: Scaling | None = None
        self.why_no_fit = ""
        self._make()
        self._lay_out()
        put_whole_step_note(self, scope)
        self.set_theme(current())
        scope.changed.connect(self._view_changed)
        scope.what_if.changed.connect(self._show_changes)
        scope.session.changed.connect(self._session_changed)

    def _make(self) -> None:
        self.caption, self.grows = QLabel(self), QLabel(self)
        for label in (self.caption, self.grows):
            label.setObjectName("caption")
            label.setWordWrap(True)
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.changes, self.stages = LinkTable("Changes", self), LinkTable("Pipeline stages", self)
        for table in (self.changes, self.stages):
            table.followed.connect(self.followed)
        self.parts, self.curve = TableView("How the peak grows", self), TableView("Peak by sequence length", self)
        self.pipeline, self.microbatches = QSpinBox(self), QSpinBox(self)
        self.pipeline.setRange(1, max(len(self.scope.run.layers), 1))
        self.microbatches.setRange(1, _MOST)
        self.microbatches.setValue(8)
        for box, name in ((self.pipeline, "Pipeline stages"), (self.microbatches, "Microbatches in a step")):
            box.setAccessibleName(name)
            box.valueChanged.connect(lambda _: self._show_stages())
        self.budget = QLineEdit(self)
        self.budget.setPlaceholderText("like 80GiB, then Enter")
        self.budget.setMinimumWidth(170)
        self.budget.setAccessibleName("Memory budget for the largest size")
        self.budget.returnPressed.connect(self._show_answer)
        self.degrees, self.asked, self.section = QWidget(self), QWidget(self), QComboBox(self)
        self.choice = self._choice()

    def _lay_out(self) -> None:
        left, right = QWidget(self), QWidget(self)
        degrees, asked = QHBoxLayout(self.degrees), QHBoxLayout(self.asked)
        for line, fields in (
            (degrees, (("Pipeline stages", self.pipeline), ("Microbatches", self.microbatches))),
            (asked, (("Budget", self.budget),)),
        ):
            line.setContentsMargins(8, 3, 8, 3)
            line.setSpacing(6)
            for word, widget in fields:
                label = QLabel(word, self)
                label.setBuddy(widget)
                line.addWidget(label)
                line.addWidget(widget)
            line.addStretch(1)
        for side, parts in (
            (left, (self.caption, (self.changes, 3), self.degrees, (self.stages, 2))),
            (right, (self.grows, (self.parts, 1), self.asked, (self.curve, 1))),
        ):
            column = QVBoxLayout(side)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(0)
            for part in parts:
                if isinstance(part, tuple):
                    column.addWidget(part[0], part[1])
                else:
                    column.addWidget(part)
        across = QSplitter(Qt.Orientation.Horizontal, self)
        across.setChildrenCollapsible(False)
        across.addWidget(left)
        across.addWidget(right)
        across.setSizes([580, 420])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.choice)
        layout.addWidget(across, 1)
        self.left, self.right = left, right
        self._arrange()

    def _choice(self) -> QWidget:
        """The box for the section, where there is room for one only."""
        line = QWidget(self)
        self.section.addItems(_SECTIONS)
        self.section.setAccessibleName("What else to look at")
        self.section.currentIndexChanged.connect(lambda _: self._arrange())
        row = QHBoxLayout(line)
        row.setContentsMargins(8, 3, 8, 3)
        row.addWidget(self.section)
        row.addStretch(1)
        return line

    def _arrange(self) -> None:
        """All sections where the panel is high enough, else the chosen one."""
        only = None if self.height() >= _HIGH else self.section.currentIndex()
        self.choice.setVisible(only is not None)
        for part in (self.caption, self.changes):
            part.setVisible(only in (None, 0))
        self.degrees.setVisible(only in (None, 1))
        self.stages.setVisible(only in (None, 1))
        self.left.setVisible(only in (None, 0, 1))
        self.right.setVisible(only in (None, 2))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        for table in (self.changes, self.stages, self.parts, self.curve):
            table.painter_of_cells.theme = theme

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._show()

    def _show(self) -> None:
        self._show_changes()
        self._show_stages()
        self._show_growth()

    def _base(self) -> Under:
        """The plan that is tried, once what it would do is known; else the step as it was recorded."""
        what_if, plan = self.scope.what_if, self.scope.view.plan
        outcome = what_if.outcome(plan) if plan is not None and not what_if.why_not else None
        if outcome is None or what_if.planner is None:
            return self.scope.run.once(as_recorded)
        return under_plan(what_if.planner, outcome)

    def _show_changes(self) -> None:
        if not self.isVisible() or not self.scope.is_open:
            return
        base = self._base()
        found = without(self.scope.run, base)
        on = "the plan that is tried" if self.scope.view.plan is not None else "the step as recorded"
        said = f"On top of {on}, peak {bytes_text(int(base.curve.max()))}; each change by itself, all estimates"
        self.caption.setToolTip(f"peak {exact_bytes_text(int(base.curve.max()))}")
        self.caption.setText(said if found else f"{said}: nothing that this step shows")
        self.changes.show_links(change_columns(found), [change.query for change in found])
        self.changes.set_widths(24, 10, 10, 40, shared=(3,))

    def _show_stages(self) -> None:
        if not self.isVisible() or not self.scope.is_open:
            return
        asked = Parallel(pipeline=self.pipeline.value(), microbatches=self.microbatches.value())
        found = stages(self.scope.run, asked, self._base())
        self.stages.show_links(stage_columns(found), [stage.query for stage in found])
        self.stages.set_widths(7, 10, 10, 12, 12, shared=(4,))

    def _show_growth(self) -> None:
        if not self.isVisible() or not self.scope.is_open:
            return
        self.fit, self.why_no_fit = None, ""
        try:
            self.fit = scaling(self._of_this_model())
        except ValueError as error:
            self.why_no_fit = f"How the step grows: {error}; open them in this window."
        self.budget.setEnabled(self.fit is not None)
        for widget in (self.parts, self.curve, self.asked):
            widget.setVisible(self.fit is not None)
        if self.fit is not None:
            self.parts.show_columns(growth_columns(self.fit))
            self.parts.set_widths(24, 10, 10, 14, shared=(0,))
            self.curve.show_columns(curve_columns(self.fit, self._batch()))
            self.curve.set_widths(12, 12, shared=(1,))
        self._show_answer()

    def _of_this_model(self) -> list[Run]:
        """This run, and every open one of the same layers that says its size."""
        run, kinds = self.scope.run, self.scope.run.layers.kinds
        others = [other for other in self.scope.session.state.runs if other is not run and other.layers.kinds == kinds]
        return [run, *(one for one in others if one.recording.meta.batch and one.recording.meta.sequence)]

    def _batch(self) -> int:
        return self.scope.run.recording.meta.batch or 1

    def _show_answer(self) -> None:
        if self.fit is None:
            self.grows.setToolTip("")
            self.grows.setText(self.why_no_fit)
            return
        try:
            budget = parse_bytes(self.budget.text()) if self.budget.text().strip() else None
        except ValueError as error:
            self.grows.setText(f"{error}.")
            return
        linear = round(sum(part.linear for part in self.fit.parts))
        exact = f"{exact_bytes_text(linear)} for each token"
        self.grows.setToolTip(exact if budget is None else f"a budget of {exact_bytes_text(budget)}; {exact}")
        self.grows.setText(f"{answer_text(self.fit, AskedSize(budget, self._batch()))}.")

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if (old.plan, old.keep) != (new.plan, new.keep):
            self._show_changes()

    def _session_changed(self, old: ViewState, new: ViewState) -> None:
        if old.runs != new.runs:
            self._show_growth()
