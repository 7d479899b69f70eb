"""The keyboard reaches everything: where the focus goes, and what keys do wherever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTabBar, QTableView, QTreeView, QWidget
from pytestqt.qtbot import QtBot

from memstrata.viewer.panels.allocation_view import AllocationPanel
from memstrata.viewer.panels.exporting import front_table, front_view
from memstrata.viewer.window import Window

from .conftest import MIB, ready, worked
from .gestures import drag, focus, press, steps

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def test_the_keys_act_on_a_file_that_was_opened(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    assert focus() is page.views["timeline"].timeline
    press(qtbot, Qt.Key.Key_W)
    assert page.scope.view.visible is not None
    compare = opened(tapes[1])
    assert focus() is compare.chart
    tab = window.tabs.tabRect(1).center()
    QTest.mouseClick(window.tabs, LEFT, NONE, tab)
    ready(window.content.page, qtbot)
    assert focus() is window.content.page.views["timeline"].timeline
    press(qtbot, Qt.Key.Key_Tab, CONTROL)
    assert window.content.page is compare and focus() is compare.chart


def test_arrows_along_the_tabs_of_files_stay_there(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    opened(*tapes)
    window.tabs.setFocus()
    for expected in (1, 0):
        press(qtbot, Qt.Key.Key_Left)
        ready(window.content.page, qtbot)
        assert window.tabs.currentIndex() == expected and focus() is window.tabs
    press(qtbot, Qt.Key.Key_M)  # which means nothing to tabs
    assert window.session.view(0).mark == window.session.view(0).cursor


def test_without_a_timeline_the_first_table_has_the_focus(opened: Any, snapshots: Path, qtbot: QtBot) -> None:
    page = opened(str(snapshots / "torch26-three-pools-no-trace.pickle"))
    assert "timeline" not in page.views
    assert focus() is page.views["alive"].view
    assert page.scope.view.query is None
    press(qtbot, Qt.Key.Key_F)
    press(qtbot, Qt.Key.Key_Escape)
    assert focus() is page.views["alive"].view


def test_a_key_goes_to_the_timeline_from_anywhere(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    timeline = page.views["timeline"].timeline
    for part in (page.views["alive"].view, page.filter.line, page.views["lanes"].tree):
        part.setFocus()
        press(qtbot, Qt.Key.Key_T, CONTROL)
        assert focus() is timeline


def test_tab_leaves_every_table_and_tree(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(*tapes)
    seen = 0
    for key in page.views:
        view = page.bring_forward(key)
        own = [view] if isinstance(view, QTableView | QTreeView) else []
        for table in [*own, *view.findChildren(QTableView), *view.findChildren(QTreeView)]:
            if not table.isVisible():
                continue
            table.setFocus()
            press(qtbot, Qt.Key.Key_Tab)
            assert focus() is not table
            seen += 1
    assert seen > 3


def test_focus_chooses_no_group(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    legend, before = page.views["legend"].view, window.session.state
    legend.setFocus(Qt.FocusReason.TabFocusReason)
    page.filter.line.setFocus()
    viewport = legend.viewport()
    QTest.mouseClick(viewport, LEFT, NONE, QPoint(viewport.width() // 2, viewport.height() - 3))
    assert focus() is legend and window.session.state == before
    press(qtbot, Qt.Key.Key_Down)
    assert page.scope.view.query == page.scope.bands.query(legend.table.source_row(0))


def test_focus_chooses_no_lane_and_no_stack(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    stacks = page.bring_forward("stacks")
    qtbot.wait(100)
    before = window.session.state
    for tree in (page.views["lanes"].tree, stacks.tree):
        tree.clearSelection()
        tree.setCurrentIndex(tree.rootIndex())
        tree.setFocus(Qt.FocusReason.TabFocusReason)
        assert focus() is tree
    assert window.session.state == before and stacks.icicle.top == -1


def charts_and_tables(page: Any, qtbot: QtBot) -> list[QWidget]:
    panel = page.bring_forward("allocations")
    assert isinstance(panel, AllocationPanel)
    worked(panel, qtbot)
    return [
        panel.chart, page.bring_forward("alive").view, page.views["lanes"].tree, page.views["legend"].view,
        page.views["timeline"].peak, page.bring_forward("stacks").icicle, page.views["timeline"].timeline,
    ]  # fmt: skip


def test_f_leads_to_the_filter_from_anywhere_and_back(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    for part in charts_and_tables(page, qtbot):
        if not part.isVisible():
            page.bring_forward(next(key for key, view in page.views.made.items() if view.isAncestorOf(part)))
        for leave in (Qt.Key.Key_Escape, Qt.Key.Key_Return):
            part.setFocus()
            press(qtbot, Qt.Key.Key_F)
            assert focus() is page.filter.line and page.filter.line.text() == ""
            press(qtbot, leave)
            assert focus() is part, type(part).__name__


def test_letters_typed_in_a_table_look_for_a_row(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    table = page.views["alive"].view
    table.setFocus()
    before = page.scope.view
    qtbot.keyClicks(table, "mf")
    assert focus() is table and page.scope.view.mark is before.mark is None
    press(qtbot, Qt.Key.Key_F, CONTROL)
    assert focus() is page.filter.line


@pytest.mark.parametrize("part", ["lanes", "button", "icicle", "window"])
def test_keys_of_the_step_act_wherever_nothing_is_typed(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot, part: str
) -> None:
    page = opened(tapes[0])
    scope, stacks = page.scope, page.bring_forward("stacks")
    if part == "window":
        page.docks.move_to("stacks", "window")
        qtbot.wait(50)
    button = page.views["timeline"].fit
    {"lanes": page.views["lanes"].tree, "button": button}.get(part, stacks.icicle).setFocus()
    has = focus()
    press(qtbot, Qt.Key.Key_P)
    assert scope.view.cursor == scope.run.peak_position
    press(qtbot, Qt.Key.Key_M)
    assert scope.view.mark == scope.view.cursor
    press(qtbot, Qt.Key.Key_BracketRight)
    assert scope.view.cursor > scope.run.peak_position
    press(qtbot, Qt.Key.Key_W)
    assert scope.view.visible is not None
    press(qtbot, Qt.Key.Key_0)
    assert scope.view.visible is None
    press(qtbot, Qt.Key.Key_Escape)
    assert scope.view.mark is None
    assert focus() is has


def test_the_mouse_does_not_take_the_keys_into_a_box(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    panel = page.views["timeline"]
    QTest.mouseClick(panel.group, LEFT)
    popup = panel.group.view()
    qtbot.waitUntil(popup.isVisible)
    layer = panel.group.findData("layer")
    place = popup.visualRect(popup.model().index(layer, 0)).center()
    QTest.mouseMove(popup.viewport(), place)
    qtbot.wait(QApplication.doubleClickInterval() + 50)  # else the box takes it for the click that opened it
    QTest.mouseClick(popup.viewport(), LEFT, NONE, place)
    qtbot.waitUntil(lambda: not popup.isVisible())
    assert page.scope.view.grouping == "layer"
    assert focus() is panel.timeline


def test_words_that_make_no_sense_stay_and_say_why(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    line, said = page.filter.line, page.filter.said
    press(qtbot, Qt.Key.Key_F)
    qtbot.keyClicks(line, ">16XiB")
    press(qtbot, Qt.Key.Key_Return)
    assert focus() is line and "16XiB" in said.text()
    press(qtbot, Qt.Key.Key_T, CONTROL)
    press(qtbot, Qt.Key.Key_Right)
    assert line.text() == ">16XiB" and "16XiB" in said.text() and page.scope.view.filter == ""
    line.setFocus()
    line.clear()
    qtbot.keyClicks(line, "> 4 MiB")
    press(qtbot, Qt.Key.Key_Return)
    assert page.scope.view.filter == "> 4 MiB" and said.text().startswith("1 match, 20.0 MiB")
    heaviest = page.scope.run.filtered("> 4 MiB")
    assert page.scope.run.allocations.bytes[heaviest].tolist() == [20 * MIB]


def test_keys_of_a_comparison(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(*tapes)
    chart, cells = page.chart, page.structure.cells
    state = lambda: window.session.state
    press(qtbot, Qt.Key.Key_Home)
    assert state().slot == 0
    press(qtbot, Qt.Key.Key_Right)
    assert state().slot == 1
    press(qtbot, Qt.Key.Key_End)
    assert state().slot == len(cells) - 1
    press(qtbot, Qt.Key.Key_P)
    plain = window.session.state.runs[0]
    cell = cells[state().slot]
    assert cell.a[0] <= plain.peak_position <= cell.a[1] and state().views[0].cursor == plain.peak_position
    press(qtbot, Qt.Key.Key_P)
    other = window.session.state.runs[1]
    cell = cells[state().slot]
    assert cell.b[0] <= other.peak_position <= cell.b[1] and state().views[1].cursor == other.peak_position
    whole = chart.span
    press(qtbot, Qt.Key.Key_W)
    low, high = chart.span
    assert high - low == pytest.approx((whole[1] - whole[0]) / 2) and state().common_visible is not None
    press(qtbot, Qt.Key.Key_A)
    assert chart.span[0] == pytest.approx(max(low - (high - low) * 0.2, 0))
    press(qtbot, Qt.Key.Key_Home)
    assert chart.span[0] == pytest.approx(0)  # the picture follows
    press(qtbot, Qt.Key.Key_Z, CONTROL)
    press(qtbot, Qt.Key.Key_Z, CONTROL)
    assert chart.span == pytest.approx((low, high))
    press(qtbot, Qt.Key.Key_0)
    assert state().common_visible is None and chart.span == pytest.approx(whole)


def test_the_curves_of_a_comparison_can_be_seen_whole_again(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(*tapes)
    whole, before = page.chart.span, steps(window)
    page.bar.axis.setCurrentIndex(page.bar.axis.findData("time"))
    page.bar.axis.activated.emit(page.bar.axis.currentIndex())
    whole = page.chart.span
    press(qtbot, Qt.Key.Key_Home)
    press(qtbot, Qt.Key.Key_Right)
    cursors = [view.cursor for view in window.session.state.views]
    assert max(cursors) == 1
    viewport = page.chart.viewport()
    y = viewport.height() // 2
    page.views["differences"].setFocus()
    press(qtbot, Qt.Key.Key_W)  # a table looks for a row with it
    assert page.chart.span == whole
    page.bar.swap.setFocus()
    press(qtbot, Qt.Key.Key_W)
    assert page.chart.span != whole
    span, before = page.chart.span, steps(window)
    drag(viewport, QPoint(viewport.width() // 2, y), QPoint(viewport.width() // 2 - 150, y))
    assert page.chart.span != span and steps(window) == before + 1
    QTest.mouseClick(page.bar.whole, LEFT)
    assert page.chart.span == pytest.approx(whole)
    qtbot.keyClick(window, Qt.Key.Key_Z, CONTROL)
    assert page.chart.span != pytest.approx(whole)


def test_a_picture_is_of_the_view_brought_forward_last(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    assert front_view(page)[0] == "Timeline"
    bar = next(bar for bar in page.docks.tab_bars() if bar.count() > 2)
    click_tab(bar, "Stacks")
    qtbot.wait(100)
    assert front_view(page)[0] == "Stacks" and front_table(page)[0] == "Stacks"
    page.filter.line.setFocus()
    assert front_view(page)[0] == "Stacks"
    page.views["timeline"].timeline.setFocus()
    assert front_view(page)[0] == "Timeline"


def test_a_picture_without_a_timeline_is_of_the_table(opened: Any, snapshots: Path) -> None:
    page = opened(str(snapshots / "torch26-three-pools-no-trace.pickle"))
    assert "timeline" not in page.views and front_view(page)[1] is page.views["alive"]
    page.filter.line.setFocus()
    assert front_view(page)[1] is page.views["alive"] and front_table(page)[1] is page.views["alive"].view


def click_tab(bar: QTabBar, title: str) -> None:
    tab = next(i for i in range(bar.count()) if bar.tabText(i) == title)
    QTest.mouseClick(bar, LEFT, NONE, bar.tabRect(tab).center())


@pytest.mark.parametrize("which", ["icicle", "map", "fold"])
def test_the_focus_can_be_seen(opened: Any, tapes: tuple[str, str], qtbot: QtBot, which: str) -> None:
    page = opened(tapes[0])
    if which == "icicle":
        part = page.bring_forward("stacks").icicle
    elif which == "map":
        part = worked(page.bring_forward("allocator"), qtbot).map
    else:
        part = page.views["lanes"].fold
    qtbot.wait(100)
    page.filter.line.setFocus()
    without = part.grab().toImage()
    part.setFocus(Qt.FocusReason.TabFocusReason)
    assert focus() is part and part.grab().toImage() != without
