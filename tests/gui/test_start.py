"""The start page: what can be opened from it, dropped on it, and what it remembers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QListWidget, QWidget
from pytestqt.qtbot import QtBot

from memstrata.viewer.panels.compare_page import ComparePage
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.state.recent import MOST, RecentFiles, samples
from memstrata.viewer.state.settings import Settings
from memstrata.viewer.window import Window

LEFT, NO_KEYS = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier


def drop(target: QWidget, *paths: str) -> None:
    """Drag files over a widget and let them go, as the window system reports it."""
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(path) for path in paths])
    enter = QDragEnterEvent(QPoint(5, 5), Qt.DropAction.CopyAction, data, LEFT, NO_KEYS)
    QApplication.sendEvent(target, enter)
    assert enter.isAccepted()
    QApplication.sendEvent(target, QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, LEFT, NO_KEYS))


def shown(list_: QListWidget) -> list[str]:
    return [list_.item(row).text() for row in range(list_.count())]


def click_item(qtbot: QtBot, list_: QListWidget, row: int) -> None:
    place = list_.visualItemRect(list_.item(row)).center()
    qtbot.mouseClick(list_.viewport(), LEFT, pos=place)


def test_without_recent_files_there_is_no_list(window: Window) -> None:
    assert not window.start.recent.isVisible()
    assert window.start.open.isVisible() and all(button.isVisible() for button in window.start.buttons)


def test_what_was_opened_is_listed_newest_first_and_opens_again(
    window: Window, opened: Any, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    opened(tapes[0])
    opened(tapes[1])
    window.actions_by_name["close"].trigger()
    window.actions_by_name["close"].trigger()
    assert window.content.currentWidget() is window.start and window.start.recent.isVisible()
    assert shown(window.start.recent.view) == ["checkpointed.mstrata", "plain.mstrata"]
    click_item(qtbot, window.start.recent.view, 1)
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=5_000)
    assert window.session.state.runs[0].name == "plain.mstrata"
    assert shown(window.start.recent.view) == ["plain.mstrata", "checkpointed.mstrata"]


def test_a_file_that_did_not_open_is_not_listed(
    window: Window, tapes: tuple[str, str], tmp_path: Path, qtbot: QtBot
) -> None:
    (tmp_path / "bad.mstrata").write_bytes(b"no recording")
    window.open_paths([tapes[0], str(tmp_path / "bad.mstrata")])
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=5_000)
    assert [file.name for file in window.recent.files()] == ["plain.mstrata"]


def test_a_missing_file_is_grey_and_says_why(
    window: Window, tapes: tuple[str, str], tmp_path: Path, qtbot: QtBot
) -> None:
    gone, far = tmp_path / "gone.mstrata", tmp_path / "no" / "far.mstrata"
    window.recent.add([tapes[0], str(gone), str(far)])
    window.start.recent.fill()
    view = window.start.recent.view
    assert shown(view) == ["far.mstrata", "gone.mstrata", "plain.mstrata"]
    assert [bool(view.item(row).flags() & Qt.ItemFlag.ItemIsEnabled) for row in range(3)] == [False, False, True]
    assert view.item(0).toolTip().endswith("its folder is not there")
    assert view.item(1).toolTip().endswith("not there any more")
    click_item(qtbot, view, 1)
    assert not window.jobs.running


def test_delete_leaves_one_out_and_clear_all(window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window.recent.add(tapes)
    window.start.recent.fill()
    view = window.start.recent.view
    view.setCurrentRow(0)
    qtbot.keyClick(view, Qt.Key.Key_Delete)
    assert shown(view) == ["plain.mstrata"] and os.path.exists(tapes[1])
    qtbot.mouseClick(window.start.recent.clear, LEFT)
    assert window.recent.files() == [] and not window.start.recent.isVisible()


def test_the_menu_lists_them_too(window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window.menus.recent.aboutToShow.emit()
    assert [action.text() for action in window.menus.recent.actions()] == ["Nothing was opened yet"]
    window.recent.add([tapes[0], "/nowhere/gone.mstrata"])
    window.menus.recent.aboutToShow.emit()
    gone, there = window.menus.recent.actions()[:2]
    assert "gone.mstrata" in gone.text() and not gone.isEnabled()
    there.trigger()
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=5_000)


def test_the_list_keeps_each_file_once_and_not_too_many(tmp_path: Path) -> None:
    recent = RecentFiles(Settings())
    names = [str(tmp_path / f"{i}.mstrata") for i in range(MOST + 3)]
    recent.add(names)
    recent.add([names[5]])
    kept = [file.path for file in recent.files()]
    assert kept[0] == names[5] and len(kept) == len(set(kept)) == MOST
    assert recent.folder == str(tmp_path)


def test_the_keys_begin_at_the_first_button_and_come_back_to_it(
    window: Window, opened: Any, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    window.activateWindow()
    qtbot.waitUntil(window.start.open.hasFocus, timeout=5_000)
    QTest.keyClick(window.start.open, Qt.Key.Key_Tab)
    assert window.start.sample.hasFocus()
    opened(tapes[0])
    assert not window.start.open.hasFocus()
    QTest.keyClick(window, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(window.start.open.hasFocus, timeout=5_000)


def test_a_sample_opens(window: Window, qtbot: QtBot) -> None:
    found = samples()
    assert found, "the project's folder has samples"
    assert window.start.sample.isVisible()
    window.start.sample.menu().actions()[0].trigger()
    qtbot.waitUntil(lambda: isinstance(window.content.currentWidget(), ComparePage), timeout=20_000)
    assert {run.name for run in window.session.state.runs} == {os.path.basename(path) for path in found[0].paths}


def test_without_samples_there_is_no_such_button(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qapp: QApplication
) -> None:
    monkeypatch.setattr("memstrata.viewer.panels.menus.samples", lambda: samples(tmp_path))
    made = Window()
    made.show()
    assert not made.start.sample.isVisible() and made.start.open.isVisible()
    made.close()
    made.deleteLater()


def test_a_drop_is_announced_and_opens(window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(tapes[0])])
    enter = QDragEnterEvent(QPoint(50, 50), Qt.DropAction.CopyAction, data, LEFT, NO_KEYS)
    QApplication.sendEvent(window.start.drop, enter)
    assert enter.isAccepted() and window.start.drop.property("hot") is True
    QApplication.sendEvent(window, QDragLeaveEvent())
    assert window.start.drop.property("hot") is False
    drop(window.start.drop, tapes[0])
    qtbot.waitUntil(lambda: isinstance(window.content.currentWidget(), RunPage), timeout=5_000)


@pytest.mark.parametrize("place", ["timeline", "lanes", "alive", "filter"])
def test_files_can_be_dropped_anywhere_in_the_window(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot, place: str
) -> None:
    page = opened(tapes[0])
    targets = {
        "timeline": lambda: page.views["timeline"].timeline.viewport(),
        "lanes": lambda: page.views["lanes"].tree.viewport(),
        "alive": lambda: page.views["alive"].view.viewport(),
        "filter": lambda: page.filter.line,
    }
    drop(targets[place](), tapes[1])
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 2, timeout=5_000)


def test_a_run_directory_can_be_dropped(window: Window, qtbot: QtBot, samples: Path) -> None:
    drop(window, str(samples / "ranks"))
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 2, timeout=20_000)
    assert [file.name for file in window.recent.files()] == ["ranks"]


def test_text_dragged_in_is_not_taken_for_a_file(window: Window) -> None:
    data = QMimeData()
    data.setText("hello")
    enter = QDragEnterEvent(QPoint(5, 5), Qt.DropAction.CopyAction, data, LEFT, NO_KEYS)
    enter.ignore()
    QApplication.sendEvent(window, enter)
    assert not enter.isAccepted()
