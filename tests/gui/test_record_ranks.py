"""What is recorded from the window and where it goes: ranks into a folder that opens, a second recording beside the
first."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from memstrata.viewer.panels.record_dialog import RecordDialog
from memstrata.viewer.window import Window

LEFT = Qt.MouseButton.LeftButton
TRAIN = """
import torch
net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(2):
    net(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_the_folder_of_the_ranks_opens(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    window.actions_by_name["record"].trigger()
    dialog = window.dialogs[RecordDialog]
    assert isinstance(dialog, RecordDialog)
    dialog.program.setText("train.py")
    dialog.step.setText("1")
    dialog.output.setText("step.mstrata")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):  # as a launcher that starts one after the other
        monkeypatch.setenv("RANK", rank)
        before = len(window.session.state.runs)
        dialog.show()
        qtbot.mouseClick(dialog.panel.start, LEFT)
        qtbot.waitUntil(lambda: not dialog.panel.process.is_running and not window.jobs.running, timeout=120_000)
        qtbot.waitUntil(lambda before=before: len(window.session.state.runs) > before, timeout=20_000)
    names = sorted(file.name for file in (tmp_path / "step.mstrata.d").iterdir())
    assert names == ["rank-00.mstrata", "rank-01.mstrata"] and not (tmp_path / "step.mstrata").exists()
    assert [run.name for run in window.session.state.runs] == [
        "rank-01.mstrata", "rank-00.mstrata", "rank-01.mstrata (same file again)"]  # fmt: skip
    assert window.recent.files()[0].path == str(tmp_path / "step.mstrata.d")


def test_the_next_recording_is_not_written_over_the_last(
    window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    window.actions_by_name["record"].trigger()
    dialog = window.dialogs[RecordDialog]
    assert dialog.output.text() == str(tmp_path / "step.mstrata")
    dialog.hide()
    (tmp_path / "step.mstrata").touch()
    (tmp_path / "step-2.mstrata.d").mkdir()
    window.actions_by_name["record"].trigger()
    assert dialog.output.text() == str(tmp_path / "step-3.mstrata")
    dialog.hide()
    dialog.output.setText(str(tmp_path / "step.mstrata"))  # the user wants it so
    window.actions_by_name["record"].trigger()
    assert dialog.output.text() == str(tmp_path / "step.mstrata")
