"""Views are docks: moved, put among tabs, given windows of their own, hidden; all of it remembered."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from memstrata.viewer.panels.compare_page import ComparePage
from memstrata.viewer.panels.dock_host import PLACES
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.window import Window

from .conftest import ready, settle
from .test_settings import Start, file, open_in, start, tab_of, view_entries

__all__ = ["file", "start"]  # fixtures


def places(page: RunPage | ComparePage) -> dict[str, tuple[str, bool]]:
    """Side of each dock, and whether it is hidden."""
    return {key: (page.docks.area(key), dock.isHidden()) for key, dock in page.docks.docks.items()}


def rested(page: RunPage | ComparePage, qtbot: QtBot) -> None:
    ready(page, qtbot)
    qtbot.wait(20)


def test_at_first_the_tables_are_tabs_and_the_stack_stands_beside(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[0])
    assert {key for key, (side, _) in places(page).items() if side != "bottom"} == {"legend"}
    assert list(page.docks.tabs())[:4] == ["legend", "lanes", "alive", "findings"] and page.docks.front == "alive"
    docks = page.docks.docks
    assert docks["stack"].x() > docks["alive"].geometry().right()
    assert docks["alive"].title_bar.height() == 0 and docks["stack"].title_bar.height() > 15
    assert page.filter.mapTo(page, QPoint(0, 0)).y() < page.docks.y()


@pytest.mark.parametrize("place", ["left", "right", "top"])
def test_a_dock_goes_to_each_side_and_back(opened: Any, tapes: tuple[str, str], qtbot: QtBot, place: str) -> None:
    page = opened(tapes[0])
    page.docks.move_to("findings", place)
    rested(page, qtbot)
    dock, middle = page.docks.docks["findings"], page.docks.centralWidget()
    assert page.docks.area("findings") == place and page.views["findings"].isVisible()
    assert (dock.title_bar.height() > 15) == (place != "left") and page.filter.isVisible()  # on the left are the groups
    beside = {"left": dock.x() < middle.x(), "right": dock.x() > middle.x(), "top": dock.y() < middle.y()}
    assert beside[place] and min(dock.width(), dock.height()) > 60
    page.docks.move_to("findings", "bottom")
    rested(page, qtbot)
    assert page.docks.area("findings") == "bottom" and dock.title_bar.height() == 0
    assert page.docks.docks["alive"] in page.docks.tabifiedDockWidgets(dock) and page.docks.front == "findings"


def test_docks_of_one_side_become_tabs(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    for key in ("findings", "problems"):
        page.docks.move_to(key, "right")
    rested(page, qtbot)
    bar, tab = tab_of(page, "Findings")
    assert sorted(bar.tabText(i) for i in range(bar.count())) == ["Findings", "Problems"]
    assert page.views["problems"].isVisible() and not page.views["findings"].isVisible()
    qtbot.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(tab).center())
    rested(page, qtbot)
    assert page.views["findings"].isVisible() and not page.views["problems"].isVisible()
    assert page.docks.front == "findings" and page.views["alive"].isVisible()


def test_a_double_click_on_a_tab_gives_it_a_window(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    bar, tab = tab_of(page, "Stacks")
    qtbot.mouseDClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(tab).center())
    rested(page, qtbot)
    dock = page.docks.docks["stacks"]
    assert dock.isFloating() and dock.isVisible() and page.views["stacks"].isVisible()
    dock.title_bar.buttons[1].click()
    rested(page, qtbot)
    assert not dock.isFloating() and page.docks.area("stacks") == "bottom"


def test_a_tab_dragged_off_its_bar_is_a_dock_that_is_dragged(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    bar, tab = tab_of(page, "Stacks")
    start, dock = bar.tabRect(tab).center(), page.docks.docks["stacks"]
    qtbot.mousePress(bar, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(bar, start + QPoint(14, 0))
    assert not dock.isFloating()
    qtbot.mouseMove(bar, start - QPoint(0, 150))
    qtbot.mouseMove(bar, start - QPoint(0, 200))
    assert dock.isFloating()
    qtbot.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=start - QPoint(0, 200))
    rested(page, qtbot)
    assert page.views["stacks"].isVisible() and "stacks" in page.docks.tabs()
    page.docks.move_to("stacks", "bottom")
    rested(page, qtbot)
    assert not dock.isFloating() and page.views["stacks"].isVisible()


def test_a_window_of_a_dock_comes_and_goes_with_its_page(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    page.docks.move_to("stacks", "window")
    rested(page, qtbot)
    opened(tapes[1])
    assert not page.docks.docks["stacks"].isVisible()  # the comparison is in front
    window.tabs.setCurrentIndex(1)
    other = window.content.page
    rested(other, qtbot)
    assert not page.docks.docks["stacks"].isVisible() and other.docks.docks["stacks"].isVisible()
    window.tabs.setCurrentIndex(0)
    assert page.docks.docks["stacks"].isVisible() and not other.docks.docks["stacks"].isVisible()
    window.close()
    settle()
    assert not any(dock.isVisible() for dock in page.docks.docks.values())


def test_a_dock_is_hidden_by_its_own_button(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    page.docks.docks["stack"].title_bar.buttons[2].click()
    assert "stack" not in page.docks.tabs() and window.arrangement.hidden == {"stack"}
    assert not view_entries(window)["Stack of the selection"].isChecked()
    view_entries(window)["Stack of the selection"].trigger()
    assert page.views["stack"].isVisible() and not window.arrangement.hidden


def test_the_menu_of_a_tab_offers_all_places(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    bar, tab = tab_of(page, "Findings")
    bar.customContextMenuRequested.emit(bar.tabRect(tab).center())
    (menu,) = page.docks.findChildren(QMenu)
    entries = {action.text(): action for action in menu.actions() if action.text()}
    assert list(entries) == [*PLACES.values(), "&Hide"] and entries["&Below"].isChecked()
    entries["On the &right"].trigger()
    assert page.docks.area("findings") == "right"
    entries["&Hide"].trigger()
    assert window.arrangement.hidden == {"findings"}
    menu.close()


def test_the_view_menu_moves_the_view_in_front(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    page.bring_forward("problems")
    view_entries(window)
    assert window.menus.where.title() == "P&lace of Problems"
    next(a for a in window.menus.where.actions() if a.text() == "On the &left").trigger()
    assert page.docks.area("problems") == "left"


def test_keys_go_from_view_to_view(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    window.activateWindow()
    order = list(page.docks.tabs())
    seen = []
    for _ in order:
        QTest.keyClick(window, Qt.Key.Key_F6)
        QApplication.processEvents()
        seen.append(page.docks.front)
        focus = QApplication.focusWidget()
        dock = page.docks.docks[seen[-1]]
        assert focus is not None and dock.isAncestorOf(focus)
    first = order.index("alive")  # that in front comes first
    assert seen == order[first:] + order[:first]
    QTest.keyClick(window, Qt.Key.Key_F6)
    QTest.keyClick(window, Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier)
    assert page.docks.front == "lanes" == order[first - 1]


def test_the_arrangement_comes_back_and_is_reset(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    first = places(page)
    page.docks.move_to("saved", "left")
    page.docks.move_to("problems", "right")
    page.docks.move_to("stacks", "window")
    page.docks.docks["stacks"].setGeometry(120, 140, 500, 300)
    view_entries(window)["Prediction"].trigger()
    rested(page, qtbot)
    kept, width = places(page), page.docks.docks["saved"].width()
    assert kept["saved"][0] == "left" and kept["stacks"][0] == "window" and kept["prediction"][1]
    window.close()

    window = start()
    page = open_in(window, tapes[1], qtbot)
    assert places(page) == kept and page.docks.docks["saved"].width() == pytest.approx(width, abs=3)
    assert page.docks.docks["stacks"].geometry() == QRect(120, 140, 500, 300)
    assert page.docks.docks["stacks"].isVisible() and page.views["problems"].isVisible()
    window.actions_by_name["reset"].trigger()
    rested(page, qtbot)
    assert places(page) == first and page.docks.front == "alive"
    window.close()
    assert places(open_in(start(), tapes[0], qtbot)) == first


def test_the_next_run_and_one_that_is_open_take_it_over(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    first = opened(tapes[0])
    opened(tapes[1])
    window.tabs.setCurrentIndex(1)
    second = window.content.page
    rested(second, qtbot)
    second.docks.move_to("findings", "right")
    rested(second, qtbot)
    window.tabs.setCurrentIndex(0)
    rested(first, qtbot)
    assert first.docks.area("findings") == "right" and first.views["findings"].isVisible()


def test_a_file_with_fewer_views_does_not_forget_where_the_others_stood(
    start: Start, tapes: tuple[str, str], snapshots: Any, qtbot: QtBot
) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    page.docks.move_to("saved", "right")
    rested(page, qtbot)
    window.open_paths([str(snapshots / "torch26-attention-small.pickle")])
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 2, timeout=20_000)
    window.tabs.setCurrentIndex(1)
    plain = window.content.page
    rested(plain, qtbot)
    assert isinstance(plain, RunPage) and "saved" not in plain.views
    plain.docks.move_to("findings", "left")
    rested(plain, qtbot)
    window.close()
    page = open_in(start(), tapes[0], qtbot)
    assert page.docks.area("saved") == "right" and page.docks.area("findings") == "left"


def test_folded_lanes_are_remembered(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    lanes = page.views["lanes"]
    assert lanes.tree.isVisible()
    qtbot.mouseClick(lanes.fold, Qt.MouseButton.LeftButton)
    rested(page, qtbot)
    assert not lanes.tree.isVisible() and page.docks.docks["lanes"].height() < 40
    window.close()
    page = open_in(start(), tapes[1], qtbot)
    assert not page.views["lanes"].tree.isVisible()
    qtbot.mouseClick(page.views["lanes"].fold, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.views["lanes"].tree.height() > 100, timeout=2_000)


def packed(state: bytes) -> str:
    return f"{zlib.crc32(state):08x}:{base64.b64encode(state).decode()}"


BAD: list[Callable[[str], str]] = [
    lambda good: "",
    lambda good: "rubbish",
    lambda good: good[:-8],
    lambda good: "00000000" + good[8:],
    lambda good: packed(b"\x00\xff" * 40),
    lambda good: packed(b"\x00\x00\x00\xff\x00\x00\x00\x07" + base64.b64decode(good[9:])[8:]),  # of another version
    lambda good: packed(base64.b64decode(good[9:])[:60]),
]


@pytest.mark.parametrize("damage", BAD)
def test_a_state_that_makes_no_sense_is_left_aside(
    start: Start, tapes: tuple[str, str], qtbot: QtBot, damage: Callable[[str], str]
) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    first = places(page)
    page.docks.move_to("findings", "right")
    rested(page, qtbot)
    good = window.settings.text("layout/run-docks")
    assert packed(base64.b64decode(good[9:])) == good
    window.close()
    window = start()
    window.settings.set("layout/run-docks", damage(good))
    assert places(open_in(window, tapes[0], qtbot)) == first


def test_a_window_of_a_dock_whose_screen_is_gone_comes_to_the_page(
    start: Start, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    page.docks.move_to("stacks", "window")
    page.docks.docks["stacks"].setGeometry(9_000, 5_000, 400, 300)
    rested(page, qtbot)
    window.close()
    page = open_in(start(), tapes[0], qtbot)
    room = QGuiApplication.primaryScreen().availableGeometry()
    assert page.docks.docks["stacks"].isFloating() and room.intersects(page.docks.docks["stacks"].geometry())


def test_views_of_a_comparison_are_docks_too(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    open_in(window, tapes[0], qtbot)
    window.open_paths([tapes[1]])
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 2, timeout=20_000)
    window.tabs.setCurrentIndex(2)
    page = window.content.page
    assert isinstance(page, ComparePage)
    rested(page, qtbot)
    entries = view_entries(window)
    assert list(entries) == [
        "Savings", "Waterfall", "Differences", "Appeared, gone, grown", "By stack", "By phase and super-block",
        "All open runs",
    ]  # fmt: skip
    assert places(page)["saving"] == ("right", False) and places(page)["cut"] == ("bottom", False)
    entries["Waterfall"].trigger()
    assert not page.views["cut"].isVisible() and page.chart.isVisible()
    page.docks.move_to("runs", "left")
    rested(page, qtbot)
    kept = places(page)
    window.close()

    window = start()
    window.open_paths(list(tapes))
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 2, timeout=20_000)
    page = window.content.page
    rested(page, qtbot)
    assert isinstance(page, ComparePage) and places(page) == kept
    assert kept["cut"] == ("bottom", True) and kept["runs"] == ("left", False)
    window.actions_by_name["reset"].trigger()
    rested(page, qtbot)
    assert places(page)["runs"] == ("bottom", False) and page.views["cut"].isVisible()


def test_a_view_is_made_when_it_is_first_seen(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    assert set(page.views.made) == {"timeline", "legend", "lanes", "alive", "stack"}
    bar, tab = tab_of(page, "Findings")
    qtbot.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(tab).center())
    rested(page, qtbot)
    assert set(page.views.made) == {"timeline", "legend", "lanes", "alive", "stack", "findings"}


def test_a_page_is_made_in_steps(window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window.open_paths([tapes[0]])
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=20_000)
    page = window.content.page
    assert isinstance(page, RunPage) and page.answer.isVisible() and not page.stages.is_done
    assert len(page.views.made) < 5
    counts = []
    while not page.stages.is_done:
        counts.append(len(page.views.made))
        QApplication.processEvents()
    assert max(b - a for a, b in pairwise(counts)) == 1


def test_a_page_closed_while_it_is_made_makes_no_more(window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window.open_paths([tapes[0]])
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=20_000)
    page = window.content.page
    assert isinstance(page, RunPage) and not page.stages.is_done
    window.tabs.close_front()
    assert page.stages.is_done
    settle()
    assert not window.content.pages


def test_pages_with_docks_leave_nothing_when_they_are_closed(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    counts = []
    for _ in range(4):
        page = opened(tapes[0])
        page.docks.move_to("findings", "right")
        page.docks.move_to("stacks", "window")
        page.bring_forward("allocations")
        rested(page, qtbot)
        window.tabs.close_front()
        settle()
        settle()
        counts.append(len(QApplication.allWidgets()))
    assert len(set(counts[2:])) == 1
