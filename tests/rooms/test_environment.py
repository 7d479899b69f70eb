"""The scripts that build the environment: which Python they take, and the one sentence when something is missing."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

OLD = "import sys; sys.version_info = (3, 9, 1); "
WITHOUT_VENV = "import sys; sys.modules['ensurepip'] = None; "


def fake_python(folder: Path, name: str, prelude: str = "") -> Path:
    """A Python that runs `-c CODE` after the prelude."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{prelude}$2"\n')
    path.chmod(0o755)
    return path


def find_python(root: Path, *folders: Path) -> subprocess.CompletedProcess[str]:
    command = [str(root / ".ci" / "find_python")]
    env = {**os.environ, "PATH": ":".join(map(str, folders))}
    return subprocess.run(command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_python311_is_taken_before_python3(root: Path, tmp_path: Path) -> None:
    fake_python(tmp_path, "python3")
    wanted = fake_python(tmp_path, "python3.11")
    assert find_python(root, tmp_path).stdout.strip() == str(wanted)


def test_python3_is_taken_where_there_is_no_python311(root: Path, tmp_path: Path) -> None:
    wanted = fake_python(tmp_path, "python3")
    assert find_python(root, tmp_path).stdout.strip() == str(wanted)


def test_a_placeholder_of_a_version_manager_is_passed_over(root: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir(), second.mkdir()
    (first / "python3.11").write_text("#!/bin/sh\necho 'command not found' >&2\nexit 127\n")
    (first / "python3.11").chmod(0o755)
    wanted = fake_python(second, "python3.11")
    assert find_python(root, first, second).stdout.strip() == str(wanted)


def test_a_python_with_venv_is_taken_before_one_without(root: Path, tmp_path: Path) -> None:
    fake_python(tmp_path, "python3.11", WITHOUT_VENV)
    wanted = fake_python(tmp_path, "python3.12")
    assert find_python(root, tmp_path).stdout.strip() == str(wanted)


@pytest.mark.parametrize(
    ("prelude", "sentence"),
    [
        (OLD, "memstrata needs Python 3.11 or newer, and {python} is Python 3.9."),
        (WITHOUT_VENV, "{python} cannot make virtual environments: install the Debian package python3-venv."),
    ],
)
def test_an_unfit_python_gives_one_sentence(root: Path, tmp_path: Path, prelude: str, sentence: str) -> None:
    python = fake_python(tmp_path, "python3", prelude)
    done = find_python(root, tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.strip() == sentence.format(python=python)


def test_no_python_at_all_gives_one_sentence(root: Path, tmp_path: Path) -> None:
    assert find_python(root, tmp_path).stderr.strip().endswith("there is no Python on PATH.")


@pytest.fixture
def check(root: Path) -> SimpleNamespace:
    """The names of `.ci/check_libraries.py`, whose functions look each other up in `__globals__`."""
    return SimpleNamespace(**runpy.run_path(str(root / ".ci" / "check_libraries.py")))


def test_libraries_are_all_here(check: SimpleNamespace) -> None:
    assert check.problem() is None


def test_missing_libraries_give_one_sentence_with_the_packages(
    check: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = {"libEGL.so.1", "libglib-2.0.so.0", "libgthread-2.0.so.0"}
    monkeypatch.setitem(check.problem.__globals__, "has", lambda library: library not in absent)
    sentence = check.problem()
    assert sentence is not None
    assert all(library in sentence for library in absent)
    assert sentence.endswith("apt-get install libegl1 libglib2.0-0")
    assert "\n" not in sentence


def test_a_library_that_does_not_exist_is_not_found(check: SimpleNamespace) -> None:
    assert not check.has("libno-such-library.so.1")


@pytest.mark.parametrize(
    ("display", "platform", "with_screen"), [("", "", False), (":0", "", True), (":0", "offscreen", False)]
)
def test_libraries_of_the_screen_are_asked_for_only_with_a_screen(
    check: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, display: str, platform: str, with_screen: bool
) -> None:
    for name, value in (("DISPLAY", display), ("QT_QPA_PLATFORM", platform)):
        monkeypatch.setenv(name, value)
        if not value:
            monkeypatch.delenv(name)
    assert ("libxcb-cursor.so.0" in check.needed()) is with_screen


def test_what_is_always_needed_is_installed_for_continuous_integration(root: Path, check: SimpleNamespace) -> None:
    packages = set((root / ".ci" / "apt.txt").read_text().split())
    assert set(check.ALWAYS.values()) <= packages
