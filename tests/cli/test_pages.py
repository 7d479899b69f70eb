"""numpy of the viewing commands does not ask for huge pages; that of a process that trains is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_ASK = """
import json, os, sys
from memstrata.viewer import cli
for command in ("report", "record"):
    cli._RUN[command] = lambda options: 0
cli.main(sys.argv[1:])
loaded = "numpy" in sys.modules
from numpy._core import multiarray
print(json.dumps([loaded, bool(multiarray._set_madvise_hugepage(False)), "NUMPY_MADVISE_HUGEPAGE" in os.environ]))
"""


def asked(*arguments: str, **environment: str) -> list[bool]:
    """(numpy was imported by the command, it asks for huge pages, the environment says something about it)."""
    clean = {name: value for name, value in os.environ.items() if name != "NUMPY_MADVISE_HUGEPAGE"}
    command = [sys.executable, "-c", _ASK, *arguments]
    done = subprocess.run(command, env=clean | environment, capture_output=True, text=True, check=True)
    found: list[bool] = json.loads(done.stdout)
    return found


def test_a_viewing_command_imports_numpy_with_small_pages_and_leaves_the_environment_as_it_was(tmp_path: Path) -> None:
    assert asked("report", str(tmp_path)) == [True, False, False]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked")
def test_what_the_environment_says_stays(tmp_path: Path) -> None:
    assert asked("report", str(tmp_path), NUMPY_MADVISE_HUGEPAGE="1") == [False, True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked")
def test_a_command_that_trains_is_left_alone(tmp_path: Path) -> None:
    assert asked("record", str(tmp_path / "train.py")) == [False, True, False]
