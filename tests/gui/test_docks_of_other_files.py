"""Files that have fewer views, or no history, leave those that have more as they are: at first and once arranged."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from memstrata.capture.format import files
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.report.snapshot_pickle import snapshot_bytes
from memstrata.viewer.window import Window

from .gestures import LEFT
from .test_settings import Start, file, open_in, start

__all__ = ["file", "start"]  # fixtures


@pytest.fixture
def plain(tapes: tuple[str, str], tmp_path: Path) -> str:
    """A snapshot of the same step: without layers, so without lanes, prediction, what-if and saved tensors."""
    path = tmp_path / "plain.pickle"
    path.write_bytes(snapshot_bytes(files.read(tapes[0])))
    return str(path)


@pytest.fixture
def still(tmp_path: Path) -> str:
    """A snapshot without a history: one block of memory."""
    block = {"address": 0x1000, "size": 1 << 20, "requested_size": 1 << 20, "state": "active_allocated"}
    segment = {
        "device": 0, "address": 0x1000, "total_size": 2 << 20, "stream": 0, "segment_type": "large", "blocks": [block],
    }  # fmt: skip
    path = tmp_path / "still.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[]]}, 4))
    return str(path)


def sizes(page: RunPage) -> dict[str, tuple[str, int, int]]:
    """Side and size of what can be seen."""
    shown = {key: dock for key, dock in page.docks.docks.items() if dock.slot.is_seen}
    found = {key: (page.docks.area(key), dock.width(), dock.height()) for key, dock in shown.items()}
    middle = page.docks.centralWidget() or page.docks
    return {**found, "timeline": ("", middle.width(), middle.height())}


def closed(window: Window, qtbot: QtBot) -> None:
    window.tabs.close_front()
    qtbot.wait(30)


def drag_between(page: RunPage, key: str, down: int, qtbot: QtBot) -> None:
    """Drag what lies over a dock and its tabs."""
    dock = page.docks.docks[key]
    top = dock.mapTo(page.docks, QPoint(200, 0)).y() - (page.docks.height_of(dock) - dock.height())
    between = next(QPoint(200, y) for y in range(top - 8, top + 4) if page.docks.childAt(QPoint(200, y)) is None)
    qtbot.mouseMove(page.docks, between)
    qtbot.mousePress(page.docks, LEFT, pos=between)
    for step in range(1, 7):
        qtbot.mouseMove(page.docks, between + QPoint(0, down * step // 6))
        qtbot.wait(5)
    qtbot.mouseRelease(page.docks, LEFT, pos=between + QPoint(0, down))
    qtbot.wait(50)


def test_whatever_was_open_before_a_recording_looks_the_same(
    start: Start, file: str, tapes: tuple[str, str], plain: str, still: str, qtbot: QtBot
) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    wanted, tabs = sizes(page), list(page.docks.tabs())
    assert wanted["lanes"][0] == "bottom" and wanted["timeline"][2] > 150
    window.close()
    for other in (plain, still):
        Path(file).unlink()
        window = start()
        before = open_in(window, other, qtbot)
        assert "lanes" not in before.views and not any(dock.isVisible() for dock in before.docks.absent.values())
        closed(window, qtbot)
        page = open_in(window, tapes[0], qtbot)
        assert sizes(page) == wanted and list(page.docks.tabs()) == tabs
        window.close()
        page = open_in(start(), tapes[0], qtbot)
        assert sizes(page) == wanted and list(page.docks.tabs()) == tabs


def test_what_is_dragged_in_a_snapshot_holds_in_a_recording_with_its_lanes(
    start: Start, tapes: tuple[str, str], plain: str, qtbot: QtBot
) -> None:
    window = start()
    page = open_in(window, plain, qtbot)
    page.docks.move_to("findings", "right")
    qtbot.wait(50)
    window.close()
    window = start()
    page = open_in(window, tapes[0], qtbot)
    found = sizes(page)
    assert found["findings"][0] == "right" and found["lanes"][0] == "bottom" and found["timeline"][2] > 150
    assert page.docks.fills_row("lanes") and not page.docks.docks["lanes"].title_bar.is_slim


def test_the_height_of_lanes_outlives_a_file_that_has_none(
    start: Start, tapes: tuple[str, str], plain: str, qtbot: QtBot
) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    height = page.docks.docks["lanes"].height()
    drag_between(page, "lanes", -60, qtbot)
    made_high = page.docks.docks["lanes"].height()
    assert made_high > height + 20
    closed(window, qtbot)
    page = open_in(window, plain, qtbot)
    table = page.docks.docks["alive"].height()
    drag_between(page, "alive", -30, qtbot)
    assert page.docks.docks["alive"].height() == pytest.approx(table + 30, abs=4)
    window.close()
    page = open_in(start(), tapes[0], qtbot)
    assert page.docks.docks["lanes"].height() == pytest.approx(made_high, abs=6)


def test_tables_made_high_without_a_history_leave_the_timeline_its_room(
    start: Start, tapes: tuple[str, str], still: str, qtbot: QtBot
) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    wanted = sizes(page)
    closed(window, qtbot)
    page = open_in(window, still, qtbot)
    page.docks.move_to("problems", "left")
    qtbot.wait(50)
    closed(window, qtbot)
    page = open_in(window, tapes[0], qtbot)
    assert sizes(page) == wanted
    closed(window, qtbot)
    assert open_in(window, still, qtbot).docks.area("problems") == "left"


def test_the_order_of_tabs_is_remembered(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    bar: Any = next(bar for bar in page.docks.tab_bars() if bar.isVisible())
    first = [bar.tabText(tab) for tab in range(bar.count())]
    places = bar.tabRect(0).center(), bar.tabRect(2).center()
    QTest.mousePress(bar, LEFT, pos=places[0])
    for step in range(1, 11):
        QTest.mouseMove(bar, places[0] + (places[1] - places[0]) * step / 10 + QPoint(step, 0), 10)
    QTest.mouseRelease(bar, LEFT, pos=places[1] + QPoint(10, 0))
    qtbot.wait(400)
    moved = [bar.tabText(tab) for tab in range(bar.count())]
    assert moved != first and sorted(moved) == sorted(first)
    window.close()
    page = open_in(start(), tapes[0], qtbot)
    bar = next(bar for bar in page.docks.tab_bars() if bar.isVisible())
    assert [bar.tabText(tab) for tab in range(bar.count())] == moved
