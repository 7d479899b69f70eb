"""The tables of a comparison: differences with bars that diverge, what changed, and all open runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from memstrata.capture.format.schema import I64

from ..analysis.all_runs import figures_of
from ..analysis.diff import Diff
from ..charts.theme import Theme, current
from ..model.paints import Paint, category_paint
from ..model.run import Run
from ..state.array_table import Column
from ..state.comparison import change_columns, slot_columns
from ..state.run_comparison import run_columns
from .delegates import DifferenceDelegate, TableDelegate
from .table_view import TableView
from .work_line import WorkLine

_LEAST = {"rank": 4, "step": 7, "tokens/s": 7}
"""Characters of short numbers; 8 for bytes."""
_SPARE = ("tokens/s", "communication", "step")
"""Columns of the open runs that go, in this order, where there is too little room for their names."""
_NUMBERS, _NUMBER, _NAME = 21, 11, 14
"""Characters that a difference needs with its bar and without, and that a name has at least."""


class DiffTable(TableView):
    """A swatch for each group; the last column is the difference."""

    def __init__(self, name: str, paint_of: Callable[[int], Paint] | None, parent: QWidget) -> None:
        super().__init__(name, parent)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # rows differ at the end: which super-block
        self.set_delegate(TableDelegate(self, paint_of))
        self.bars = DifferenceDelegate(self)

    def show_rows(self, columns: Sequence[Column], rows: object = None, between: tuple[int, ...] = ()) -> None:
        """Other contents: `between` are the widths of the columns between the names and the two runs."""
        last = len(columns) - 1
        self.setItemDelegateForColumn(last, self.bars)
        self.show_columns(columns, rows)
        one = self.fontMetrics().horizontalAdvance("0")
        heads = [self.fontMetrics().horizontalAdvance(column.title) // one + 1 for column in columns[-3:-1]]
        named = [min(max(count, 10), 14) for count in heads]
        spare = tuple(range(2, len(between) + 1))  # what kind of change it is stays
        least = {0: _NAME, last: _NUMBER}
        self.set_widths(30, *between, *named, _NUMBERS, shared=(0, last), least=least, spare=spare)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.painter_of_cells.theme = self.bars.theme = theme
        self.viewport().update()


class SlotTable(DiffTable):
    """The most bytes alive in each phase of each super-block."""

    def __init__(self, diff: Diff, parent: QWidget) -> None:
        super().__init__("By phase and super-block", None, parent)
        self.show_diff(diff)

    def show_diff(self, diff: Diff) -> None:
        """These runs, restricted by these words."""
        self.show_rows(slot_columns(diff, (f"A: {diff.a.name}", f"B: {diff.b.name}")))


class ChangesTable(DiffTable):
    """What appeared, disappeared, grew, shrank or moved from peak to peak."""

    def __init__(self, diff: Diff, parent: QWidget) -> None:
        super().__init__("What appeared, disappeared, grew or shrank", self._category, parent)
        self.diff, self.dark = diff, current().dark
        self.work = WorkLine(self)
        self.work.lie_on(self)
        self._begun = False

    def _category(self, row: int) -> Paint:
        return category_paint(self.diff.changes[row].thing.category, self.dark)

    def showEvent(self, event: object) -> None:
        """Filled when it is first seen, as soon as the changes are known."""
        super().showEvent(event)  # type: ignore[arg-type]
        self.fill()

    def show_diff(self, diff: Diff) -> None:
        """The same runs, restricted by other words."""
        self.diff, begun, self._begun = diff, self._begun, False
        if begun:
            self.show_columns([])
        if self.isVisible():
            self.fill()

    def fill(self) -> None:
        """Show the changes, once."""
        if not self._begun:
            self._begun, diff = True, self.diff
            self.work.begin("Comparing allocations", lambda job: change_columns(diff), self._take)

    def _take(self, found: tuple[list[Column], I64]) -> None:
        self.show_rows(*found, between=(6, 8))

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.dark = theme.dark
        super().set_theme(theme)


class RunsTable(TableView):
    """A row for each open run."""

    def __init__(self, runs: tuple[Run, ...], pair: tuple[Run, Run], parent: QWidget) -> None:
        super().__init__("All open runs", parent)
        self.pair = pair
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # names differ at the end: which rank
        self.show_runs(runs)

    def show_runs(self, runs: tuple[Run, ...]) -> None:
        """These are open."""
        sides = [{self.pair[0]: "A", self.pair[1]: "B"}.get(run, "") for run in runs]
        columns = run_columns([figures_of(run) for run in runs], sides)
        self.show_columns(columns)
        longest = max((self._characters(run.name) for run in runs), default=0)
        rest = (max(self._characters(column.title), _LEAST.get(column.title, 8)) for column in columns[2:])
        spare = tuple(n for title in _SPARE for n, column in enumerate(columns) if column.title == title)
        name = min(longest, 30)
        self.set_widths(3, name, *rest, shared=(), least={1: min(name, _NAME)}, spare=spare, giving=1)

    def _characters(self, text: str) -> int:
        """Digits that are as wide as this text."""
        metrics = self.fontMetrics()
        return -(-metrics.horizontalAdvance(text) // metrics.horizontalAdvance("0"))

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.painter_of_cells.theme = theme
        self.viewport().update()
