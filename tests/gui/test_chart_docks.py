"""Groups and lanes are docks like the others: moved, given windows, hidden, folded; lanes stay under the plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

from memstrata.viewer.window import Window

from .test_docks import places, rested
from .test_settings import Start, drag, file, open_in, start, view_entries

__all__ = ["file", "start"]  # fixtures
LEFT = Qt.MouseButton.LeftButton


def edges(page: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Left and right edge of the lanes and of the plot, in pixels of the screen."""
    timeline, tree = page.views["timeline"].timeline, page.views["lanes"].tree
    lanes, plot = (
        tuple(widget.mapToGlobal(QPoint(x, 0)).x() for x in span)
        for widget, span in ((tree.viewport(), tree.span), (timeline.viewport(), timeline.plot_span))
    )
    return lanes, plot


def ask(page: Any, key: str) -> None:
    """A right click on the title of a dock, or on its tab."""
    widget, reason = page.docks.docks[key].title_bar, QContextMenuEvent.Reason.Mouse
    place = widget.rect().center()
    if not widget.height():
        widget = next(bar for bar in page.docks.tab_bars() if bar.tabText(bar.currentIndex()) == "Groups")
        place = widget.tabRect(widget.currentIndex()).center()
    QApplication.sendEvent(widget, QContextMenuEvent(reason, place, widget.mapToGlobal(place)))


def choose(page: Any, text: str) -> None:
    """An entry of the menu of places that is open."""
    menu = page.docks.findChildren(QMenu)[-1]
    next(action for action in menu.actions() if action.text() == text).trigger()
    menu.close()


def height(page: Any, key: str) -> int:
    return page.views.slots[key].height() if key == "timeline" else page.docks.docks[key].height()


def test_at_first_groups_stand_left_and_lanes_under_the_timeline_and_over_the_tabs(
    opened: Any, pair: tuple[str, str]
) -> None:
    page = opened(pair[0])
    legend, lanes, alive = (page.docks.docks[key].geometry() for key in ("legend", "lanes", "alive"))
    middle = page.docks.centralWidget().geometry()
    assert legend.right() < middle.left() and legend.height() == middle.height()
    assert middle.bottom() < lanes.top() and lanes.bottom() < alive.top() and lanes.width() == page.docks.width()
    assert lanes.height() == pytest.approx(page.charts.lanes_height, abs=8)
    assert edges(page)[0] == edges(page)[1]
    assert page.docks.docks["legend"].title_bar.height() <= 24
    line = page.views["lanes"].title_line
    assert page.docks.docks["lanes"].title_bar.isAncestorOf(line) and page.views["lanes"].tree.y() == 0


@pytest.mark.parametrize("key", ["legend", "lanes"])
def test_a_right_click_on_the_title_offers_all_places(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot, key: str
) -> None:
    page = opened(tapes[0])
    first = places(page)
    for place, text in (("right", "On the &right"), ("top", "A&bove"), ("bottom", "&Below"), ("left", "On the &left")):
        ask(page, key)
        choose(page, text)
        rested(page, qtbot)
        assert page.docks.area(key) == place and page.views[key].isVisible()
        assert {k: v for k, v in places(page).items() if k != key} == {k: v for k, v in first.items() if k != key}
    page.docks.offer_places(key, QPoint())
    choose(page, "&Hide")
    assert window.arrangement.hidden == {key} and not page.views[key].isVisible()
    title = {"legend": "Groups", "lanes": "Lanes"}[key]
    view_entries(window)[title].trigger()
    rested(page, qtbot)
    assert page.views[key].isVisible() and page.docks.area(key) == "left"


@pytest.mark.parametrize("key", ["legend", "lanes"])
def test_a_double_click_gives_a_window_and_takes_it_back(
    opened: Any, tapes: tuple[str, str], qtbot: QtBot, key: str
) -> None:
    page = opened(tapes[0])
    dock, before = page.docks.docks[key], places(page)
    grip = page.views["lanes"].note if key == "lanes" else dock.title_bar.name
    qtbot.mouseDClick(grip, LEFT)
    rested(page, qtbot)
    assert dock.isFloating() and dock.isVisible() and page.views[key].isVisible()
    qtbot.mouseDClick(grip, LEFT)
    rested(page, qtbot)
    assert not dock.isFloating() and places(page) == before
    assert edges(page)[0] == edges(page)[1]


@pytest.mark.parametrize("key", ["legend", "lanes"])
def test_it_is_dragged_by_its_title(opened: Any, tapes: tuple[str, str], qtbot: QtBot, key: str) -> None:
    page = opened(tapes[0])
    dock = page.docks.docks[key]
    grip = page.views["lanes"].note if key == "lanes" else dock.title_bar.name
    qtbot.mousePress(grip, LEFT, pos=QPoint(20, 8))
    for step in (20, 60, 120):
        qtbot.mouseMove(grip, QPoint(20 + step, 8))
    assert dock.isFloating()
    qtbot.mouseRelease(QWidget.mouseGrabber() or grip, LEFT)
    rested(page, qtbot)
    assert page.views[key].isVisible()
    page.docks.move_to(key, "right")
    rested(page, qtbot)
    assert page.docks.area(key) == "right" and page.views[key].isVisible()


def test_lanes_stay_exactly_in_the_column_of_the_plot(
    opened: Any, window: Window, pair: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(pair[0])
    tree = page.views["lanes"].tree
    steps = {
        "groups on the right": lambda: page.docks.move_to("legend", "right"),
        "groups hidden": lambda: view_entries(window)["Groups"].trigger(),
        "lanes above": lambda: page.docks.move_to("lanes", "top"),
        "groups shown": lambda: view_entries(window)["Groups"].trigger(),
        "groups on the left": lambda: page.docks.move_to("legend", "left"),
        "lanes below": lambda: page.docks.move_to("lanes", "bottom"),
        "a wider column": lambda: drag(qtbot, page, "legend", "right", 90, 0),
        "a smaller window": lambda: window.resize(1100, 900),
        "layers": lambda: tree.expandAll(),
    }
    for name, step in steps.items():
        step()
        rested(page, qtbot)
        lanes, plot = edges(page)
        assert lanes == plot and tree.is_aligned, name
        assert tree.columnViewportPosition(3) == tree.span[0], name


def test_the_cursor_goes_straight_through_timeline_and_lanes(
    opened: Any, window: Window, pair: tuple[str, str], qtbot: QtBot
) -> None:
    """On the picture itself: the pixels in the colour of the cursor."""
    page = opened(pair[0])
    timeline, tree = page.views["timeline"].timeline, page.views["lanes"].tree
    left, right = (timeline.viewport().mapTo(window, QPoint(x, 0)).x() for x in timeline.plot_span)
    for position in (3_000, 4_321, 5_500):  # nothing else lies over the line there
        page.scope.look(cursor=position)
        rested(page, qtbot)
        image, name = window.grab().toImage(), timeline.theme.accent
        above, below = (
            {x for x in range(left + 3, right - 3) if image.pixelColor(x, y).name() == name}
            for y in (part.mapTo(window, QPoint(0, 0)).y() + 34 for part in (timeline.viewport(), tree.viewport()))
        )
        assert above & below and len(above | below) <= 2, position  # the pen is 1.6 pixels wide


@pytest.mark.parametrize("place", ["left", "right", "window"])
def test_elsewhere_lanes_use_all_their_width_with_the_same_range(
    opened: Any, pair: tuple[str, str], qtbot: QtBot, place: str
) -> None:
    page = opened(pair[0])
    page.docks.move_to("lanes", place)
    rested(page, qtbot)
    tree, scope = page.views["lanes"].tree, page.scope
    assert not tree.is_aligned and tree.viewport().width() - 20 <= tree.span[1] <= tree.viewport().width()
    assert tree.span[1] - tree.span[0] > tree.viewport().width() * 0.4
    inside = QPoint(sum(tree.span) // 2, 60)
    QApplication.sendEvent(
        tree.viewport(),
        QWheelEvent(
            inside, tree.viewport().mapToGlobal(inside), QPoint(), QPoint(0, 240), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        ),
    )  # fmt: skip
    assert scope.view.visible is not None
    shown = page.views["timeline"].timeline.view.viewRange()[0]
    assert (tree.window_now().low, tree.window_now().high) == pytest.approx(tuple(shown))
    page.docks.move_to("lanes", "bottom")
    rested(page, qtbot)
    assert edges(page)[0] == edges(page)[1]


def test_lanes_that_come_back_stand_next_to_the_timeline_and_the_others_as_before(
    opened: Any, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    docks = page.docks.docks
    page.docks.splitDockWidget(docks["stack"], docks["findings"], Qt.Orientation.Horizontal)
    rested(page, qtbot)
    keys = ("alive", "stack", "findings", "legend")
    before = {key: docks[key].geometry() for key in keys}
    tabs, middle = list(page.docks.tabs()), height(page, "timeline")
    page.docks.move_to("lanes", "right")
    rested(page, qtbot)
    assert height(page, "timeline") > middle + 100 and height(page, "alive") == before["alive"].height()
    page.docks.move_to("lanes", "bottom")
    rested(page, qtbot)
    assert docks["lanes"].y() < docks["alive"].y() and docks["lanes"].width() == page.docks.width()
    for key in ("alive", "stack", "findings"):
        now = docks[key].geometry()
        assert (now.x(), now.width(), now.height()) == pytest.approx(
            (before[key].x(), before[key].width(), before[key].height()), abs=4
        ), key
    assert sorted(page.docks.tabs()) == sorted(tabs)
    assert {docks["problems"], docks["saved"]} <= set(page.docks.tabifiedDockWidgets(docks["alive"]))
    assert page.docks.area("findings") == "bottom" and not page.docks.tabifiedDockWidgets(docks["findings"])


def test_docks_that_are_hidden_meanwhile_come_back_where_they_were(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    docks = page.docks.docks
    before, tabs = docks["stack"].geometry(), list(page.docks.tabs())
    for title in ("Problems", "Stack of the selection"):
        view_entries(window)[title].trigger()
    for place in ("right", "bottom"):
        page.docks.move_to("lanes", place)
        rested(page, qtbot)
    assert docks["problems"].isHidden() and docks["stack"].isHidden()
    for title in ("Stack of the selection", "Problems"):
        view_entries(window)[title].trigger()
    rested(page, qtbot)
    now = docks["stack"].geometry()
    assert (now.x(), now.width(), now.bottom()) == pytest.approx((before.x(), before.width(), before.bottom()), abs=4)
    assert list(page.docks.tabs()) == tabs and page.views["problems"].isVisible()


def test_hidden_lanes_give_their_height_to_the_timeline(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    before = {key: height(page, key) for key in ("timeline", "lanes", "alive")}
    view_entries(window)["Lanes"].trigger()
    rested(page, qtbot)
    assert height(page, "timeline") == before["timeline"] + before["lanes"] + 3
    assert height(page, "alive") == before["alive"]
    view_entries(window)["Lanes"].trigger()
    rested(page, qtbot)
    assert {key: height(page, key) for key in before} == before


def test_folded_lanes_take_the_height_of_their_line(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    lanes, fold = page.docks.docks["lanes"], page.views["lanes"].fold
    for place in ("bottom", "top"):
        page.docks.move_to("lanes", place)
        rested(page, qtbot)
        before = {key: height(page, key) for key in ("timeline", "lanes", "alive")}
        qtbot.mouseClick(fold, LEFT)
        rested(page, qtbot)
        assert lanes.height() == lanes.title_bar.height() < 40 and not page.views["lanes"].tree.isVisible()
        assert height(page, "timeline") == before["timeline"] + before["lanes"] - lanes.height()
        assert height(page, "alive") == before["alive"]
        qtbot.mouseClick(fold, LEFT)
        rested(page, qtbot)
        assert page.views["lanes"].tree.isVisible() and lanes.height() > 150


def test_folding_waits_where_it_would_give_room_to_nobody(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    lanes, panel = page.docks.docks["lanes"], page.views["lanes"]
    qtbot.mouseClick(panel.fold, LEFT)
    for place in ("right", "left", "window"):  # alone, among tabs, in a window
        page.docks.move_to("lanes", place)
        rested(page, qtbot)
        assert not panel.fold.isEnabled() and panel.tree.isVisible() and lanes.height() > 200, place
    page.docks.move_to("lanes", "bottom")
    rested(page, qtbot)
    assert lanes.height() < 40 and not panel.tree.isVisible() and panel.fold.isEnabled()
    page.docks.splitDockWidget(page.docks.docks["legend"], lanes, Qt.Orientation.Vertical)
    rested(page, qtbot)
    assert lanes.height() < 40 and panel.fold.isEnabled()  # under the groups, which have the rest of the column
    qtbot.mouseClick(panel.fold, LEFT)
    rested(page, qtbot)
    assert panel.tree.isVisible() and lanes.height() > 90


def test_where_groups_and_lanes_stand_is_remembered(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    page.docks.move_to("legend", "window")
    page.docks.docks["legend"].setGeometry(140, 150, 420, 260)
    page.docks.move_to("lanes", "top")
    rested(page, qtbot)
    qtbot.mouseClick(page.views["lanes"].fold, LEFT)
    rested(page, qtbot)
    kept = places(page)
    window.close()

    page = open_in(start(), tapes[1], qtbot)
    assert places(page) == kept and kept["legend"][0] == "window" and kept["lanes"][0] == "top"
    assert page.docks.docks["legend"].geometry().getRect() == (140, 150, 420, 260)
    assert page.views["legend"].isVisible() and page.docks.docks["lanes"].height() < 40
    qtbot.mouseClick(page.views["lanes"].fold, LEFT)
    rested(page, qtbot)
    assert page.docks.docks["lanes"].height() > 100 and edges(page)[0] == edges(page)[1]


def test_an_arrangement_of_before_groups_and_lanes_were_docks_is_left_aside(
    start: Start, file: str, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    """Written by the version before: findings on the right, stacks in a window, problems hidden, lanes folded."""
    window = start()
    first = places(open_in(window, tapes[0], qtbot))
    window.close()
    Path(file).write_text((Path(__file__).with_name("arrangement-1.ini")).read_text())
    window = start()
    page = open_in(window, tapes[0], qtbot)
    assert places(page) == first | {"problems": ("bottom", True)}
    assert not page.views["lanes"].tree.isVisible() and page.docks.docks["legend"].width() >= 240
    page.docks.move_to("lanes", "right")
    rested(page, qtbot)
    kept = places(page)
    window.close()
    page = open_in(start(), tapes[0], qtbot)
    assert places(page) == kept


def test_shares_that_make_no_sense_change_nothing_that_matters(
    start: Start, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    page.docks.move_to("legend", "right")
    rested(page, qtbot)
    kept = places(page)
    window.settings.set("layout/run-shares", json.loads('{"legend across": 99999, "lanes down": 1, "nobody down": 7}'))
    window.close()
    page = open_in(start(), tapes[0], qtbot)
    assert places(page) == kept and page.views["timeline"].isVisible() and height(page, "timeline") >= 60


def test_enlarged_allocations_have_the_room_of_groups_and_lanes_too(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    panel = page.bring_forward("allocations")
    qtbot.waitUntil(panel.isVisible)
    panel.large.click()
    rested(page, qtbot)
    assert not any(page.views[key].isVisible() for key in ("timeline", "legend", "lanes"))
    assert page.docks.docks["allocations"].height() > page.docks.height() * 0.9
    view_entries(window)["Groups"].trigger()
    panel.large.click()
    rested(page, qtbot)
    assert page.views["timeline"].isVisible() and page.views["lanes"].isVisible()
    assert not page.views["legend"].isVisible() and window.arrangement.hidden == {"legend"}
    assert edges(page)[0] == edges(page)[1]


def test_a_window_of_the_groups_stays_away_while_another_page_is_in_front(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    page.docks.move_to("legend", "window")
    rested(page, qtbot)
    opened(tapes[1])
    window.arrangement.show_view("problems", False)  # changes what is shown on every page
    assert not page.docks.docks["legend"].isVisible()
    window.tabs.setCurrentIndex(0)
    assert page.docks.docks["legend"].isVisible()


def test_the_title_of_a_narrow_dock_is_cut_with_an_ellipsis_and_said_whole(
    opened: Any, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    dock = page.docks.docks["stack"]
    bar, name = dock.title_bar, dock.title_bar.name
    assert not name.is_cut and all(button.isVisible() for button in bar.buttons)
    page.docks.move_to("stack", "right")
    page.docks.give_widths({"stack": 140})
    rested(page, qtbot)
    assert dock.width() == 140 and name.is_cut and name.text() == "Stack of the selection"
    assert name.geometry().right() < bar.buttons[2].x() and name.width() > 100 and bar.buttons[2].isVisible()
    page.docks.give_widths({"stack": 400})
    rested(page, qtbot)
    assert not name.is_cut and all(button.isVisible() for button in bar.buttons)


def test_keys_go_into_groups_and_lanes(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    window.activateWindow()
    page.bring_forward("alive")
    for key in ("alive", "lanes", "legend"):
        QTest.keyClick(window, Qt.Key.Key_F6, Qt.KeyboardModifier.ShiftModifier)
        focus = QApplication.focusWidget()
        assert page.docks.front == key and focus is not None and page.docks.docks[key].isAncestorOf(focus)
