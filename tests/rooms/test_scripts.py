"""What every script of the project does with `--help` and with arguments that are wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for folder in ("samples", "benchmarks", "docs") for path in (ROOT / folder).glob("*.py"))
SCRIPTS = [path for path in FILES if "__name__" in path.read_text(encoding="utf-8")]
TAKES_NUMBERS = ["allocator.py", "generate.py", "opening.py", "readers.py", "view.py"]
EVERY = ROOT / "samples" / "make_screenshots.py"

CALLS = """
import contextlib, io, json, runpy, sys
for script, arguments in json.load(sys.stdin):
    sys.argv, sys.path[0] = [script, *arguments], script.rpartition("/")[0]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = runpy.run_path(script, run_name="__main__") and None
        except SystemExit as stop:
            status = stop.code
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""


def called(calls: list[tuple[Path, list[str]]], folder: Path) -> list[Any]:
    """Status, stdout and stderr of each call, one after the other in one process: torch is imported once."""
    asked = json.dumps([(str(script), arguments) for script, arguments in calls])
    command = [sys.executable, "-c", CALLS]
    done = subprocess.run(command, cwd=folder, input=asked, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_help_and_wrong_arguments(tmp_path: Path) -> None:
    """Help says what the script does; what is wrong is one sentence and exit status 2; nothing is done."""
    pytest.importorskip("torch")
    pytest.importorskip("PySide6")
    assert len(SCRIPTS) >= 11 and set(TAKES_NUMBERS) <= {script.name for script in SCRIPTS}
    (tmp_path / "file").write_text("x")
    wrong = {script: ["0", "bad"] if script.name in TAKES_NUMBERS else ["--nonsense"] for script in SCRIPTS}
    calls = [(script, ["--help"]) for script in SCRIPTS] + list(wrong.items())
    *said, every, no_folder = called([*calls, (EVERY, ["--every"]), (EVERY, [str(tmp_path / "file")])], tmp_path)
    for (script, arguments), (status, out, err) in zip(calls, said, strict=True):
        if arguments == ["--help"]:
            assert (status, err) == (0, "") and out.startswith(f"usage: {script.name} ")
            assert script.read_text(encoding="utf-8").partition("\n")[0].strip('"') in out
        else:
            assert (status, out) == (2, "") and err.count("\n") == 1 and arguments[0] in err
            assert err.startswith(f"{script.name}: ") and err.endswith(f"; see {script.name} --help\n")
    assert every[0] == 2 and "--every needs a folder" in every[2]
    assert no_folder[0] == 2 and f"{tmp_path / 'file'}: file exists" in no_folder[2]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
