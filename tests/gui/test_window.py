"""The window itself: empty, loading, refusing, dropping, closing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QImage
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QLabel, QTabBar, QTableView
from pytestqt.qtbot import QtBot

from memstrata.capture.format.schema import Action, Severity
from memstrata.viewer import window as window_module
from memstrata.viewer.look.units import bytes_text
from memstrata.viewer.panels.compare_page import ComparePage
from memstrata.viewer.panels.device_picker import DevicePicker
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.state import loading
from memstrata.viewer.state.jobs import Job
from memstrata.viewer.window import Window, write_png

from .conftest import make_all, ready


def test_an_empty_window_says_what_to_do(window: Window) -> None:
    words = " ".join(label.text() for label in window.content.empty.findChildren(QLabel))
    assert ".mstrata" in words and ".pickle" in words and "record_step" in words
    assert window.content.currentWidget() is window.content.empty
    assert window.status.text() == "Nothing is open"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "bad.pickle is empty."),
        (b"<html>", "web page"),
        (b"version https://git-lfs", "git-lfs"),
        (b"PK\x03\x04", "damaged"),
    ],
)
def test_a_bad_file_is_one_sentence_and_keeps_what_is_open(
    opened: Any, window: Window, tapes: tuple[str, str], tmp_path: Path, qtbot: QtBot, content: bytes, said: str
) -> None:
    page = opened(tapes[0])
    (tmp_path / "bad.pickle").write_bytes(content)
    window.open_paths([str(tmp_path / "bad.pickle")])
    qtbot.waitUntil(window.message.isVisible, timeout=5_000)
    assert said in window.message.text.text() and "\n" not in window.message.text.text()
    assert "Traceback" not in window.message.text.text()
    assert window.content.currentWidget() is page


def test_a_good_file_opens_beside_a_bad_one(
    window: Window, tapes: tuple[str, str], tmp_path: Path, qtbot: QtBot
) -> None:
    window.open_paths([tapes[0], str(tmp_path / "missing.mstrata")])
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=5_000)
    assert window.message.isVisible() and "missing.mstrata" in window.message.text.text()


def test_a_file_dropped_in_opens(window: Window, tapes: tuple[str, str], qtbot: QtBot) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(tapes[0])])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPoint(50, 50), Qt.DropAction.CopyAction, data, buttons, keys)
    QApplication.sendEvent(window, enter)
    assert enter.isAccepted()
    QApplication.sendEvent(window, QDropEvent(QPointF(50, 50), Qt.DropAction.CopyAction, data, buttons, keys))
    qtbot.waitUntil(lambda: isinstance(window.content.currentWidget(), RunPage), timeout=5_000)


def test_loading_shows_progress_and_can_be_cancelled(
    window: Window, tapes: tuple[str, str], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold_reading(monkeypatch)
    window.open_paths([tapes[0]])
    qtbot.waitUntil(lambda: "Reading plain.mstrata" in window.loading.text.text(), timeout=5_000)
    assert window.loading.isVisible()
    window.loading.cancel.click()
    assert not window.loading.isVisible() and not window.jobs.running
    gate.set()
    qtbot.wait(150)
    assert not window.session.state.runs


def test_an_answer_that_came_too_late_is_dropped(
    window: Window, tapes: tuple[str, str], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold_reading(monkeypatch)
    window.open_paths([tapes[0]])
    first = window.jobs.running[0]
    window.jobs.cancel(first)
    gate.set()
    window.open_paths([tapes[1]])
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=5_000)
    qtbot.wait(100)
    assert [run.name for run in window.session.state.runs] == ["checkpointed.mstrata"]


def test_closing_while_a_load_runs_leaves_no_thread(
    window: Window, tapes: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold_reading(monkeypatch)
    window.open_paths([tapes[0]])
    threading.Timer(0.2, gate.set).start()
    window.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("memstrata")]
    assert not window.session.state.runs


def test_while_a_large_snapshot_is_read_the_window_goes_on(window: Window, snapshots: Path, qtbot: QtBot) -> None:
    """How long it stands still is measured in benchmarks/opening.py; a reader that holds the interpreter's lock lets
    nothing happen between its first words and its last."""
    stages, ticks = list[str](), list[str]()
    window.jobs.progressed.connect(lambda number, part, stage: stages.append(stage))
    timer = QTimer(window, interval=0)
    timer.timeout.connect(lambda: ticks.extend(stages[-1:]))
    timer.start()
    job = window.jobs.start("reading", lambda job: loading.load([str(snapshots / "torch211-train.pickle")], job),
                            lambda answer: None, lambda sentence: None)  # fmt: skip
    qtbot.waitUntil(lambda: job not in window.jobs.running, timeout=30_000)
    timer.stop()
    assert stages.count("Reading torch211-train.pickle") > 3 and ticks.count("Reading torch211-train.pickle") > 3


def test_a_file_without_a_timeline_shows_its_blocks_and_says_so(opened: Any, snapshots: Path) -> None:
    page = opened(str(snapshots / "torch22-state-second-gpu.pickle"))
    assert "timeline" not in page.views and "lanes" not in page.views and "legend" not in page.views
    notice = [label.text() for label in page.findChildren(QLabel) if label.objectName() == "notice"]
    assert len(notice) == 1 and "no event history" in notice[0]
    table = page.views["alive"].view.table
    assert table.rowCount() > 1000
    assert (
        sum(table.index(r, 0).data(Qt.ItemDataRole.UserRole) for r in range(table.rowCount()))
        == page.scope.run.peak_bytes
    )


def test_views_a_file_cannot_have_are_absent(opened: Any, snapshots: Path) -> None:
    page = opened(str(snapshots / "torch26-attention-small.pickle"))
    assert "timeline" in page.views and "lanes" not in page.views and "saved" not in page.views
    assert page.scope.view.grouping == "frame"
    assert "host launch time" in page.views["timeline"].timeline.x_axis.labelText


def test_every_real_snapshot_opens_and_sums(opened: Any, window: Window, snapshot_file: Path) -> None:
    page = opened(str(snapshot_file))
    run = page.scope.run
    table = page.views["alive"].view.table
    assert sum(table.columns[0].keys[table.rows].tolist()) == run.peak_bytes
    window.grab()


def test_file_without_times_uses_event_order(opened: Any, snapshots: Path) -> None:
    page = opened(str(snapshots / "torch21-train-deep-stacks.pickle"))
    assert "time" not in page.scope.run.capabilities
    assert page.scope.view.axis == "events" and page.views["timeline"].axis.count() == 1


def test_controls_have_names(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    make_all(opened(*tapes))
    window.tabs.setCurrentIndex(0)
    make_all(window.content.page)
    for kind in (QComboBox, QTableView):
        assert all(w.accessibleName() for w in window.findChildren(kind))
    own = [button for button in window.findChildren(QAbstractButton) if not button.objectName().startswith("qt_")]
    of_qt = [
        button for button in own if isinstance(button.parent(), QTabBar) and not button.text()
    ]  # its scroll arrows
    assert all(button.accessibleName() or button.text() for button in own if button not in of_qt)


def test_write_png(tapes: tuple[str, str], tmp_path: Path) -> None:
    target = tmp_path / "comparison.png"
    write_png(list(tapes), str(target), (1100, 700))
    image = QImage(str(target))
    assert (image.width(), image.height()) == (1100, 700)
    colours = {image.pixel(x, y) for x in range(0, 1100, 10) for y in range(0, 700, 10)}
    assert len(colours) > 12


def test_a_file_without_anything_says_what_to_do_next(opened: Any, snapshots: Path) -> None:
    page = opened(str(snapshots / "torch25-empty.pickle"))
    said = [label.text() for label in page.findChildren(QLabel) if label.objectName() == "notice"]
    assert any("nothing to show" in text and "record a step" in text for text in said)
    assert not any("what was alive then" in text for text in said)


def test_write_png_leaves_no_window(qapp: QApplication, tapes: tuple[str, str], tmp_path: Path) -> None:
    write_png(list(tapes), str(tmp_path / "comparison.png"))
    assert not [widget for widget in qapp.topLevelWidgets() if isinstance(widget, Window)]


def test_run_refuses_an_unreadable_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert window_module.run([str(tmp_path / "notes.txt")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "notes.txt" in said


def test_run_shows_the_window_while_a_file_is_read(
    qapp: QApplication, tapes: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    gate, seen = hold_reading(monkeypatch), []

    def look() -> None:
        shown = next((w for w in qapp.topLevelWidgets() if isinstance(w, Window)), None)
        if shown is not None and shown.session.state.runs:
            seen.append(len(shown.session.state.runs))
            shown.close()
            return
        if shown is not None and shown.isVisible() and not seen:
            seen.append(shown.loading.isVisible())
            gate.set()
        QTimer.singleShot(20, look)

    QTimer.singleShot(0, look)
    assert window_module.run([tapes[0]]) == 0
    assert seen == [True, 1]
    assert not [widget for widget in qapp.topLevelWidgets() if isinstance(widget, Window)]


def test_run_shows_the_window_as_soon_as_a_file_is_read(
    qapp: QApplication, tapes: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is for what takes longer: here it would last past the end of the test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(window_module, "_PATIENCE_MS", 600_000)
    seen: list[tuple[bool, bool]] = []

    def look(left: int) -> None:
        shown = next((w for w in qapp.topLevelWidgets() if isinstance(w, Window)), None)
        if shown is not None:
            seen.append((bool(shown.session.state.runs), shown.isVisible()))
            if shown.isVisible() or not left:
                shown.show()  # where it never was: closing it ends the loop
                shown.close()
                return
        QTimer.singleShot(5, lambda: look(left - 1))

    QTimer.singleShot(0, lambda: look(2_000))
    assert window_module.run([tapes[0]]) == 0
    assert seen[-1] == (True, True)
    assert all(read or not visible for read, visible in seen)
    assert not [widget for widget in qapp.topLevelWidgets() if isinstance(widget, Window)]


def hold_reading(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The next file is read only once the event is set."""
    gate, real = threading.Event(), loading.open_run

    def slow(path: str, *rest: Any) -> Any:
        gate.wait(10)
        return real(path, *rest)

    monkeypatch.setattr(loading, "open_run", slow)
    return gate


def test_jobs_say_what_went_wrong(window: Window, qtbot: QtBot) -> None:
    said: list[str] = []

    def fails(job: Job) -> None:
        job.progress(0.5, "half")
        raise KeyError("x")

    window.jobs.start("Counting", fails, lambda answer: None, said.append)
    qtbot.waitUntil(lambda: bool(said))
    assert said == ["Counting: KeyError: 'x'"]


def test_every_device_of_a_file_is_on_offer(opened: Any, window: Window, snapshots: Path) -> None:
    page = opened(str(snapshots / "torch28-oom-three-gpus-expandable.pickle"))
    picker = page.answer.findChild(DevicePicker)
    run = page.scope.run
    assert picker.count() == 3 and picker.currentText() == f"{run.device.name}, peak {bytes_text(run.peak_bytes)}"
    assert run.peak_bytes == max(run.on(row).peak_bytes for row in range(3))
    picker.activated.emit(2)
    other = window.session.state.runs[0]
    assert other.device_row == 2 and window.content.currentWidget() is not page
    window.undo_action.trigger()
    assert window.session.state.runs == (run,)


def test_another_device_keeps_the_filter_and_takes_its_place_in_the_comparison(
    opened: Any, window: Window, snapshots: Path, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(str(snapshots / "torch28-oom-three-gpus-expandable.pickle"), *tapes)
    assert isinstance(page, ComparePage) and window.session.state.pair is not None
    assert page.answer.lines[0].text.startswith("Peak 78.3 GiB to 44.0 MiB")
    window.tabs.setCurrentIndex(0)
    run = window.content.page
    assert isinstance(run, RunPage)
    ready(run, qtbot)
    run.scope.look(filter=">1GiB")
    picker = run.answer.findChild(DevicePicker)
    picker.setFocus()
    qtbot.keyClick(picker, Qt.Key.Key_Down)
    state = window.session.state
    assert state.runs[0].device.name == "cuda:2" and state.views[0].filter == ">1GiB"
    assert state.compared == (state.runs[0], state.runs[1])
    window.tabs.setCurrentIndex(3)
    page = window.content.page
    assert isinstance(page, ComparePage)
    ready(page, qtbot)
    assert page.answer.lines[0].text.startswith("Peak 20.1 GiB to 44.0 MiB")


def test_an_out_of_memory_event_is_marked_and_not_added(opened: Any, snapshots: Path) -> None:
    page = opened(str(snapshots / "torch28-oom-three-gpus-expandable.pickle"))
    run, timeline = page.scope.run, page.views["timeline"].timeline
    ((position, size),) = timeline.failed
    assert run.events.action[position - 1] == Action.oom and size == run.events.bytes[position - 1]
    assert timeline.marks_item.marks.failed == ((float(page.scope.axis.x_of(position)), size),)
    assert run.curve[position] == run.curve[position - 1]


def test_what_makes_a_picture_doubtful_stands_over_it(opened: Any, window: Window, snapshots: Path) -> None:
    page = opened(str(snapshots / "synthetic-inconsistent.pickle"))
    grave = [p.text for p in page.scope.run.problems if p.severity >= Severity.warning]
    assert grave and page.warnings.isVisible() and all(text in page.warnings.text() for text in grave)
    assert f"{len(grave)} problem" in window.status.text()
