"""Recording a script and dry-running a model from the window, each in a process of its own."""

from __future__ import annotations

import os
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QDialog
from pytestqt.qtbot import QtBot

from memstrata.viewer.panels.dry_run_dialog import DryRunDialog
from memstrata.viewer.panels.process_panel import OutputView
from memstrata.viewer.panels.record_dialog import RecordDialog
from memstrata.viewer.state.process import Command, Ended, Process, free_name, record_command, why_not
from memstrata.viewer.window import Window

LEFT = Qt.MouseButton.LeftButton
TRAIN = """
import sys, torch
net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(3):
    print("step", i, sys.argv[1:], flush=True)
    net(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SLEEP = "import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(120)\n"


@pytest.fixture
def record(window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RecordDialog:
    """The dialog, opened by its action, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    window.actions_by_name["record"].trigger()
    dialog = window.dialogs[RecordDialog]
    assert isinstance(dialog, RecordDialog) and dialog.isVisible() and not dialog.isModal()
    return dialog


def script(folder: Path, text: str) -> str:
    (folder / "train.py").write_text(text)
    return str(folder / "train.py")


def test_a_script_is_recorded_and_opens(record: RecordDialog, window: Window, tmp_path: Path, qtbot: QtBot) -> None:
    (tmp_path / "here").mkdir()
    record.program.fill_in(script(tmp_path / "here", TRAIN))
    assert record.folder.text() == str(tmp_path / "here")
    qtbot.keyClicks(record.arguments, "--name 'two words'")
    record.step.setText("1")
    ticks: list[float] = []
    timer = QTimer(window, interval=20)
    timer.timeout.connect(lambda: ticks.append(time.perf_counter()))
    timer.start()
    qtbot.mouseClick(record.panel.start, LEFT)
    assert record.panel.cancel.isEnabled() and not record.panel.start.isEnabled()
    qtbot.waitUntil(lambda: "step 0 ['--name', 'two words']" in record.panel.output.toPlainText(), timeout=60_000)
    assert record.panel.said.text().startswith("Running, ")
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=60_000)
    timer.stop()
    assert max(b - a for a, b in pairwise(ticks)) < 1.0
    run = window.session.state.runs[0]
    assert run.name == "step.mstrata" and run.recording.meta.step_index == 1
    assert not record.isVisible()
    assert [file.path for file in window.recent.files()] == [str(tmp_path / "here" / "step.mstrata")]


def test_a_script_that_fails_is_one_sentence_and_its_output_stays(
    record: RecordDialog, window: Window, tmp_path: Path, qtbot: QtBot
) -> None:
    record.program.fill_in(script(tmp_path, "print('so far so good')\nraise RuntimeError('no data set')\n"))
    qtbot.mouseClick(record.panel.start, LEFT)
    qtbot.waitUntil(record.panel.start.isEnabled, timeout=30_000)
    assert record.panel.said.text() == "It ended with exit status 1: RuntimeError: no data set"
    output = record.panel.output.toPlainText()
    assert "so far so good" in output and "Traceback" in output and output.startswith("$ memstrata record --step 3 -o ")
    assert record.isVisible() and not window.session.state.runs


def test_a_script_without_a_step_is_told_so(record: RecordDialog, tmp_path: Path, qtbot: QtBot) -> None:
    record.program.fill_in(script(tmp_path, "print('nothing trained')\n"))
    qtbot.mouseClick(record.panel.start, LEFT)
    qtbot.waitUntil(record.panel.start.isEnabled, timeout=30_000)
    said = record.panel.said.text()
    assert said and "\n" not in said and not said.startswith("memstrata:") and "exit status" not in said
    assert not (tmp_path / "step.mstrata").exists()


def test_cancel_ends_the_process(record: RecordDialog, tmp_path: Path, qtbot: QtBot) -> None:
    record.program.fill_in(script(tmp_path, SLEEP))
    qtbot.mouseClick(record.panel.start, LEFT)
    pid = wait_for_pid(record, qtbot)
    qtbot.mouseClick(record.panel.cancel, LEFT)
    assert record.panel.said.text().startswith("Stopping")
    qtbot.waitUntil(record.panel.start.isEnabled, timeout=10_000)
    assert record.panel.said.text().startswith("Cancelled after ")
    assert not alive(pid)


def test_a_script_that_will_not_end_is_killed_with_its_children(tmp_path: Path, qtbot: QtBot) -> None:
    stubborn = (
        "import signal, subprocess, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal, time\\nsignal.signal(signal.SIGTERM, "
        'signal.SIG_IGN)\\nprint("ready", flush=True)\\ntime.sleep(120)\'])\n'
        "print('pid', child.pid, flush=True)\nchild.wait()\n"
    )
    command = record_command(script(tmp_path, stubborn), False, "", ("--step", "0"), str(tmp_path), "out.mstrata")
    process, said, ended = Process(), [], []
    process.said.connect(said.append)
    process.ended.connect(ended.append)
    process._kill.setInterval(300)
    process.start(command)
    qtbot.waitUntil(lambda: "ready" in "".join(said) and "pid" in "".join(said), timeout=30_000)
    child = int("".join(said).split("pid ")[1].split()[0])
    process.cancel()
    qtbot.waitUntil(lambda: bool(ended), timeout=10_000)
    assert ended[0].cancelled and ended[0].recording is None
    qtbot.waitUntil(lambda: not alive(child), timeout=5_000)


def test_closing_the_dialog_lets_it_run_and_closing_the_window_ends_it(
    record: RecordDialog, window: Window, tmp_path: Path, qtbot: QtBot
) -> None:
    record.program.fill_in(script(tmp_path, SLEEP))
    qtbot.mouseClick(record.panel.start, LEFT)
    pid = wait_for_pid(record, qtbot)
    qtbot.keyClick(record, Qt.Key.Key_Escape)
    assert not record.isVisible() and record.panel.process.is_running
    assert "goes on" in window.message.text.text()
    window.actions_by_name["record"].trigger()
    assert record.isVisible() and window.dialogs[RecordDialog] is record
    window.close()
    assert not alive(pid)


@pytest.mark.parametrize(
    ("program", "arguments", "said"),
    [
        ("", "", "Choose the script to run."),
        ("nowhere.py", "", "There is no file nowhere.py."),
        ("train.py", "--name 'open", "The arguments cannot be split into words: no closing quotation."),
    ],
)
def test_what_cannot_be_run_is_said_before_it_runs(
    record: RecordDialog, tmp_path: Path, qtbot: QtBot, program: str, arguments: str, said: str
) -> None:
    script(tmp_path, TRAIN)
    record.program.setText(program)
    record.arguments.setText(arguments)
    qtbot.mouseClick(record.panel.start, LEFT)
    assert record.panel.said.text() == said and not record.panel.process.is_running


def test_a_module_and_its_step_become_the_command(record: RecordDialog, tmp_path: Path) -> None:
    record.kind.setCurrentIndex(1)
    record.program.setText("package.train")
    record.arguments.setText("--lr 1e-3")
    record.which.setCurrentIndex(1)
    assert not record.step.isVisible()
    out = str(tmp_path / "step.mstrata")
    assert record.command() == Command(
        ("record", "--on", "oom", "-o", out, "-m", "package.train", "--lr", "1e-3"), str(tmp_path), out
    )


def test_a_model_is_dry_run_and_opens(
    window: Window, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    window.actions_by_name["dry_run"].trigger()
    dialog = window.dialogs[DryRunDialog]
    assert isinstance(dialog, DryRunDialog)
    dialog.tokens.setText("0")
    qtbot.mouseClick(dialog.panel.start, LEFT)
    assert dialog.panel.said.text() == "Tokens must be a whole number from 1 to 10,000,000."
    dialog.tokens.setText("128")
    dialog.layers.setText("4")
    dialog.segments.setText("2")
    qtbot.mouseClick(dialog.panel.start, LEFT)
    qtbot.waitUntil(lambda: bool(window.session.state.runs), timeout=90_000)
    run = window.session.state.runs[0]
    assert run.recording.meta.sequence == 128 and len(run.layers.names) == 4 and len(run.recording.meta.plan) == 2


def test_a_config_file_that_is_not_there_is_said(
    window: Window, tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    window.actions_by_name["dry_run"].trigger()
    dialog = window.dialogs[DryRunDialog]
    assert isinstance(dialog, DryRunDialog) and not dialog.config.isVisible()
    dialog.model.setCurrentIndex(dialog.model.count() - 1)
    assert dialog.config.isVisible()
    qtbot.mouseClick(dialog.panel.start, LEFT)
    said = dialog.panel.said.text()
    assert said == "Choose the config.json of the model." or said.startswith("This needs transformers, ")


def test_a_missing_module_is_said_with_how_to_get_it() -> None:
    assert why_not("json") == ""
    assert why_not("json", "no_such_module").endswith("does not have: pip install no_such_module")


def test_without_torch_the_dialog_says_how_to_get_it(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as bare:  # an interpreter that finds nothing
        bare.delitem(sys.modules, "torch", raising=False)
        bare.setattr(sys, "meta_path", [])
        window.actions_by_name["record"].trigger()
    panel = window.dialogs[RecordDialog].panel
    assert panel.said.text().endswith("does not have: pip install 'memstrata[capture]'")
    assert not panel.start.isEnabled()


def test_names_of_recordings_are_not_taken_twice(tmp_path: Path) -> None:
    assert free_name(str(tmp_path), "step.mstrata") == str(tmp_path / "step.mstrata")
    (tmp_path / "step.mstrata").touch()
    (tmp_path / "step-2.mstrata").touch()
    assert free_name(str(tmp_path), "step.mstrata") == str(tmp_path / "step-3.mstrata")


def test_output_is_shown_as_a_terminal_shows_it(qtbot: QtBot) -> None:
    view = OutputView()
    qtbot.addWidget(view)
    for piece in ("one\r\ntwo", "\r10%", "\r20%\r", "100%\nlast", "\n"):
        view.say(piece)
        view.flush()
    assert view.toPlainText() == "one\n100%\nlast\n"


def test_a_flood_of_output_is_cut_and_its_end_is_shown(qtbot: QtBot) -> None:
    view = OutputView()
    qtbot.addWidget(view)
    for number in range(30_000):
        view.say(f"line {number}\n")
    view.flush()
    assert view.toPlainText().splitlines()[-1] == "line 29999" and view.blockCount() <= 10_000


def test_a_process_that_cannot_be_started_says_so(tmp_path: Path, qtbot: QtBot) -> None:
    process = Process()
    ended: list[Ended] = []
    process.ended.connect(ended.append)
    process.start(Command(("record",), str(tmp_path / "gone"), str(tmp_path / "x.mstrata")))
    qtbot.waitUntil(lambda: bool(ended), timeout=10_000)
    assert "cannot be started" in ended[0].sentence and ended[0].recording is None


def wait_for_pid(record: RecordDialog, qtbot: QtBot) -> int:
    qtbot.waitUntil(lambda: "\npid " in record.panel.output.toPlainText(), timeout=30_000)
    return int(record.panel.output.toPlainText().split("\npid ")[1].split()[0])


def alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be asked how it ended does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_dialogs_are_no_windows_of_their_own(record: RecordDialog, window: Window) -> None:
    assert isinstance(record, QDialog) and record.parent() is window
