"""What the window remembers: in a file of its own, whatever state that file is in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QRect, QSize, Qt, QTimer
from PySide6.QtGui import QAction, QPalette
from PySide6.QtWidgets import QApplication, QTabBar
from pytestqt.qtbot import QtBot

from memstrata.viewer.panels.place import put_back, remember
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.state.settings import Settings, settings_path
from memstrata.viewer.window import Window, run

from .conftest import ready

Start = Callable[[], Window]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Where the settings of a test lie."""
    return str(tmp_path / "config" / "settings.ini")


@pytest.fixture
def start(qapp: QApplication, nothing_left: None, file: str) -> Iterator[Start]:
    """Start the program's window with these settings, any number of times; all are closed at the end."""
    made: list[Window] = []

    def start_one() -> Window:
        window = Window(Settings(file))
        window.resize(1400, 900)
        window.show()
        made.append(window)
        return window

    yield start_one
    for window in made:
        window.close()
        window.deleteLater()


def open_in(window: Window, path: str, qtbot: QtBot) -> RunPage:
    before = len(window.session.state.runs)
    window.open_paths([path])
    qtbot.waitUntil(lambda: len(window.session.state.runs) > before, timeout=20_000)
    qtbot.waitUntil(lambda: isinstance(window.content.page, RunPage), timeout=10_000)  # shown in a step of its own
    page = window.content.page
    assert isinstance(page, RunPage)
    ready(page, qtbot)
    qtbot.wait(30)
    return page


def view_entries(window: Window) -> dict[str, QAction]:
    window.menus.view.aboutToShow.emit()
    return {action.text()[3:]: action for action in window.menus.view.actions() if action.isCheckable()}


def test_the_file_lies_in_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings_path().endswith("memstrata/settings.ini")


def test_values_of_every_kind_come_back(file: str) -> None:
    first = Settings(file)
    first.set("a/text", "light, dark; 100%")
    first.set("a/texts", ["one"])
    first.set("a/none", [])
    first.set("numbers", [1, -2])
    first.set("sizes", {"x": 3})
    first.save()
    second = Settings(file)
    assert second.text("a/text") == "light, dark; 100%" and second.texts("a/texts") == ("one",)
    assert second.texts("a/none") == () and second.numbers("numbers") == (1, -2) and second.sizes("sizes") == {"x": 3}
    second.forget("a")
    assert second.texts("a/texts") == () and second.numbers("numbers") == (1, -2)


@pytest.mark.parametrize("value", ['"text"', "[1, null]", '{"x": -1}', "{", "nan", "@Invalid()", "\\x0\\xff"])
def test_a_damaged_value_counts_as_absent(file: str, value: str) -> None:
    Path(file).parent.mkdir()
    Path(file).write_text(f"[General]\nv={value}\n")
    settings = Settings(file)
    assert settings.texts("v") == () and settings.sizes("v") == {}
    assert set(settings.numbers("v")) <= {1} and settings.text("v") in ("", "text")


@pytest.mark.parametrize(
    "content", [b"\x00\xff\xfe rubbish \n[[[", b"no settings at all\n=\n", b"", b"[layout\nhidden=1"]
)
def test_a_broken_file_is_begun_anew(start: Start, file: str, content: bytes) -> None:
    Path(file).parent.mkdir()
    Path(file).write_bytes(content)
    window = start()
    assert window.arrangement.hidden == frozenset() and not window.start.recent.isVisible()
    window.arrangement.show_view("legend", False)
    window.close()
    assert Settings(file).texts("layout/hidden") == ("legend",)
    assert b"rubbish" not in Path(file).read_bytes() and b"no settings" not in Path(file).read_bytes()


def test_a_file_that_cannot_be_written_changes_nothing_else(
    tmp_path: Path, qapp: QApplication, nothing_left: None
) -> None:
    (tmp_path / "config").write_text("a file where the folder should be")
    window = Window(Settings(str(tmp_path / "config" / "settings.ini")))
    window.show()
    window.arrangement.show_view("legend", False)
    window.close()
    window.deleteLater()
    assert (tmp_path / "config").read_text() == "a file where the folder should be"


def test_hidden_views_stay_hidden_until_they_are_shown(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    entries = view_entries(window)
    assert list(entries)[:2] == ["Groups", "Lanes"] and all(entry.isChecked() for entry in entries.values())
    assert "Timeline" not in entries
    for title in ("Groups", "Lanes", "Saved tensors", "Stack of the selection"):
        view_entries(window)[title].trigger()
    assert not any(page.views[key].isVisible() for key in ("legend", "lanes", "stack"))
    assert not {"saved", "stack"} & set(page.docks.tabs())
    assert page.views["timeline"].isVisible() and page.views["alive"].isVisible()
    window.close()

    window = start()
    page = open_in(window, tapes[1], qtbot)
    unchecked = {title for title, entry in view_entries(window).items() if not entry.isChecked()}
    assert unchecked == {"Groups", "Lanes", "Saved tensors", "Stack of the selection"}
    assert not {"legend", "lanes", "stack", "saved"} & set(page.views.made)
    view_entries(window)["Lanes"].trigger()
    qtbot.waitUntil(lambda: page.views["lanes"].height() > 10, timeout=2_000)
    view_entries(window)["Saved tensors"].trigger()
    assert page.docks.front == "saved" and page.views["saved"].isVisible()


def test_all_docks_can_be_hidden(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    titles = page.docks.tabs()
    for title in titles.values():
        view_entries(window)[title].trigger()
    assert not page.docks.tabs() and page.docks.front == ""
    qtbot.waitUntil(lambda: page.docks.centralWidget().size() == page.docks.size(), timeout=2_000)
    assert page.filter.isVisible()
    view_entries(window)["Findings"].trigger()
    assert list(page.docks.tabs()) == ["findings"] and page.views["findings"].isVisible()


def test_a_number_that_leads_to_a_hidden_table_shows_it(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    view_entries(window)["Alive here"].trigger()
    assert "alive" not in page.docks.tabs()
    page.answer.labels[0].linkActivated.emit(_first_link(page))
    assert page.docks.front == "alive" and view_entries(window)["Alive here"].isChecked()


def _first_link(page: RunPage) -> str:
    parts = page.answer.lines[0].parts
    return f"0/{next(place for place, part in enumerate(parts) if part.query is not None)}"


def test_the_tab_in_front_is_remembered(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    bar, tab = tab_of(page, "Saved tensors")
    qtbot.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(tab).center())
    assert page.docks.front == "saved"
    qtbot.wait(30)
    window.close()
    page = open_in(start(), tapes[1], qtbot)
    assert page.docks.front == "saved" and page.views["saved"].isVisible()


def tab_of(page: RunPage, title: str) -> tuple[QTabBar, int]:
    """The bar that has a tab of this title, and its number."""
    return next((bar, i) for bar in page.docks.tab_bars() for i in range(bar.count()) if bar.tabText(i) == title)


def drag(qtbot: QtBot, page: RunPage, key: str, edge: str, across: int, down: int) -> None:
    """Drag the line that lies after a dock, on its right or below it, as the user does."""
    place = page.docks.docks[key].geometry()
    start = QPoint(place.right() + 2, place.center().y()) if edge == "right" else place.center()
    start = start if edge == "right" else QPoint(start.x(), place.bottom() + 2)
    qtbot.mouseMove(page.docks, start)
    qtbot.mousePress(page.docks, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(page.docks, start + QPoint(across, down))
    qtbot.wait(20)
    qtbot.mouseRelease(page.docks, Qt.MouseButton.LeftButton, pos=start + QPoint(across, down))
    qtbot.wait(30)


def sizes(page: RunPage) -> tuple[int, int, int]:
    """Width of the groups, height of the lanes and of the tables, in pixels."""
    docks = page.docks.docks
    return docks["legend"].width(), docks["lanes"].height(), docks["alive"].height()


def test_the_sizes_of_parts_are_remembered_and_reset(start: Start, tapes: tuple[str, str], qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    first = sizes(page)
    drag(qtbot, page, "legend", "right", 90, 0)
    drag(qtbot, page, "lanes", "bottom", 0, -40)
    moved = sizes(page)
    assert moved[0] > first[0] + 50 and moved[1] < first[1] - 20 and moved[2] > first[2] + 20
    window.close()

    window = start()
    page = open_in(window, tapes[0], qtbot)
    assert sizes(page) == pytest.approx(moved, abs=3)
    view_entries(window)["Groups"].trigger()
    window.actions_by_name["reset"].trigger()
    qtbot.waitUntil(lambda: page.views["legend"].isVisible() and sizes(page) == pytest.approx(first, abs=3))
    window.close()
    page = open_in(start(), tapes[0], qtbot)
    assert sizes(page) == pytest.approx(first, abs=3)


def test_lanes_stay_under_the_plot_where_the_arrangement_was_put_back(
    start: Start, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    window = start()
    drag(qtbot, open_in(window, tapes[0], qtbot), "legend", "right", 90, 0)
    window.close()
    page = open_in(start(), tapes[0], qtbot)
    timeline, tree = page.views["timeline"].timeline, page.views["lanes"].tree
    left = timeline.viewport().mapToGlobal(QPoint(timeline.plot_span[0], 0)).x()
    assert tree.viewport().mapToGlobal(QPoint(tree.span[0], 0)).x() == left


def test_the_window_comes_back_where_it_stood(start: Start, qapp: QApplication) -> None:
    window = start()
    room = window.screen().availableGeometry()
    place = QRect(QPoint(room.left(), room.top() + 40), window.minimumSize() + QSize(4, 10))
    window.setGeometry(place)
    window.close()
    again = start()
    assert put_back(again, again.settings)
    assert again.geometry() == place


def test_a_place_remembered_smaller_than_the_window_can_be(start: Start, qapp: QApplication) -> None:
    window = start()
    room = window.screen().availableGeometry()
    window.settings.set("window/place", [room.left(), room.top() + 40, 300, 200])
    assert put_back(window, window.settings) and window.size() == window.minimumSize()
    window.settings.set("window/place", [room.right() - 299, room.top() + 40, 300, 200])
    assert not put_back(window, window.settings)  # it would hang over the edge


@pytest.mark.parametrize("place", [(-2000, 40, 800, 600), (0, 0, 99_999, 600), (10, 5_000, 800, 600), (1, 2, 3)])
def test_a_place_that_no_screen_has_is_forgotten(start: Start, place: tuple[int, ...]) -> None:
    window = start()
    before = window.geometry()
    window.settings.set("window/place", place)
    assert not put_back(window, window.settings)
    assert window.geometry() == before


def test_a_maximized_window_keeps_its_own_size_beside(start: Start, qapp: QApplication) -> None:
    window, own = start(), QRect(0, 30, 790, 570)
    window.setGeometry(own)
    window.showMaximized()
    remember(window, window.settings)
    again = start()
    again.hide()
    assert put_back(again, window.settings)
    assert again.isMaximized() and not again.isVisible()  # it is shown once there is something to see
    again.show()
    assert again.isMaximized() and again.width() >= own.width()
    again.showNormal()
    assert again.size() == own.size()


def test_the_theme_is_chosen_and_remembered(
    start: Start, qapp: QApplication, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    window = start()
    page = open_in(window, tapes[0], qtbot)
    themes = {action.text(): action for action in window.menus.themes.actions()}
    assert themes["As the system"].isChecked()
    themes["Dark"].trigger()
    qapp.processEvents()
    assert window.watch.theme.dark and page.views["timeline"].timeline.backgroundBrush().color().lightness() < 60
    window.close()
    again = start()
    assert again.watch.theme.dark
    assert [action.text() for action in again.menus.themes.actions() if action.isChecked()] == ["Dark"]
    again.choose_theme("light")
    qapp.processEvents()
    assert not again.watch.theme.dark
    again.choose_theme("system")
    qapp.processEvents()
    assert qapp.palette().color(QPalette.ColorRole.Window).lightness() > 128


def test_the_command_uses_the_users_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tapes: tuple[str, str], qapp: QApplication, nothing_left: None
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    seen: list[list[str]] = []

    def close_when_open() -> None:
        window = next((w for w in qapp.topLevelWidgets() if isinstance(w, Window) and w.isVisible()), None)
        if window is None or window.jobs.running:
            QTimer.singleShot(50, close_when_open)
            return
        seen.append([file.name for file in window.recent.files()])
        window.close()

    for paths in ([tapes[0]], []):
        QTimer.singleShot(50, close_when_open)
        assert run(paths) == 0
    assert seen == [["plain.mstrata"], ["plain.mstrata"]]
    assert (tmp_path / "memstrata" / "settings.ini").is_file()


def test_a_window_without_a_file_keeps_nothing(qapp: QApplication, window: Window, file: str) -> None:
    window.arrangement.show_view("legend", False)
    assert window.arrangement.hidden == {"legend"}
    assert not Path(file).exists() and is_in_memory(window.settings)


def is_in_memory(settings: Any) -> bool:
    return settings._file is None
