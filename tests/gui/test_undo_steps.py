"""What is one step of undo: a drag, a held key, a click, a choice."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from memstrata.viewer.window import Window

from .conftest import ready
from .gestures import drag, focus, press, steps

LEFT, NONE = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def test_a_brush_is_one_step(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    timeline, before, state = page.views["timeline"].timeline, steps(window), window.session.state
    left, right = timeline.plot_span
    y = timeline.height() // 2
    drag(timeline.viewport(), QPoint(left + 100, y), QPoint(right - 100, y), SHIFT)
    assert page.scope.view.mark is not None and steps(window) == before + 1
    press(qtbot, Qt.Key.Key_Z, CONTROL)
    assert window.session.state == state


def test_a_click_on_a_lane_is_one_step(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    tree, state = page.views["lanes"].tree, window.session.state
    rect = tree.visualRect(tree.lane_model.index(1, 0))
    place = QPoint(tree.span[0] + 200, rect.center().y())
    before = steps(window)
    QTest.mouseClick(tree.viewport(), LEFT, NONE, place)
    assert page.scope.view.query == tree.lane_model.lane(tree.lane_model.index(1, 0)).query
    assert tree.currentIndex().row() == 1 and tree.selectionModel().hasSelection()
    assert steps(window) == before + 1
    press(qtbot, Qt.Key.Key_Z, CONTROL)
    assert window.session.state == state


def test_two_clicks_are_two_steps_however_quick(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    timeline, before = page.views["timeline"].timeline, steps(window)
    left, y = timeline.plot_span[0], timeline.height() - 80
    cursors = []
    for x in (left + 200, left + 500):
        QTest.mouseClick(timeline.viewport(), LEFT, NONE, QPoint(x, y))
        cursors.append(page.scope.view.cursor)
        qtbot.wait(10)
    assert cursors[0] < cursors[1] and steps(window) == before + 2
    press(qtbot, Qt.Key.Key_Z, CONTROL)
    assert page.scope.view.cursor == cursors[0]


def test_a_run_chosen_and_then_exchanged_are_two_steps(
    opened: Any, window: Window, tapes: tuple[str, str], pair: tuple[str, str], qtbot: QtBot
) -> None:
    opened(*tapes, pair[0])
    before, third = steps(window), window.session.state.runs[2]
    bar = window.content.page.bar
    bar.sides[0].setCurrentIndex(2)
    bar.sides[0].activated.emit(2)
    first = window.session.state
    assert first.compared[0] is third
    QTest.mouseClick(window.content.page.bar.swap, LEFT)
    assert window.session.state.compared == first.compared[::-1] and steps(window) == before + 2
    qtbot.keyClick(window, Qt.Key.Key_Z, CONTROL)
    assert window.session.state == first
    ready(window.content.page, qtbot)


def test_going_through_a_box_with_the_arrows_is_one_step(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    state = window.session.state
    box = page.views["timeline"].group
    box.setFocus()
    press(qtbot, Qt.Key.Key_Down)
    press(qtbot, Qt.Key.Key_Down)
    assert page.scope.view.grouping == box.itemData(2) and focus() is box
    press(qtbot, Qt.Key.Key_Z, CONTROL)
    assert window.session.state == state


def test_a_key_that_is_held_is_one_step(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    press(qtbot, Qt.Key.Key_Home)
    before = steps(window)
    for _ in range(5):
        press(qtbot, Qt.Key.Key_Right)
    assert page.scope.view.cursor == 5 and steps(window) == before + 1
    press(qtbot, Qt.Key.Key_Left)
    assert steps(window) == before + 2


def test_undo_in_the_filter_is_that_of_the_window(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    scope, line = page.scope, page.filter.line
    press(qtbot, Qt.Key.Key_Home)
    press(qtbot, Qt.Key.Key_F)
    qtbot.keyClicks(line, "layer:1")
    press(qtbot, Qt.Key.Key_Return)
    assert scope.view.filter == "layer:1" and focus() is page.views["timeline"].timeline
    line.setFocus()
    press(qtbot, Qt.Key.Key_Z, CONTROL)
    assert (scope.view.filter, scope.view.cursor, line.text()) == ("", 0, "")
    press(qtbot, Qt.Key.Key_Z, CONTROL)
    assert scope.view.cursor == scope.run.peak_position
    press(qtbot, Qt.Key.Key_Y, CONTROL)
    press(qtbot, Qt.Key.Key_Y, CONTROL)
    assert (scope.view.filter, scope.view.cursor, line.text()) == ("layer:1", 0, "layer:1")


def test_a_drag_that_ends_where_it_began_is_no_step(
    opened: Any, window: Window, pair: tuple[str, str], qtbot: QtBot
) -> None:
    """In the timeline, in a lane and in the curves of two runs, and also where the drag went past the end."""
    page = opened(pair[0])
    timeline, tree = page.views["timeline"].timeline, page.views["lanes"].tree
    for _ in range(3):
        press(qtbot, Qt.Key.Key_W)
    lane = tree.visualRect(tree.lane_model.index(0, 0)).center().y()
    begin = QPoint(timeline.plot_span[0] + 300, timeline.height() // 2), QPoint(tree.span[0] + 300, lane)
    before, state = steps(window), window.session.state
    for target, start in zip((timeline.viewport(), tree.viewport()), begin):
        for way in (-170, 230, 20_000):
            drag(target, start, start, over=start + QPoint(way, 0))
            assert (steps(window), window.session.state) == (before, state)
            drag(target, start, start + QPoint(way, 0))
            assert steps(window) == before + 1 and window.session.state != state
            press(qtbot, Qt.Key.Key_Z, CONTROL)
            assert (steps(window), window.session.state) == (before, state)
    page = opened(pair[1])
    for _ in range(2):
        press(qtbot, Qt.Key.Key_W)
    before, state, start = steps(window), window.session.state, QPoint(600, 100)
    for way in (-170, 20_000):
        drag(page.chart.viewport(), start, start, over=start + QPoint(way, 0))
        assert (steps(window), window.session.state) == (before, state)


def test_the_whole_of_a_step_cannot_be_dragged(opened: Any, window: Window, pair: tuple[str, str]) -> None:
    page = opened(pair[0])
    before, timeline = steps(window), page.views["timeline"].timeline
    for way in (150, -150):
        start = QPoint(timeline.plot_span[0] + 300, timeline.height() // 2)
        drag(timeline.viewport(), start, start + QPoint(way, 0))
        assert page.scope.view.visible is None and steps(window) == before
    page = opened(pair[1])
    before = steps(window)
    drag(page.chart.viewport(), QPoint(600, 100), QPoint(750, 100))
    assert window.session.state.common_visible is None and steps(window) == before
