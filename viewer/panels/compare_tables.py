"""The tables of a comparison: differences with bars that diverge, what changed, and all open runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QStyleOptionViewItem, QWidget

from memstrata.capture.format.schema import I64

from ..analysis.all_runs import figures_of
from ..analysis.diff import Diff
from ..charts.theme import Theme, current
from ..look.name_cut import cut_apart
from ..model.paints import Paint, category_paint
from ..model.run import Run
from ..state.array_table import Column
from ..state.comparison import change_columns, slot_columns
from ..state.run_comparison import run_columns
from .delegates import DifferenceDelegate, Index, TableDelegate
from .table_view import TableView
from .work_line import WorkLine

_LEAST = {"rank": 4, "step": 7, "tokens/s": 7}
"""Characters of short numbers; 8 for bytes."""
_SPARE = ("tokens/s", "communication", "step")
"""Columns of the open runs that go, in this order, where there is too little room for their names."""
_NAMES, _NUMBERS = 36, 20
"""Characters of names and of differences with their bars, where there is room for both."""
_NUMBER, _NAME, _HEAD = 11, 14, 14
"""Characters that a difference, a name and a name over a column have at least."""
_FIRST = 50
"""Rows whose names say how wide the longest is."""
_TITLE = 14
"""Pixels around the title of a column."""


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
        first = len(between) + 1
        named = [max(count + 1, 10) for count in heads]
        least = {0: _NAME, first: min(named[0], _HEAD), first + 1: min(named[1], _HEAD), last: _NUMBER}
        spare = tuple(range(2, len(between) + 1))  # what kind of change it is stays
        self.set_widths(
            _NAMES, *between, *named, _NUMBERS, shared=(0, first, first + 1, last), least=least, spare=spare,
            most={0: self._longest(columns[0]), first: named[0], first + 1: named[1]},
        )  # fmt: skip

    def _longest(self, column: Column) -> int:
        """Characters that the names of the first rows need, with their swatches."""
        one, wide = self.fontMetrics().horizontalAdvance("0"), self.fontMetrics().horizontalAdvance
        return max((wide(column.text(row)) // one + 5 for row in self.table.rows[:_FIRST].tolist()), default=_NAME)

    def _fit_columns(self) -> None:
        super()._fit_columns()
        columns = self.table.columns
        runs = range(max(len(columns) - 3, 0), max(len(columns) - 1, 0))
        room = min((self.columnWidth(column) - _TITLE for column in runs), default=0)
        wide = self.horizontalHeader().fontMetrics().horizontalAdvance
        sides, names = zip(*(_side(columns[column].title) for column in runs)) if runs else ((), ())
        cut = cut_apart(names, room - max(map(wide, sides), default=0), wide, "…")
        self.table.cut_titles({column: side + name for column, side, name in zip(runs, sides, cut)})

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.painter_of_cells.theme = self.bars.theme = theme
        self.viewport().update()


def _side(title: str) -> tuple[str, str]:
    """`A: ` and the name of the run."""
    side, mark, name = title.partition(": ")
    return (side + mark, name) if mark else ("", title)


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


class NamesDelegate(TableDelegate):
    """Cuts the names of a column so that they can be told apart."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        if self.room is not None:
            model = index.model()
            names = [
                self.displayText(model.index(row, index.column()).data(), option.locale)
                for row in range(model.rowCount())
            ]
            option.text = cut_apart(names, self.room, option.fontMetrics.horizontalAdvance, "…")[index.row()]


class RunsTable(TableView):
    """A row for each open run."""

    def __init__(self, runs: tuple[Run, ...], pair: tuple[Run, Run], parent: QWidget) -> None:
        super().__init__("All open runs", parent)
        self.pair = pair
        self.names = NamesDelegate(self)
        self.setItemDelegateForColumn(1, self.names)
        self.show_runs(runs)

    def show_runs(self, runs: tuple[Run, ...]) -> None:
        """These are open."""
        sides = [{self.pair[0]: "A", self.pair[1]: "B"}.get(run, "") for run in runs]
        columns = run_columns([figures_of(run) for run in runs], sides)
        self.show_columns(columns)
        longest = max((self._characters(run.name) for run in runs), default=0)
        rest = (
            max(self._characters(column.title), _LEAST.get(column.title, 8), *self._texts(column))
            for column in columns[2:]
        )
        spare = tuple(n for title in _SPARE for n, column in enumerate(columns) if column.title == title)
        name = longest + 1
        self.set_widths(3, name, *rest, shared=(), least={1: min(name, _NAME)}, spare=spare, giving=1)

    def _texts(self, column: Column) -> list[int]:
        """What each of its cells needs."""
        return [self._characters(column.text(row)) + 1 for row in range(len(column.keys))]

    def _characters(self, text: str) -> int:
        """Digits that are as wide as this text."""
        metrics = self.fontMetrics()
        return -(-metrics.horizontalAdvance(text) // metrics.horizontalAdvance("0"))

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.painter_of_cells.theme = self.names.theme = theme
        self.viewport().update()
