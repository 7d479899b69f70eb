"""Which columns of a table give way where there is little room, and what is in sight when a file opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtWidgets import QStyleOptionViewItem, QTableView
from pytestqt.qtbot import QtBot

from memstrata.viewer.panels.delegates import AROUND
from memstrata.viewer.panels.table_view import TableView, shared_out
from memstrata.viewer.state.array_table import Column
from memstrata.viewer.window import LEAST, Window


def titles(table: QTableView) -> list[str]:
    """Of the columns that are shown."""
    model = table.model()
    shown = (column for column in range(model.columnCount()) if not table.isColumnHidden(column))
    return [model.headerData(column, Qt.Orientation.Horizontal) for column in shown]


def no_scrolling(table: QTableView) -> bool:
    return table.horizontalHeader().length() <= table.viewport().width()


@pytest.fixture
def narrow(window: Window, opened: Any, pair: tuple[str, str]) -> Any:
    """The least window, in which a run or a comparison is opened."""
    window.resize(LEAST)
    return lambda count: opened(*pair[:count])


def test_what_is_left_is_shared_and_floors_are_kept() -> None:
    assert shared_out(100, {0: 3, 1: 1}, {0: 10, 1: 10}) == {0: 75, 1: 25}
    assert shared_out(100, {0: 9, 1: 1}, {0: 10, 1: 40}) == {0: 60, 1: 40}
    assert shared_out(30, {0: 1, 1: 1}, {0: 20, 1: 20}) == {0: 20, 1: 20}
    assert shared_out(100, {}, {}) == {}
    assert shared_out(100, {0: 1, 1: 1}, {0: 10, 1: 10}, {1: 30}) == {0: 70, 1: 30}
    assert shared_out(100, {0: 1, 1: 1, 2: 2}, {0: 10, 1: 10, 2: 60}, {1: 15}) == {0: 25, 1: 15, 2: 60}


def cells_whole(view: QTableView, *columns: int) -> bool:
    """Whether the delegate has room for each text of these columns."""
    wide = view.fontMetrics().horizontalAdvance
    texts = ((column, view.model().index(row, column).data()) for row in range(view.model().rowCount())
             for column in columns if not view.isColumnHidden(column))  # fmt: skip
    return all(wide(text) <= view.columnWidth(column) - AROUND for column, text in texts)


@pytest.mark.parametrize("size", [(1600, 1000), (1100, 700)])
def test_names_and_numbers_of_open_runs_are_whole_where_there_is_room(
    window: Window, opened: Any, snapshots: Path, pair: tuple[str, str], size: tuple[int, int], qtbot: QtBot
) -> None:
    """A snapshot has no times: `unknown` is longer than they are."""
    window.resize(*size)
    view = opened(*(str(snapshots / f"torch26-train-{name}.pickle") for name in ("mid-run", "from-start")))
    view = view.bring_forward("runs")
    qtbot.waitUntil(view.isVisible)
    assert cells_whole(view, *range(2, view.table.columnCount())) and no_scrolling(view)
    assert cells_whole(view, 1) or size == (1100, 700)
    view = opened(*pair).bring_forward("runs")
    qtbot.waitUntil(view.isVisible)
    assert no_scrolling(view)


def test_the_names_over_differences_are_whole_where_there_is_room(
    window: Window, opened: Any, snapshots: Path, qtbot: QtBot
) -> None:
    names = [f"torch26-train-{name}.pickle" for name in ("mid-run", "from-start")]
    table = opened(*(str(snapshots / name) for name in names)).bring_forward("differences")
    qtbot.waitUntil(table.isVisible)
    assert titles(table) == ["category", f"A: {names[0]}", f"B: {names[1]}", "difference"] and no_scrolling(table)
    assert cells_whole(table, 1, 2)
    window.resize(LEAST)
    qtbot.waitUntil(lambda: titles(table)[1] != f"A: {names[0]}")
    a, b = titles(table)[1:3]
    assert a.startswith("A: ") and b.startswith("B: ") and a[3:] != b[3:] and no_scrolling(table)
    wide = table.horizontalHeader().fontMetrics().horizontalAdvance
    assert all(wide(text) <= table.columnWidth(n) for n, text in ((1, a), (2, b)))


@pytest.mark.parametrize("name", ["torch28-oom-three-gpus-expandable", "torch26-train-from-start"])
def test_what_a_finding_says_is_wrapped_where_there_is_room(
    window: Window, opened: Any, snapshots: Path, name: str, qtbot: QtBot
) -> None:
    window.resize(1100, 700)
    panel = opened(str(snapshots / f"{name}.pickle")).bring_forward("findings")
    qtbot.waitUntil(panel.isVisible)
    view, line = panel.view, panel.view.fontMetrics().lineSpacing()
    wide = view.fontMetrics().horizontalAdvance
    for column in (1, 2):
        text = view.model().index(0, column).data()
        assert wide(text) > view.columnWidth(column)
        assert view.rowHeight(0) >= wide(text) / view.columnWidth(column) * line
    assert panel.whole.wordWrap() and panel.whole.height() >= panel.whole.heightForWidth(panel.whole.width())
    assert view.verticalScrollBar().maximum() == 0
    wraps = QStyleOptionViewItem.ViewItemFeature.WrapText
    for height in (view.rowHeight(0), view.verticalHeader().defaultSectionSize()):
        option = QStyleOptionViewItem()
        view.initViewItemOption(option)
        option.rect = QRect(0, 0, 200, height)
        view.itemDelegate().initStyleOption(option, view.model().index(0, 2))
        assert bool(option.features & wraps) == (height == view.rowHeight(0))


def test_names_stay_readable_where_times_have_no_room(narrow: Any, window: Window, qtbot: QtBot) -> None:
    view = narrow(1).views["alive"].view
    qtbot.waitUntil(view.isVisible)
    assert titles(view) == ["bytes", "category", "what", "module", "made in"] and no_scrolling(view)
    assert min(view.columnWidth(column) for column in (2, 3, 4)) >= 12 * view.fontMetrics().horizontalAdvance("0")
    window.resize(1600, 1000)
    qtbot.waitUntil(lambda: titles(view)[-2:] == ["allocated", "freed"])
    assert no_scrolling(view)


def test_a_column_is_shown_again_where_another_takes_its_place(narrow: Any, qtbot: QtBot) -> None:
    page = narrow(1)
    view = page.views["alive"].view
    qtbot.waitUntil(lambda: "allocated" not in titles(view))
    page.scope.look(grouping="frame")
    qtbot.waitUntil(lambda: titles(view)[1] == "first user frame")
    assert "category" in titles(view) and "what" in titles(view)


@pytest.mark.parametrize(
    ("key", "name", "kept"),
    [
        ("saved", "view", ["storage", "fate", "module", "made by", "shape", "kept for"]),
        ("prediction", "layers", ["layer", "measured", "difference"]),
        ("prediction", "items", ["item of the difference", "bytes"]),
        ("problems", "steps", ["step", "time", "peak"]),
    ],
)
def test_tables_of_a_run_need_no_scrolling_across(
    narrow: Any, key: str, name: str, kept: list[str], qtbot: QtBot
) -> None:
    table = getattr(narrow(1).bring_forward(key), name)
    qtbot.waitUntil(table.isVisible)
    qtbot.waitUntil(lambda: no_scrolling(table) and titles(table) == kept)


def test_differences_of_a_comparison_are_whole(narrow: Any, qtbot: QtBot) -> None:
    page = narrow(2)
    table = page.bring_forward("changes")
    qtbot.waitUntil(lambda: table.isVisible() and table.model().rowCount() > 0, timeout=20_000)
    assert titles(table) == ["what", "change", "in A", "in B", "difference"] and no_scrolling(table)
    assert table.columnWidth(5) >= table.fontMetrics().horizontalAdvance("-999 MiB") + 14
    tree = page.bring_forward("by_stack")
    qtbot.waitUntil(lambda: tree.isVisible() and tree.model().rowCount() > 0, timeout=20_000)
    assert tree.isColumnHidden(1) and tree.header().length() <= tree.viewport().width()


def test_names_of_ranks_stay_readable(window: Window, opened: Any, samples: Path, qtbot: QtBot) -> None:
    window.resize(LEAST)
    view = opened(*map(str, sorted((samples / "ranks").glob("*.mstrata")))).bring_forward("runs")
    qtbot.waitUntil(view.isVisible)
    assert no_scrolling(view) and titles(view)[:5] == ["side", "run", "rank", "peak", "activations"]
    assert view.columnWidth(1) >= 14 * view.fontMetrics().horizontalAdvance("0")


def test_a_title_that_may_be_cut_says_itself_on_hover(qtbot: QtBot) -> None:
    view = TableView("Some")
    qtbot.addWidget(view)
    view.show_columns([Column("of these", np.arange(1), str), Column("n", np.arange(1), str, meaning="how many")])
    said = [view.table.headerData(n, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole) for n in (0, 1)]
    assert said == ["of these", "how many"]


def test_a_file_opens_with_its_largest_allocation_in_sight(opened: Any, snapshots: Path, qtbot: QtBot) -> None:
    """The selected one, the largest that has a stack, may be far below."""
    page = opened(str(snapshots / "torch22-list-of-segments.pickle"))
    view = page.views["alive"].view
    qtbot.waitUntil(view.isVisible)
    qtbot.wait(100)
    assert view.currentIndex().row() > 20 and view.rowAt(1) == 0
    qtbot.keyClick(view, Qt.Key.Key_Down)  # whoever goes on from it is taken there
    assert view.rowAt(1) > 0


def test_facts_of_a_selection_are_cut_with_an_ellipsis_where_it_is_low(
    narrow: Any, window: Window, qtbot: QtBot
) -> None:
    panel = narrow(1).views["stack"]
    qtbot.waitUntil(panel.isVisible)
    assert panel.facts.is_cut and panel.facts.height() >= panel.facts.sizeHint().height()
    window.resize(1600, 1000)
    qtbot.waitUntil(lambda: panel.facts.wordWrap() and not panel.facts.is_cut)
