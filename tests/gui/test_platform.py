"""Where no window can be shown: one sentence before Qt ends the process, and the demo writes its comparison instead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memstrata.viewer.state.platform import missing_library, why_no_window

from .test_on_a_screen import screen

NAMED = ("DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "XDG_SESSION_TYPE", "QT_QPA_PLATFORM")
NO_DISPLAY = "There is no display to show a window on"
NOWHERE = ":4095"
"""No X server has this number."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a screen")


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment that names no screen."""
    for name in NAMED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return monkeypatch


CASES: list[tuple[dict[str, str], str]] = [
    ({}, NO_DISPLAY),
    ({"QT_QPA_PLATFORM": ""}, NO_DISPLAY),
    ({"QT_QPA_PLATFORM": "xcb"}, NO_DISPLAY),
    ({"DISPLAY": NOWHERE}, f"The display {NOWHERE} cannot be reached"),
    ({"DISPLAY": "nonsense", "QT_QPA_PLATFORM": ""}, "The display nonsense cannot be reached"),
    ({"WAYLAND_DISPLAY": "wayland-9"}, "The Wayland display wayland-9 cannot be reached"),
    ({"QT_QPA_PLATFORM": "wayland"}, "The Wayland display wayland-0 cannot be reached"),
    ({"WAYLAND_DISPLAY": "w", "DISPLAY": NOWHERE}, "The Wayland display w cannot be reached"),
    ({"QT_QPA_PLATFORM": "xcb;nonsense"}, NO_DISPLAY),
    ({"QT_QPA_PLATFORM": "offscreen"}, ""),
    ({"QT_QPA_PLATFORM": "Minimal:enable_fonts"}, ""),
    ({"QT_QPA_PLATFORM": "xcb;offscreen"}, ""),
]


@pytest.mark.parametrize(("environment", "cause"), CASES, ids=[str(case) for case, _ in CASES])
def test_the_cause_is_said(named: pytest.MonkeyPatch, environment: dict[str, str], cause: str) -> None:
    for name, value in environment.items():
        named.setenv(name, value)
    said = why_no_window()
    if "which cannot be loaded" in said:
        pytest.skip(said)
    assert said == cause


@pytest.mark.parametrize("name", ["nonsense", " ", ";", "xcb2:x"])
def test_a_platform_that_there_is_not(named: pytest.MonkeyPatch, name: str) -> None:
    named.setenv("QT_QPA_PLATFORM", name)
    said = why_no_window()
    asked = name.partition(";")[0].partition(":")[0]
    assert said.startswith(f"QT_QPA_PLATFORM names {asked!r}, which is none of Qt's platforms here (")
    assert "offscreen" in said and "xcb" in said


def test_a_platform_of_which_nothing_is_known_is_tried(named: pytest.MonkeyPatch) -> None:
    if os.path.exists("/dev/fb0"):
        pytest.skip("this machine has a framebuffer")
    named.setenv("QT_QPA_PLATFORM", "linuxfb")
    assert why_no_window() == "Qt cannot show a window here with QT_QPA_PLATFORM=linuxfb"


def test_a_screen_that_is_there(named: pytest.MonkeyPatch) -> None:
    with screen("640x480") as display:
        named.setenv("DISPLAY", display)
        assert why_no_window() == ""
        named.setenv("WAYLAND_DISPLAY", "wayland-9")  # Qt goes on to the other where one is dead
        assert why_no_window() == ""
    named.delenv("WAYLAND_DISPLAY")
    assert why_no_window() == f"The display {display} cannot be reached"


def test_a_missing_library_is_named_with_its_package(tmp_path: Path) -> None:
    plugin = tmp_path / "libqxcb.so"
    assert missing_library(str(plugin)) == ""
    plugin.write_bytes(b"not a library")
    assert missing_library(str(plugin)).endswith(", which cannot be loaded")


def command(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """That code, in a process whose environment names only these of the things a screen is found by."""
    around = {name: value for name, value in os.environ.items() if name not in NAMED} | environment
    return subprocess.run([sys.executable, "-c", code], env=around, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("environment", [{}, {"QT_QPA_PLATFORM": ""}, {"DISPLAY": NOWHERE}])
def test_view_is_refused_in_one_sentence(samples: Path, environment: dict[str, str]) -> None:
    file = str(samples / "before.mstrata")
    done = command(f"from memstrata.viewer.cli import main; raise SystemExit(main(['view', {file!r}]))", **environment)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("memstrata: The") and done.stderr.count("\n") == 1
    assert done.stderr.endswith("; `memstrata report` and `memstrata diff` need none.\n")


@pytest.mark.parametrize("environment", [{"QT_QPA_PLATFORM": ""}, {"QT_QPA_PLATFORM": "xcb", "DISPLAY": NOWHERE}])
def test_the_demo_writes_text_and_picture_instead(
    pair: tuple[str, str], tmp_path: Path, environment: dict[str, str]
) -> None:
    show = f"_show_demo({pair[0]!r}, {pair[1]!r}, {str(tmp_path)!r})"
    done = command(f"from memstrata.viewer.cli import _show_demo; raise SystemExit({show})", **environment)
    assert done.returncode == 0, done.stderr
    text, picture = tmp_path / "comparison.txt", tmp_path / "comparison.png"
    assert done.stdout.endswith(f": the comparison is in {text} and {picture}\n")
    assert text.read_text() and picture.read_bytes().startswith(b"\x89PNG")
