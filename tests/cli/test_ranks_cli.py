"""`memstrata report RUN_DIR` as people type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memstrata.viewer.cli import main


def test_text_and_json(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(samples / "ranks")]) == 0
    assert capsys.readouterr().out.startswith("ranks: 2 of 2 ranks of Model")
    assert main(["report", "--json", f"{samples / 'ranks'}/"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == "ranks"


def test_a_folder_that_is_no_run_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == f"memstrata: {tmp_path.name} is a folder without any .mstrata recording.\n"
