"""Ctrl+C in the terminal that the window was started from closes it, in the middle of anything, without a word."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memstrata.viewer.state.settings import Settings

PROGRAM = """
import os, sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from memstrata.viewer import window as module

def look():
    found = [w for w in QApplication.topLevelWidgets() if isinstance(w, module.Window)]
    page = found[0].content.page if found else None
    if not found or not found[0].isVisible():
        QTimer.singleShot(20, look)
    elif sys.argv[1] == "loading" or (page is not None and page.stages.is_done):
        print("up", flush=True)
    else:
        QTimer.singleShot(20, look)

module.application()
module._PATIENCE_MS = 0
QTimer.singleShot(0, look)
sys.exit(module.run(sys.argv[2:]))
"""


@pytest.mark.parametrize("when", ["idle", "loading"])
def test_an_interrupt_closes_the_window(
    when: str, tapes: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    command = [sys.executable, "-c", PROGRAM, when, *tapes]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert program.stdout is not None and program.stdout.readline() == "up\n"
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=30)
    finally:
        program.kill()
    said = [line for line in errors.splitlines() if not line.startswith("This plugin does not support")]
    assert (program.returncode, said) == (130, [])
    kept = Settings(str(tmp_path / "memstrata" / "settings.ini"))
    assert len(kept.numbers("window/place")) == 4  # what was arranged is kept, as when it is closed
