"""The export menu: what it offers follows from what is in front, and what it writes is what the command writes."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import pickletools
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QMenu, QTabBar
from pytestqt.qtbot import QtBot

from memstrata.viewer.analysis.allocator import fast
from memstrata.viewer.report import snapshot_pickle, tables_csv
from memstrata.viewer.report.exports import EXPORTS
from memstrata.viewer.report.html_compare import diffs_html
from memstrata.viewer.report.tables_csv import TABLES, table_csv
from memstrata.viewer.state.jobs import Job
from memstrata.viewer.window import Window

Asked = dict[str, str]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    """The system's own dialog cannot be driven: it answers with the name offered, in the test's folder.
    `offered` and `title` are what it was asked with."""
    asked: Asked = {}

    def answer(_parent: object, title: str, start: str, kinds: str) -> tuple[str, str]:
        asked.update(title=title, offered=start, kinds=kinds)
        name = asked.get("name") or os.path.basename(start)
        return ("" if name == "cancel" else str(tmp_path / name)), kinds.split(";;")[0]

    monkeypatch.setattr(QFileDialog, "getSaveFileName", answer)
    return asked


def entries(menu: QMenu) -> dict[str, QAction]:
    menu.aboutToShow.emit()
    found: dict[str, QAction] = {}
    for action in menu.actions():
        below = action.menu()
        if isinstance(below, QMenu):
            found |= {f"{action.text()} > {inner.text()}": inner for inner in below.actions()}
        elif action.text():
            found[action.text()] = action
    return found


@pytest.fixture
def choose(window: Window, qtbot: QtBot, answers: Asked) -> Callable[[str], str]:
    """Choose the entry that begins with these words, and wait until it is done; gives back what the window says."""

    def choose_one(words: str) -> str:
        window.message.hide()
        (entry,) = (action for text, action in entries(window.menus.export).items() if text.startswith(words))
        entry.trigger()
        qtbot.waitUntil(window.message.isVisible, timeout=20_000)
        assert not window.jobs.running
        return window.message.text.text()

    return choose_one


def test_an_open_file_is_not_written_over(
    window: Window, qtbot: QtBot, choose: Callable[[str], str], answers: Asked, samples: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.mstrata"
    shutil.copy(samples / "uniform.mstrata", own)
    before = own.read_bytes()
    window.open_paths([str(own)])
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=20_000)
    answers["name"] = "own.mstrata"
    assert choose("The whole analysis") == "own.mstrata was opened here: write to another file."
    assert own.read_bytes() == before


def test_nothing_open_is_nothing_to_export(window: Window) -> None:
    assert [(text, action.isEnabled()) for text, action in entries(window.menus.export).items()] == [
        ("Nothing is open", False)
    ]
    assert not window.actions_by_name["picture"].isEnabled()


def test_every_export_of_the_command_is_in_the_menu(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    opened(tapes[0])
    texts = " ".join(entries(window.menus.export))
    assert all(export.suffix in texts for export in EXPORTS.values())
    assert all(name.replace("_", " ").capitalize() in texts for name in TABLES)


@pytest.mark.parametrize("key", [key for key in EXPORTS if key != "csv"])
def test_an_export_is_what_the_command_writes(
    opened: Any, choose: Callable[[str], str], answers: Asked, tapes: tuple[str, str], tmp_path: Path, key: str
) -> None:
    page = opened(tapes[0])
    title, suffix = EXPORTS[key].title, EXPORTS[key].suffix
    said = choose(title[:1].upper() + title[1:])
    path = tmp_path / f"plain{suffix}"
    assert said.startswith(f"Wrote {path}, ")
    run = page.scope.run
    assert path.read_bytes() == EXPORTS[key].make(run.recording, run.name, "")
    assert not list(tmp_path.glob("*.part"))
    if key == "json":
        assert json.loads(path.read_text())
    if key == "snapshot":
        assert sum(1 for _ in pickletools.genops(path.read_bytes())) > 100


@pytest.mark.parametrize("way", ["cancel", "close"])
@pytest.mark.parametrize("title", ["The whole analysis", "A table", "A snapshot"])
def test_what_is_being_exported_can_be_called_off(
    opened: Any, window: Window, answers: Asked, snapshots: Path, tmp_path: Path, qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch, title: str, way: str,
) -> None:  # fmt: skip
    """A large file is replayed for long: the work looks up while it lasts, and nothing is written of what is left."""
    started, progress = threading.Event(), Job.progress

    def waiting(job: Job, fraction: float, stage: str) -> None:
        progress(job, fraction, stage)
        while stage.startswith("Making") and fraction > 0.1:
            started.set()
            job.check()
            time.sleep(0.002)

    opened(str(snapshots / "torch26-train-from-start.pickle"))
    for module in (fast, snapshot_pickle, tables_csv):
        monkeypatch.setattr(module, "_AT_ONCE" if module is fast else "_CHUNK", 100)
    monkeypatch.setattr(Job, "progress", waiting)
    words = "A whole table (.csv) > Allocations" if title == "A table" else title
    (entry,) = (action for text, action in entries(window.menus.export).items() if text.startswith(words))
    entry.trigger()
    qtbot.waitUntil(started.is_set, timeout=20_000)
    if way == "cancel":
        (number,) = window.jobs.running
        window.jobs.cancel(number)
    else:
        window.close()
    qtbot.waitUntil(lambda: not window.jobs.running, timeout=20_000)
    assert not list(tmp_path.iterdir())


def test_a_whole_table(opened: Any, choose: Callable[[str], str], tapes: tuple[str, str], tmp_path: Path) -> None:
    page = opened(tapes[0])
    choose("A whole table (.csv) > Saved tensors")
    assert (tmp_path / "plain-saved_tensors.csv").read_text() == table_csv(page.scope.run, "saved_tensors")


def test_the_table_in_front_keeps_its_order_and_has_exact_bytes(
    opened: Any, choose: Callable[[str], str], window: Window, tapes: tuple[str, str], tmp_path: Path
) -> None:
    page = opened(tapes[0])
    table = page.views["alive"].view
    table.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    choose("The table in front: Alive here")
    rows = table_of(tmp_path / "plain-alive-here.csv")
    sizes = [int(row["bytes"]) for row in rows]
    assert sizes == sorted(sizes) and sum(sizes) == page.scope.run.peak_bytes == 44 << 20
    assert [row["category"] for row in rows] == [table.table.index(r, 1).data() for r in range(len(rows))]


def test_a_table_in_a_file_has_times_in_seconds_and_numbers_without_commas(
    opened: Any, choose: Callable[[str], str], tapes: tuple[str, str], pair: tuple[str, str], tmp_path: Path
) -> None:
    page = opened(tapes[0])
    choose("The table in front: Alive here")
    rows, run = table_of(tmp_path / "plain-alive-here.csv"), page.scope.run
    table = page.views["alive"].view.table
    assert len(rows) == len(table.rows) and {"allocated (s)", "freed (s)"} < set(rows[0])
    for row, source in zip(rows, table.rows.tolist(), strict=True):
        start, end = int(run.allocations.start[source]), int(run.allocations.end[source])
        assert row["allocated (s)"] == ("" if run.allocations.before[source] else f"{run.time_of(start):.9f}")
        assert row["freed (s)"] == (f"{run.time_of(end):.9f}" if end <= run.n_events else "")
    assert "" in {row["freed (s)"] for row in rows} and any(row["allocated (s)"] for row in rows)
    page.bring_forward("saved")
    choose("The table in front: Saved tensors")
    assert all(float(row["kept for (s)"]) > 0 for row in table_of(tmp_path / "plain-saved-tensors.csv"))
    opened(*pair).bring_forward("runs")
    choose("The table in front: All open runs")
    (one,) = (row for row in table_of(next(tmp_path.glob("*open-runs.csv"))) if row["run"] == "before.mstrata")
    assert float(one["step (s)"]) == pytest.approx(1.231482697, abs=1e-9) and one["tokens/s"] == "1586"


def test_the_table_with_the_focus_is_in_front(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    page.views["legend"].view.setFocus()
    assert any(text.startswith("The table in front: Groups") for text in entries(window.menus.export))
    page.bring_forward("saved")
    page.views["timeline"].timeline.setFocus()
    assert any(text.startswith("The table in front: Saved tensors") for text in entries(window.menus.export))


def test_a_tab_that_is_clicked_brings_its_table_to_the_front(
    opened: Any, window: Window, snapshots: Path, qtbot: QtBot
) -> None:
    """Without a timeline the table before it had the focus, which goes to another one as it is hidden."""
    page = opened(str(snapshots / "torch22-state-second-gpu.pickle"))
    for title in ("Stacks", "Problems", "Alive here"):
        (bar,) = (bar for bar in page.findChildren(QTabBar) if bar.isVisible())
        place = next(number for number in range(bar.count()) if bar.tabText(number) == title)
        QTest.mouseClick(bar, Qt.MouseButton.LeftButton, pos=bar.tabRect(place).center())
        qtbot.wait(50)
        assert [text.partition(": ")[2] for text in entries(window.menus.export) if " in front: " in text] == [
            f"{title} (.csv)…", f"{title} (.png, .svg)…"
        ]  # fmt: skip


def test_the_stack_tree_as_it_is_unfolded(
    opened: Any, choose: Callable[[str], str], tapes: tuple[str, str], tmp_path: Path
) -> None:
    page = opened(tapes[0])
    page.views["stacks"].own_code.setChecked(False)
    page.bring_forward("stacks")
    choose("The table in front: Stacks")
    rows = table_of(tmp_path / "plain-stacks.csv")
    assert sum(int(row["bytes"]) for row in rows if row["depth"] == "0") == page.scope.run.peak_bytes
    assert max(int(row["depth"]) for row in rows) >= 1


def test_a_picture_as_png_has_twice_the_pixels(
    opened: Any, window: Window, answers: Asked, tapes: tuple[str, str], tmp_path: Path, qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    view = page.views["timeline"]
    view.timeline.setFocus()
    size = view.size()
    qtbot.keyClick(view.timeline, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
    assert answers["title"] == "Save a picture of Timeline" and window.message.isVisible()
    image = QImage(str(tmp_path / "plain-timeline.png"))
    assert (image.width(), image.height()) == (2 * size.width(), 2 * size.height())
    assert len(colours(image)) > 20


def test_a_picture_as_svg_shows_the_same(
    opened: Any, window: Window, answers: Asked, tapes: tuple[str, str], tmp_path: Path
) -> None:
    page = opened(tapes[0])
    view = page.views["timeline"]
    view.timeline.setFocus()
    grabbed = view.grab().toImage()
    answers["name"] = "picture.svg"
    window.actions_by_name["picture"].trigger()
    renderer = QSvgRenderer(str(tmp_path / "picture.svg"))
    assert renderer.isValid() and renderer.viewBox().size() == grabbed.size()
    image = QImage(grabbed.size(), QImage.Format.Format_RGB32)
    painter = QPainter(image)
    renderer.render(painter)
    painter.end()
    points = [(x, y) for x in range(5, image.width(), 11) for y in range(60, image.height() - 40, 7)]
    same = sum(near(image.pixelColor(x, y), grabbed.pixelColor(x, y)) for x, y in points)
    assert same > 0.95 * len(points)
    written = (tmp_path / "picture.svg").read_text()
    assert "<text" in written  # text stays text
    families = set(re.findall('font-family="([^"]*)"', written))
    assert families and all(family.endswith(", sans-serif") for family in families)  # what any browser has


def test_the_view_with_the_focus_is_pictured(
    opened: Any, window: Window, answers: Asked, tapes: tuple[str, str]
) -> None:
    page = opened(tapes[0])
    page.views["lanes"].tree.setFocus()
    window.actions_by_name["picture"].trigger()
    assert answers["title"] == "Save a picture of Lanes"


@pytest.mark.parametrize("floating", [False, True])
def test_a_picture_of_the_lanes_says_its_scale(
    opened: Any, window: Window, answers: Asked, tapes: tuple[str, str], tmp_path: Path, qtbot: QtBot, floating: bool
) -> None:
    page = opened(tapes[0])
    lanes, filtered = page.views["lanes"], 'in colour: matching "layer:1"; grey: the rest'
    page.scope.look(filter="layer:1")
    if floating:
        page.docks.docks["lanes"].switch_window()
        qtbot.wait(50)
    lanes.contents.setFocus()
    assert not lanes.isAncestorOf(lanes.note)
    for name in ("lanes.svg", "lanes.png"):
        answers["name"] = name
        qtbot.keyClick(lanes.contents, Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier)
        assert answers["title"] == "Save a picture of Lanes"
    words = re.findall(r"<text[^>]*>([^<]*)<", (tmp_path / "lanes.svg").read_text())
    said = html.unescape(" ".join(word.strip() for word in words))
    assert f"Activations; {lanes.note.text()}" in said and "full height" in said and filtered in said
    size = QSvgRenderer(str(tmp_path / "lanes.svg")).viewBox().size()
    assert size.width() == lanes.width() and size.height() > lanes.height()
    image = QImage(str(tmp_path / "lanes.png"))
    assert image.size() == 2 * size
    over = 2 * (size.height() - lanes.height())
    assert len({image.pixel(x, y) for x in range(image.width()) for y in range(over)}) > 10  # words, not a plain strip


def test_a_comparison_has_its_own_exports(
    opened: Any, choose: Callable[[str], str], window: Window, tapes: tuple[str, str], tmp_path: Path
) -> None:
    opened(*tapes)
    assert not any("memory_viz" in text for text in entries(window.menus.export))
    choose("The comparison as one page")
    assert (tmp_path / "plain-and-checkpointed.html").read_text() == diffs_html([window.content.page.diff])
    choose("Exact differences")
    found = json.loads((tmp_path / "plain-and-checkpointed.json").read_text())
    assert found and isinstance(found, dict)
    choose("The comparison as text")
    assert "plain.mstrata" in (tmp_path / "plain-and-checkpointed.txt").read_text()
    choose("The table in front: ")
    choose("A picture of the whole window")
    assert (tmp_path / "plain-and-checkpointed-window.png").stat().st_size > 10_000


def test_what_cannot_be_written_is_one_sentence(
    opened: Any, choose: Callable[[str], str], answers: Asked, tapes: tuple[str, str], tmp_path: Path
) -> None:
    opened(tapes[0])
    (tmp_path / "folder.txt").mkdir()
    answers["name"] = "folder.txt"
    said = choose("The report as text")
    assert said == f"{tmp_path}/folder.txt cannot be written: is a directory." and not list(tmp_path.glob("*.part"))
    answers["name"] = "nowhere/report.txt"
    assert choose("The report as text").startswith(f"{tmp_path}/nowhere/report.txt cannot be written: ")


def test_what_a_file_cannot_become_is_one_sentence(
    opened: Any, choose: Callable[[str], str], snapshots: Path, tmp_path: Path, window: Window
) -> None:
    opened(str(snapshots / "torch22-state-second-gpu.pickle"))
    assert not any("timeline as a picture" in text for text in entries(window.menus.export))
    said = choose("A timeline for Perfetto")
    assert "\n" not in said and "Traceback" not in said


def test_no_name_is_no_export(
    opened: Any, window: Window, answers: Asked, tapes: tuple[str, str], tmp_path: Path
) -> None:
    opened(tapes[0])
    answers["name"] = "cancel"
    for action in entries(window.menus.export).values():
        action.trigger()
    assert not window.jobs.running and not list(tmp_path.iterdir())


def test_the_folder_and_the_ending_are_remembered(
    opened: Any, choose: Callable[[str], str], answers: Asked, tapes: tuple[str, str], tmp_path: Path
) -> None:
    opened(tapes[0])
    answers["name"] = "mine"
    assert choose("The report as text").startswith(f"Wrote {tmp_path / 'mine.txt'}, ")
    answers["name"] = ""
    choose("Exact figures")
    assert answers["offered"] == str(tmp_path / "plain.json")


def table_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def colours(image: QImage) -> set[int]:
    return {image.pixel(x, y) for x in range(0, image.width(), 5) for y in range(0, image.height(), 5)}


def near(a: Any, b: Any) -> bool:
    return bool(abs(a.red() - b.red()) + abs(a.green() - b.green()) + abs(a.blue() - b.blue()) < 40)
