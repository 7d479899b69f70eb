"""What another checkpoint plan would make of the step: a slider, a budget, the best plans, and the plan as code."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase, QGuiApplication, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QScrollArea,
    QSlider,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ..analysis.operators import NO_OPERATORS
from ..analysis.planner import Outcome
from ..charts.frontier import FrontierChart, Point
from ..charts.theme import Theme, current
from ..look.units import bytes_text, exact_bytes_text, parse_bytes
from ..report.plan_text import keep_text
from ..state import plan_words as words
from ..state.scope import Scope
from ..state.view_state import RunView, Segments
from .caption import Paragraph
from .whole_step import put_whole_step_note

_CONTROLS = 262  # pixels of width
_WIDE = 900  # pixels of width from which every word has room


class WhatIfPanel(QWidget):
    """Begins to work things out when it is first seen; everything it shows follows the plan of the view."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope, self.what_if = scope, scope.what_if
        self.notice = QLabel(self.what_if.why_not, self)
        self.notice.setObjectName("notice")
        self.notice.setWordWrap(True)
        self.notice.setVisible(bool(self.what_if.why_not))
        self.content = QWidget(self)
        self.content.setVisible(not self.what_if.why_not)
        self._make()
        self._lay_out()
        put_whole_step_note(self, scope)
        self.set_theme(current())
        scope.changed.connect(self._view_changed)
        self.what_if.changed.connect(self._show)
        self.what_if.progressed.connect(self._progressed)

    def _make(self) -> None:
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setRange(0, self.what_if.longest)
        self.slider.setPageStep(4)
        self.slider.setAccessibleName("Layers in each segment")
        self.slider.valueChanged.connect(self._slid)
        self.length = QLabel(self)
        self.length.setObjectName("bold")
        self.budget = QLineEdit(self)
        self.budget.setPlaceholderText("like 24GiB, then Enter")
        self.budget.setAccessibleName("Memory budget")
        self.budget.returnPressed.connect(self._search)
        self.kept = QComboBox(self)
        self.kept.setAccessibleName("What checkpoints keep instead of computing it again")
        self.kept.activated.connect(lambda _: self.scope.look(keep=self.kept.currentData()))
        self.answer, self.sentence = QLabel(self), Paragraph(self)
        self.stage = QLabel(self)
        for label in (self.answer, self.sentence, self.stage):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.answer.setObjectName("wrong")
        self.answer.hide()
        self.bar = QProgressBar(self)
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(8)
        self.bar.setAccessibleName("Progress")
        self.chart = FrontierChart(self)
        self.chart.chosen.connect(lambda number: self._try(self.what_if.frontier[number]))
        self._make_code()

    def _make_code(self) -> None:
        self.kind = QComboBox(self)
        self.kind.addItems(list(words.CODES))
        self.kind.setAccessibleName("Plan as code for")
        self.kind.setToolTip("What the code is for")
        self.kind.activated.connect(lambda _: self._show_code())
        self.copy = QToolButton(self)
        self.copy.setText("Copy")
        self.copy.setAccessibleName("Copy the plan as code")
        self.copy.clicked.connect(self._copy)
        self.code = QPlainTextEdit(self)
        self.code.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.code.setReadOnly(True)
        self.code.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.code.setAccessibleName("Plan as code")
        self.code.setMinimumSize(160, 60)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.code.toPlainText())

    def _lay_out(self) -> None:
        across = QHBoxLayout(self.content)
        across.setContentsMargins(10, 4, 8, 4)
        across.setSpacing(10)
        across.addWidget(self._controls())
        across.addWidget(self.chart, 1)
        across.addWidget(self._code_box(), 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.notice, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self.content, 1)

    def _controls(self) -> QWidget:
        inside = QWidget(self)
        inside.setObjectName("facts")
        grid = QGridLayout(inside)
        grid.setContentsMargins(0, 0, 6, 0)
        grid.setVerticalSpacing(3)
        for row, (word, widget) in enumerate((("Segments", self.slider), ("Budget", self.budget), ("Keep", self.kept))):
            label = QLabel(word, inside)
            label.setBuddy(widget)
            grid.addWidget(label, row, 0)
            grid.addWidget(widget, row, 1)
        for row, widget in enumerate((self.length, self.answer, self.stage, self.bar, self.sentence), 3):
            grid.addWidget(widget, row, 0, 1, 2)
        grid.setRowStretch(7, 1)
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setAccessibleName("Controls of the plan")
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFixedWidth(_CONTROLS)
        area.setWidget(inside)
        return area

    def _code_box(self) -> QWidget:
        box = self.code_box = QWidget(self)
        line = QHBoxLayout()
        self.code_word = QLabel("As code for", box)
        line.addWidget(self.code_word)
        line.addWidget(self.kind)
        line.addWidget(self.copy)
        line.addStretch(1)
        layout = QVBoxLayout(box)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(line)
        layout.addWidget(self.code, 1)
        return box

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.chart.set_theme(theme)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self.what_if.why_not and self.scope.is_open:
            self.what_if.prepare_search()
            self._show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.code_word.setVisible(self.width() >= _WIDE)

    def _slid(self, length: int) -> None:
        if self.what_if.planner is not None:
            self._answer("")
            self.scope.look(("plan",), plan=self.what_if.cut(length))

    def _try(self, outcome: Outcome) -> None:
        self.scope.look(("plan",), plan=outcome.plan.segments or None)

    def _search(self) -> None:
        try:
            budget = parse_bytes(self.budget.text())
        except ValueError as error:
            self._answer(f"{error}.")
            return
        self._answer("")
        self.what_if.best(budget, self._found)
        self._show_progress()

    def _found(self, outcome: Outcome, fits: bool) -> None:
        if not self.scope.is_open:
            return
        if not fits:
            lowest = bytes_text(outcome.peak_bytes)
            self._answer(f"No plan fits {self.budget.text()}: the lowest peak of any is {lowest}, shown here.")
            self.answer.setToolTip(exact_bytes_text(outcome.peak_bytes))
        elif not outcome.ranges:
            self._answer("The step fits without a checkpoint.")
        self._try(outcome)

    def _answer(self, sentence: str) -> None:
        self.answer.setText(sentence)
        self.answer.setToolTip("")
        self.answer.setVisible(bool(sentence))

    def _progressed(self, fraction: float, stage: str) -> None:
        if not self.bar.isVisible():
            self._show_progress()
        self.bar.setValue(int(fraction * 1000))
        self.stage.setText(f"{stage}…")

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if (old.plan, old.keep) != (new.plan, new.keep):
            self._show()

    def _show(self) -> None:
        """Everything from the plan of the view and from what is known of plans by now."""
        if not self.scope.is_open or not self.isVisible():
            return
        plan, ready = self.scope.view.plan, self.what_if.planner is not None
        outcome = self.what_if.outcome(plan)
        self.slider.setEnabled(ready)
        self._show_budget()
        self._show_kept()
        self._show_length(plan, outcome)
        self.sentence.setText(self._said(outcome) if ready else "")
        self.sentence.setToolTip(words.exact_text(self.scope.run, outcome))
        self._show_progress()
        self._show_points(outcome)
        self._show_code()

    def _show_budget(self) -> None:
        """Where only lengths can be chosen, the box says why it takes no budget."""
        trouble = self.what_if.trouble if self.what_if.search is None else ""
        self.budget.setEnabled(not trouble)
        self.budget.setToolTip(trouble)

    def _show_kept(self) -> None:
        kinds = self.what_if.keepings
        if kinds != tuple(self.kept.itemData(row) for row in range(self.kept.count())):
            self.kept.clear()
            for word in kinds:
                self.kept.addItem(keep_text(word), word)
        self.kept.setEnabled(len(kinds) > 1)
        self.kept.setToolTip("" if len(kinds) > 1 else NO_OPERATORS)
        self.kept.setCurrentIndex(max(self.kept.findData(self.scope.view.keep), 0))

    def _said(self, outcome: Outcome | None) -> str:
        planner = self.what_if.planner
        if outcome is None or planner is None:
            return words.measured_sentence(self.scope.run)
        return words.outcome_sentence(planner, outcome)

    def _show_length(self, plan: Segments | None, outcome: Outcome | None) -> None:
        cut = self.what_if.equal_cut(plan)
        if cut is not None:
            self.slider.blockSignals(True)
            self.slider.setValue(cut)
            self.slider.blockSignals(False)
        named = words.plan_name(outcome) if outcome is not None else "none"
        self.length.setText(named)

    def _show_progress(self) -> None:
        busy, trouble = self.what_if.is_busy, self.what_if.trouble
        self.bar.setVisible(busy)
        self.stage.setVisible(busy or bool(trouble))
        if not busy:
            self.stage.setText(trouble)

    def _show_points(self, outcome: Outcome | None) -> None:
        frontier = self.what_if.frontier
        timed = self.scope.run.recording.meta.has_durations
        measured = self.scope.run.peak_bytes
        points = [_point(one, measured, timed) for one in frontier]
        none = Point(0.0, measured, words.none_text(measured))
        now = none if outcome is None else _point(outcome, measured, timed)
        trouble = "" if points else self.what_if.trouble
        self.chart.show_points(points, None if trouble and outcome is None else now, timed)
        self.chart.setToolTip(trouble)

    def _show_code(self) -> None:
        planner, outcome = self.what_if.planner, self.what_if.outcome(self.scope.view.plan)
        text = "# No checkpoints: choose a segment length, a budget or a point."
        if planner is not None and outcome is not None and outcome.ranges:
            text = words.code_text(planner, outcome, self.kind.currentText())
        self.copy.setEnabled(outcome is not None)
        self.code_box.setVisible(outcome is not None)  # without a plan the chart has its room
        if text != self.code.toPlainText():
            self.code.setPlainText(text)


def _point(outcome: Outcome, measured_bytes: int, timed: bool) -> Point:
    cost = outcome.extra_seconds if timed else float(outcome.layers_again)
    return Point(cost or 0.0, outcome.peak_bytes, words.point_text(outcome, measured_bytes))
