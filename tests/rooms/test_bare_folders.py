"""`import capture` must not work: a room would then exist twice, with two of each class."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("folder", ["capture", "viewer", "samples", "benchmarks"])
def test_folders_are_not_importable_by_their_bare_name(folder: str) -> None:
    assert importlib.util.find_spec(folder) is None, "run `pytest`, not `python -m pytest`"


@pytest.mark.parametrize("folder", ["capture", "viewer"])
def test_the_installed_name_is_the_folder(folder: str, root: Path) -> None:
    spec = importlib.util.find_spec(f"memstrata.{folder}")
    assert spec is not None and spec.origin is not None
    assert Path(spec.origin).resolve() == root / folder / "__init__.py"


def test_memstrata_itself_is_only_a_name() -> None:
    command = [sys.executable, "-I", "-c", "import memstrata; print(memstrata.__file__)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "None"
