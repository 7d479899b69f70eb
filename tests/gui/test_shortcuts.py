"""Keys, their list, copying, names for those who do not see the window, exact figures on hover."""

from __future__ import annotations

import cProfile
import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtGui import QAction, QContextMenuEvent, QGuiApplication, QKeySequence
from PySide6.QtOpenGLWidgets import QOpenGLWidget
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QLineEdit,
    QMenu,
    QMenuBar,
    QScrollBar,
    QTabBar,
    QTableView,
    QTreeView,
    QWidget,
)
from pytestqt.qtbot import QtBot

from memstrata.viewer.charts import keys, pair_keys
from memstrata.viewer.panels.copying import shown_columns, shown_rows, view_csv
from memstrata.viewer.panels.dry_run_dialog import DryRunDialog
from memstrata.viewer.panels.record_dialog import RecordDialog
from memstrata.viewer.panels.shortcuts_dialog import ShortcutsDialog, keys_text
from memstrata.viewer.state.shortcuts import CHART, GESTURES, OTHERS, SHORTCUTS, STEP, TABLE
from memstrata.viewer.window import Window

from .conftest import make_all, worked

CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
BYTES = re.compile(r"[+-]?[\d.,]+ (B|KiB|MiB|GiB|TiB)")


def listed(window: Window) -> ShortcutsDialog | None:
    found = [dialog for dialog in window.findChildren(ShortcutsDialog) if dialog.isVisible()]
    return found[0] if found else None


def test_a_narrow_list_of_keys_is_one_column(window: Window, qtbot: QtBot) -> None:
    window.resize(900, 560)
    dialog = ShortcutsDialog(window)
    dialog.show()
    shown = lambda: [bar.isVisible() for bar in (dialog.area.horizontalScrollBar(), dialog.area.verticalScrollBar())]
    qtbot.waitUntil(lambda: shown() == [False, True])
    dialog.resize(1300, 900)
    qtbot.waitUntil(lambda: shown() == [False, False])
    dialog.close()
    dialog.deleteLater()


@pytest.mark.parametrize("key", ["?", Qt.Key.Key_F1])
def test_a_key_shows_the_list(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot, key: Any) -> None:
    page = opened(tapes[0])
    page.views["timeline"].timeline.setFocus()
    qtbot.keyClick(page.views["timeline"].timeline, key)
    dialog = listed(window)
    assert dialog is not None
    words = [label.text() for label in dialog.findChildren(QLabel)]
    for shortcut in SHORTCUTS.values():
        assert shortcut.text in words and keys_text(shortcut.keys) in words
    for gesture, text in (line for lines in GESTURES.values() for line in lines):
        assert gesture in words and text in words
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert listed(window) is None


def test_a_question_mark_can_be_typed(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    line = opened(tapes[0]).findChildren(QLineEdit)[0]
    line.setFocus()
    qtbot.keyClicks(line, "?")
    assert line.text() == "?" and listed(window) is None
    line.clear()


def test_the_menus_take_their_keys_from_the_table(window: Window) -> None:
    for name, action in window.actions_by_name.items():
        wanted = SHORTCUTS[name].keys if name in SHORTCUTS else ()
        assert [key.toString() for key in action.shortcuts()] == [QKeySequence(key).toString() for key in wanted]
    in_menus = {name for name in SHORTCUTS if name in window.actions_by_name}
    elsewhere = {name for name, shortcut in SHORTCUTS.items() if shortcut.section in (CHART, STEP, OTHERS, TABLE)}
    assert in_menus | elsewhere == set(SHORTCUTS) and not in_menus & elsewhere


def test_no_key_does_two_things() -> None:
    every = [key for shortcut in SHORTCUTS.values() for key in shortcut.keys]
    assert len(every) == len(set(every))


def test_every_key_of_the_chart_is_in_the_table_and_the_other_way_round() -> None:
    in_table = {QKeySequence(key)[0] for s in SHORTCUTS.values() if s.section in (CHART, STEP) for key in s.keys}
    plain = {combination.key() for combination in in_table if combination.keyboardModifiers() == Qt.KeyboardModifier(0)}
    shifted = {combination.key() for combination in in_table if combination.keyboardModifiers() == SHIFT}
    assert plain == set(keys._KEYS)
    assert shifted == set(keys._PAGES)
    near = {QKeySequence(key)[0] for s in SHORTCUTS.values() if s.section == CHART for key in s.keys}
    assert {combination.key() for combination in near} == keys.NEAR


def test_the_keys_of_the_curves_are_those_of_the_timeline() -> None:
    of_curves = {*pair_keys._STEPS, *pair_keys._ZOOMS, *pair_keys._PANS, *pair_keys._ACTS}
    local_peaks_and_mark = {Qt.Key.Key_Comma, Qt.Key.Key_Period, Qt.Key.Key_M}
    assert of_curves == set(keys._KEYS) - local_peaks_and_mark


def test_f_leads_to_the_filter_and_escape_back(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    page.views["timeline"].timeline.setFocus()
    qtbot.keyClick(page.views["timeline"].timeline, Qt.Key.Key_F)
    assert page.filter.line.hasFocus() and page.filter.line.text() == ""
    qtbot.keyClicks(page.filter.line, "layer:1 f")
    assert page.filter.line.text() == "layer:1 f"
    qtbot.keyClick(page.filter.line, Qt.Key.Key_Escape)
    assert page.filter.line.text() == "" and page.views["timeline"].timeline.hasFocus()


def test_keys_of_the_window(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    opened(*tapes)
    titles = lambda: window.tabs.tabText(window.tabs.currentIndex())
    assert titles() == "Compare"
    qtbot.keyClick(window, Qt.Key.Key_Tab, CONTROL)
    assert titles() == "plain.mstrata"
    qtbot.keyClick(window, Qt.Key.Key_PageDown, CONTROL)
    assert titles() == "checkpointed.mstrata"
    qtbot.wait(800)  # moves in quick succession are one step
    qtbot.keyClick(window, Qt.Key.Key_PageUp, CONTROL)
    assert titles() == "plain.mstrata"
    qtbot.keyClick(window, Qt.Key.Key_Z, CONTROL)
    assert titles() == "checkpointed.mstrata"
    qtbot.keyClick(window, Qt.Key.Key_Y, CONTROL)
    assert titles() == "plain.mstrata"
    qtbot.keyClick(window, Qt.Key.Key_PageDown, CONTROL)
    qtbot.keyClick(window, Qt.Key.Key_W, CONTROL)
    assert [run.name for run in window.session.state.runs] == ["plain.mstrata"]
    qtbot.keyClick(window, Qt.Key.Key_W, CONTROL)
    assert not window.session.state.runs and not window.actions_by_name["close"].isEnabled()


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def test_selected_rows_are_copied(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    view = opened(tapes[0]).views["alive"].view
    view.setFocus()
    place = view.visualRect(view.table.index(1, 1)).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.keyClick(view, Qt.Key.Key_Down, SHIFT)
    qtbot.keyClick(view, Qt.Key.Key_C, CONTROL)
    lines = [line.split("\t") for line in clipboard().splitlines()]
    assert lines == [[view.table.index(row, c).data() for c in range(view.table.columnCount())] for row in (1, 2)]


def test_many_rows_are_copied_in_a_job(opened: Any, window: Window, samples: Path, qtbot: QtBot) -> None:
    view = opened(str(samples / "before.mstrata")).views["alive"].view
    QGuiApplication.clipboard().clear()
    view.show_columns(view.table.columns)  # all that was ever allocated
    view.table.sort(0, Qt.SortOrder.DescendingOrder)
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_A, CONTROL)
    qtbot.keyClick(view, Qt.Key.Key_C, CONTROL)
    assert window.jobs.running and not clipboard()
    qtbot.waitUntil(lambda: not window.jobs.running)
    across = shown_columns(view)
    shown = ["\t".join(str(index.siblingAtColumn(c).data()) for c in across) for index in shown_rows(view)]
    assert len(across) >= 5 and len(shown) > 3000 and clipboard().split("\n") == shown
    _entry(view, "Copy table as CSV").trigger()
    qtbot.waitUntil(lambda: not window.jobs.running)
    assert clipboard() == view_csv(view)


def test_a_table_with_all_rows_selected_is_painted_without_asking_for_each(
    opened: Any, samples: Path, qtbot: QtBot
) -> None:
    view = opened(str(samples / "before.mstrata")).views["alive"].view
    view.show_columns(view.table.columns)
    with cProfile.Profile() as calls:
        qtbot.keyClick(view, Qt.Key.Key_A, CONTROL)
        view.grab()
    asked = {entry.code.co_name: entry.callcount for entry in calls.getstats() if hasattr(entry.code, "co_name")}
    assert len(view.table.rows) > 3000 and 0 < asked["rowCount"] < 1000


def test_a_tree_is_copied_with_its_depth(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    tree = page.views["lanes"].tree
    tree.expand(tree.model().index(0, 0))
    _entry(tree, "Copy table as CSV").trigger()
    rows = list(csv.reader(io.StringIO(clipboard())))
    assert rows[0][0] == "depth" and [row[0] for row in rows[1:4]] == ["0", "1", "1"]
    assert all(cell.isdecimal() for row in rows[1:3] for cell in row[2:3])


def test_every_table_can_be_copied_from(opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    """By the menu of the right button; the CSV has one line for each row shown and the exact number of each cell."""
    for page in (opened(tapes[0]), opened(tapes[1])):
        make_all(page)
        for view in [*page.findChildren(QTableView), *page.findChildren(QTreeView)]:
            _show(page, view)
            rows = list(shown_rows(view))
            if not rows:
                continue
            view.setCurrentIndex(rows[0])
            menu = _menu(view)
            assert [a.isEnabled() for a in menu.actions()] == [True, True], (view.accessibleName(), page, view.parent())
            menu.actions()[1].trigger()
            menu.close()
            qtbot.waitUntil(lambda: not window.jobs.running)
            lines = list(csv.reader(io.StringIO(clipboard())))
            assert len(lines) == len(rows) + 1, view.accessibleName()
            offset = len(lines[0]) - len(shown_columns(view))
            for index, line in zip(rows, lines[1:]):
                for place, column in enumerate(shown_columns(view)):
                    hover = index.siblingAtColumn(column).data(Qt.ItemDataRole.ToolTipRole)
                    if isinstance(hover, str) and re.fullmatch(r"-?[\d,]+ bytes?", hover) and line[place + offset]:
                        assert line[place + offset] == hover.split()[0].replace(",", "")


def _show(page: Any, view: QWidget) -> None:
    for key, dock in page.docks.docks.items():
        if dock.isAncestorOf(view):
            page.bring_forward(key)


def _menu(view: QTableView | QTreeView) -> QMenu:
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, QPoint(5, 5), view.mapToGlobal(QPoint(5, 5)))
    QApplication.sendEvent(view.viewport(), event)
    (menu,) = (menu for menu in view.findChildren(QMenu) if menu.isVisible())
    return menu


def _entry(view: QTableView | QTreeView, text: str) -> QAction:
    return next(action for action in view.actions() if action.text() == text)


def test_rounded_bytes_are_exact_on_hover_everywhere(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    checked = 0
    for page in (opened(tapes[0]), opened(*tapes)):
        make_all(page)
        for view in [*page.findChildren(QTableView), *page.findChildren(QTreeView)]:
            _show(page, view)
            if hasattr(view, "work"):
                worked(view, qtbot)
            for index in list(shown_rows(view))[:40]:
                checked += _check_hover(view, index)
    assert checked > 60


def _check_hover(view: QTableView | QTreeView, index: QModelIndex) -> int:
    checked = 0
    for column in shown_columns(view):
        cell = index.siblingAtColumn(column)
        if BYTES.fullmatch(str(cell.data())):
            hover = cell.data(Qt.ItemDataRole.ToolTipRole)
            assert re.search(r"[\d,]+ bytes?\b", str(hover)), f"{view.accessibleName()}: {cell.data()} says {hover!r}"
            checked += 1
    return checked


def nameless(top: QWidget) -> list[str]:
    """Controls that take the focus and say nothing of themselves."""
    found = []
    for widget in top.findChildren(QWidget):
        if widget.window().windowType() == Qt.WindowType.Popup:
            continue  # the list of a combo box
        of_qt = widget.objectName().startswith("qt_") or isinstance(widget, QScrollBar | QMenuBar | QMenu | QLabel)
        if of_qt or widget.focusPolicy() == Qt.FocusPolicy.NoFocus or widget.focusProxy() is not None:
            continue
        if isinstance(widget, QAbstractButton) and isinstance(widget.parent(), QTabBar) and not widget.text():
            continue  # its arrows
        text = widget.text() if isinstance(widget, QAbstractButton) else ""
        if isinstance(widget, QTabBar):
            text = widget.accessibleName() or widget.tabText(0)
        if not widget.accessibleName() and not text:
            found.append(f"{type(widget).__name__} {widget.objectName()} in {type(widget.parent()).__name__}")
    return found


def test_every_control_has_a_name(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    assert nameless(window) == []
    opened(*tapes)
    for tab in range(3):
        window.tabs.setCurrentIndex(tab)
        make_all(window.content.page)
    window.show_dialog(RecordDialog)
    window.show_dialog(DryRunDialog)
    window.actions_by_name["shortcuts"].trigger()
    found = nameless(window)
    assert found == []


def test_the_window_needs_no_opengl(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    opened(*tapes)
    window.tabs.setCurrentIndex(0)
    make_all(window.content.page)
    assert window.findChildren(QOpenGLWidget) == []
