"""F6 goes into one view after the other, and there into what the view is about."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QWidget
from pytestqt.qtbot import QtBot

from memstrata.viewer.panels.exporting import front_view
from memstrata.viewer.window import Window

from .conftest import ready
from .gestures import focus, press

SHIFT = Qt.KeyboardModifier.ShiftModifier


def round_trip(page: Any, qtbot: QtBot, modifiers: Any = Qt.KeyboardModifier.NoModifier) -> dict[str, QWidget]:
    """What has the focus in each dock, in the order in which the key goes through them until it is around."""
    found: dict[str, QWidget] = {}
    while True:
        press(qtbot, Qt.Key.Key_F6, modifiers)
        qtbot.wait(40)
        key, part = page.docks.front, focus()
        assert page.docks.docks[key].isAncestorOf(part) and part.isVisible()
        if key in found:
            assert key == next(iter(found))
            return found
        found[key] = part


@pytest.fixture
def page(opened: Any, pair: tuple[str, str], window: Window) -> Any:
    window.resize(1500, 1000)
    made = opened(pair[0])
    assert focus() is made.views["timeline"].timeline
    return made


def test_in_each_view_it_is_the_table_or_the_chart_that_has_the_keys(page: Any, qtbot: QtBot) -> None:
    found, views = round_trip(page, qtbot), page.views
    wanted = {
        "legend": views["legend"].view, "lanes": views["lanes"].tree, "alive": views["alive"].view,
        "stack": views["stack"].view, "what_if": views["what_if"].chart, "prediction": views["prediction"].layers,
        "saved": views["saved"].view, "stacks": views["stacks"].tree, "allocations": views["allocations"].chart,
        "allocator": views["allocator"].map, "problems": views["problems"].steps,
        "what_else": views["what_else"].changes,
    }  # fmt: skip
    assert found == wanted
    assert list(round_trip(page, qtbot, SHIFT)) == list(found)[::-1]


def test_the_first_f6_goes_into_the_view_in_front(page: Any, window: Window, qtbot: QtBot) -> None:
    alive, timeline = page.views["alive"].view, page.views["timeline"].timeline
    for modifiers in (Qt.KeyboardModifier.NoModifier, SHIFT):
        press(qtbot, Qt.Key.Key_F6, modifiers)
        assert focus() is alive and page.docks.front == "alive"
        press(qtbot, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
        assert focus() is timeline
    page.views["legend"].view.setFocus()
    press(qtbot, Qt.Key.Key_F6)
    assert focus() is page.views["lanes"].tree  # next to that with the focus, not to that in front


def test_arrows_after_f6_change_no_box(page: Any, qtbot: QtBot) -> None:
    for key in page.docks.docks:
        page.bring_forward(key)
    boxes = {box: box.currentIndex() for box in page.findChildren(QComboBox)}
    for _ in page.docks.tabs():
        press(qtbot, Qt.Key.Key_F6)
        qtbot.wait(20)
        press(qtbot, Qt.Key.Key_Down)
    assert len(boxes) > 5 and {box: box.currentIndex() for box in boxes} == boxes


def test_in_a_low_window_too(opened: Any, pair: tuple[str, str], window: Window, qtbot: QtBot) -> None:
    window.resize(1100, 640)
    page = opened(pair[0])
    found = round_trip(page, qtbot)
    assert page.views["lanes"].fold.isVisible() and not page.views["lanes"].tree.isVisible()
    assert found["lanes"] is page.views["lanes"].fold
    found["lanes"].setFocus()
    assert page.looked_at == "Lanes" and front_view(page)[0] == "Timeline"  # of folded lanes there is no picture
    assert "findings" not in found and not page.views["findings"].found
    assert not any(isinstance(part, QComboBox) for part in found.values())


def test_a_view_with_nothing_for_the_keys_is_passed_over(page: Any, qtbot: QtBot) -> None:
    page.bring_forward("findings")
    page.views["timeline"].timeline.setFocus()
    order = list(page.docks.tabs())
    press(qtbot, Qt.Key.Key_F6)
    assert page.docks.front == order[order.index("findings") + 1]
    press(qtbot, Qt.Key.Key_F6, SHIFT)
    assert page.docks.front == order[order.index("findings") - 1]


def test_a_comparison_too(opened: Any, pair: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(*pair)
    ready(page, qtbot)
    found = round_trip(page, qtbot)
    assert set(found) == set(page.docks.tabs()) - {"saving"}
    assert found["cut"] is page.views["cut"].chart
    for key in ("differences", "changes", "by_stack", "slots"):
        assert found[key] is page.views[key]


def test_the_line_in_the_title_of_the_lanes_is_part_of_the_lanes(page: Any, qtbot: QtBot) -> None:
    lanes = page.views["lanes"]
    assert not lanes.isAncestorOf(lanes.fold)
    lanes.contents.setFocus()
    assert page.looked_at == "Lanes" and front_view(page) == ("Lanes", lanes)
