"""The end of the program, in the middle of anything: nothing is left, and what stood open is open again."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QRect, Qt, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from memstrata.viewer import window as window_module
from memstrata.viewer.state.settings import Settings, settings_path
from memstrata.viewer.state.view_state import COMPARE
from memstrata.viewer.window import Window

from .conftest import ready, settle
from .test_settings import open_in
from .test_start import drop
from .test_window import hold_reading

LARGE = "torch211-train.pickle"
EXIT = """
import sys, time
from PySide6.QtCore import QTimer
from memstrata.viewer.window import Window, application

def wait(until):
    while not until():
        app.processEvents()
        time.sleep(0.002)

def endless(job):
    while True:
        job.progress(0.5, "on and on")
        time.sleep(0.005)

app, window = application(), Window()
window.show()
window.open_paths([sys.argv[2]])
wait(lambda: window.content.page is not None and window.content.page.stages.is_done)
page = window.content.page
page.scope.ahead.start("Waiting", endless, print, print)
page.bring_forward("allocator").work.begin("Waiting", endless, print)
page.scope.what_if.prepare()
window.open_paths([sys.argv[2]])
if sys.argv[1] == "exit":
    sys.exit(0)
if sys.argv[1] == "left":
    QTimer.singleShot(20, lambda: app.exit(0))
    app.exec()
"""


@pytest.mark.parametrize("how", ["end", "exit", "left"])
def test_a_process_that_ends_with_its_window_open_says_nothing(how: str, tapes: tuple[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", EXIT, how, tapes[0]], capture_output=True, text=True, timeout=120)
    said = [line for line in done.stderr.splitlines() if not line.startswith("This plugin does not support")]
    assert (done.returncode, said, done.stdout) == (0, [], "")


FLOATING = """
import sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from memstrata.viewer import window as module

def look():
    found = [w for w in QApplication.topLevelWidgets() if isinstance(w, module.Window)]
    page = found[0].content.page if found else None
    if page is None or not page.stages.is_done or not page.isVisible():
        QTimer.singleShot(20, look)
    elif not page.docks.docks["stacks"].isFloating():
        page.docks.move_to("stacks", "window")
        page.docks.docks["stacks"].setGeometry(120, 140, 500, 300)
        QTimer.singleShot(300, look)
    else:
        print(page.docks.docks["stacks"].isVisible())
        getattr(QApplication, sys.argv[1])()

module.application()
QTimer.singleShot(0, look)
sys.exit(module.run([sys.argv[2]]))
"""


@pytest.mark.parametrize("how", ["quit", "closeAllWindows"])
def test_a_floating_dock_that_the_end_closes_is_there_again(
    how: str,
    qapp: QApplication,
    window: Window,
    tapes: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    command = [sys.executable, "-c", FLOATING, how, tapes[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert Settings(settings_path()).texts("layout/hidden") == ()

    again = Window(Settings(settings_path()))
    again.show()
    page = open_in(again, tapes[0], qtbot)
    dock = page.docks.docks["stacks"]
    qtbot.waitUntil(lambda: dock.isFloating() and dock.isVisible(), timeout=5_000)
    assert dock.isFloating() and dock.isVisible() and page.views["stacks"].isVisible()
    if qapp.platformName() == "offscreen":  # elsewhere there is a frame, and nobody who puts it round
        assert dock.geometry() == QRect(120, 140, 500, 300)
    again.close()
    again.deleteLater()


def test_a_floating_dock_that_its_user_closes_stays_closed(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    page.docks.move_to("stacks", "window")
    page.docks.docks["stacks"].close()
    assert not page.docks.docks["stacks"].isVisible()
    qtbot.waitUntil(lambda: window.arrangement.hidden == {"stacks"}, timeout=2_000)
    assert not page.docks.docks["stacks"].isVisible()


def no_thread() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("memstrata")]


def test_the_window_is_closed_while_its_first_file_is_read(
    qapp: QApplication, snapshots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(window_module, "_PATIENCE_MS", 0)
    seen: list[tuple[bool, int]] = []
    left = iter(range(5_000))

    def look() -> None:
        shown = next((w for w in qapp.topLevelWidgets() if isinstance(w, Window) and w.isVisible()), None)
        if shown is None:
            if next(left, None) is None:
                qapp.exit(9)  # a window that never comes must not keep the test for ever
            else:
                QTimer.singleShot(2, look)
            return
        seen.append((shown.loading.isVisible(), len(shown.session.state.runs)))
        shown.close()

    QTimer.singleShot(0, look)
    assert window_module.run([str(snapshots / LARGE)] * 4) == 0
    assert seen == [(True, 0)] and no_thread()
    assert "Traceback" not in capfd.readouterr().err


def test_of_several_files_one_that_is_bad_refuses_all(
    qapp: QApplication,
    tapes: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "notes.txt").write_text("hello")
    assert window_module.run([tapes[0], str(tmp_path / "notes.txt"), tapes[1]]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "notes.txt" in said and no_thread()


def drop_while_reading(
    window: Window, tapes: tuple[str, str], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> threading.Event:
    """Drop the second file while the first is being read, which goes on once the event is set."""
    gate = hold_reading(monkeypatch)
    window.open_paths([tapes[0]])
    qtbot.waitUntil(lambda: "Reading plain.mstrata" in window.loading.text.text(), timeout=5_000)
    monkeypatch.undo()
    drop(window, tapes[1])
    return gate


def test_a_file_dropped_while_another_is_read_opens_beside_it(
    window: Window, tapes: tuple[str, str], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = drop_while_reading(window, tapes, qtbot, monkeypatch)
    assert len(window.jobs.running) == 2
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 1, timeout=20_000)
    assert [run.name for run in window.session.state.runs] == ["checkpointed.mstrata"]
    assert window.loading.isVisible() and "plain.mstrata" in window.loading.text.text()  # that one goes on
    gate.set()
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 2, timeout=20_000)
    assert not window.loading.isVisible() and window.session.state.page == COMPARE
    page = window.content.page
    assert page is not None
    ready(page, qtbot)


def test_what_is_read_can_still_be_cancelled_when_the_other_is_done(
    window: Window, tapes: tuple[str, str], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = drop_while_reading(window, tapes, qtbot, monkeypatch)
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 1, timeout=20_000)
    qtbot.mouseClick(window.loading.cancel, Qt.MouseButton.LeftButton)
    gate.set()
    assert not window.jobs.running and not window.loading.isVisible()
    qtbot.waitUntil(no_thread, timeout=10_000)
    settle()
    assert [run.name for run in window.session.state.runs] == ["checkpointed.mstrata"]
