"""From peak to peak: the waterfall and the table of the same groups, cut by what the user chooses."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from ..analysis.comparison import has_history
from ..analysis.diff import Diff, DiffRow
from ..analysis.grouped import first_grouping, rows_by, shared_groupings
from ..analysis.waterfall import waterfall
from ..charts.theme import Theme, current
from ..charts.waterfall import WaterfallChart
from ..model.paints import Paint
from ..state.comparison import by_difference, group_columns, row_paints
from .compare_bar import combo
from .compare_tables import DiffTable


class CutPanel(QWidget):
    """Holds the waterfall; `table` is shown elsewhere, and what is chosen in one is chosen in the other."""

    cut_chosen = Signal(str)
    picked = Signal(int)
    """Row of `rows`; -1 for none of them."""

    def __init__(self, diff: Diff, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.diff = diff
        self.titles = shared_groupings(diff)
        self.key = ""
        self.rows: tuple[DiffRow, ...] = ()
        self.paints: list[Paint] = []
        self.theme: Theme = current()
        self.box = combo("What cuts the difference", self.titles, self, self.cut_chosen.emit)
        self.chart = WaterfallChart(self)
        self.table = DiffTable("Differences", self._paint, self)
        self.table.hide()  # until it is where it is shown; here it would lie over the line
        self.chart.picked.connect(self._picked)
        self.table.picked.connect(lambda row: self.picked.emit(row if row < len(self.rows) else -1))
        self._lay_out()
        self.show_cut("")

    def _paint(self, row: int) -> Paint:
        return self.paints[row] if row < len(self.paints) else Paint(self.theme.panel)

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.setContentsMargins(8, 3, 8, 3)
        line.setSpacing(6)
        self.when = QLabel(self)
        self.when.setBuddy(self.box)
        line.addWidget(self.when)
        line.addWidget(self.box)
        line.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(line)
        self.area = QScrollArea(self)
        self.area.setWidget(self.chart)
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the chart has it
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        layout.addWidget(self.area, 1)

    def _picked(self, row: int) -> None:
        if self.chart.chosen is not None:
            self.area.ensureVisible(0, self.chart.row_middle(self.chart.chosen), 0, 20)
        self.picked.emit(row)

    def _say_when(self) -> None:
        first, second = ("peak" if has_history(run) else "end" for run in (self.diff.a, self.diff.b))
        said = f"From {first} to {second}"
        self.when.setText(f"{said}, of what matches, by" if self.diff.filter else f"{said} by")

    def show_diff(self, diff: Diff) -> None:
        """The same runs, restricted by other words."""
        key, self.diff, self.key = self.key, diff, ""
        self.show_cut(key)

    def show_cut(self, key: str) -> None:
        """Cut by this; by what suits the runs where it is empty or one of them cannot be cut so."""
        key = key if key in self.titles else first_grouping(self.diff)
        if key == self.key:
            return
        self.key, self.rows = key, rows_by(self.diff, key)
        self.box.setCurrentIndex(self.box.findData(key))
        self._fill()
        self._say_when()
        names = (f"A: {self.diff.a.name}", f"B: {self.diff.b.name}")
        self.table.show_rows(group_columns(self.titles[key], self.rows, names), by_difference(self.rows))

    def _fill(self) -> None:
        self.paints = row_paints(self.diff, self.key, self.rows, self.theme.dark)
        self.chart.show_steps(waterfall(self.rows), (self.diff.a.name, self.diff.b.name), self._paint)

    def select(self, row: int | None) -> None:
        """Mark a row in both, without saying so."""
        self.chart.select_row(row)
        self.table.select_source(row)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        chosen, self.theme = self.chart.chosen, theme
        self.chart.set_theme(theme)
        self._fill()
        self.chart.chosen = chosen
        self.table.set_theme(theme)
