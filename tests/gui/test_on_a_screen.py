"""The window on a real X screen: other tests of this folder once more, on a screen that is started here.

Skipped where there is no Xvfb, or where Qt's X11 plugin lacks a library. Nothing is shown on the screen of the person
who runs the tests. As over X forwarding means: no shared memory between program and screen, and no OpenGL.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QLibraryInfo
from PySide6.QtWidgets import QApplication

from memstrata.viewer.state.platform import missing_library

HERE = Path(__file__)
PLATFORM = "MEMSTRATA_TEST_PLATFORM"
KEYS, BRUSHED, DROPPED, ENDED = "test_shortcuts.py", "test_range.py", "test_start.py", "test_ending.py"
FORWARDED = ("-extension", "MIT-SHM", "-extension", "GLX")


@contextlib.contextmanager
def screen(size: str, *options: str) -> Iterator[str]:
    """The name of a new X screen; the server ends with the context."""
    program = shutil.which("Xvfb")
    plugin = os.path.join(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath), "platforms", "libqxcb.so")
    why_not = missing_library(plugin) if program else "there is no Xvfb: apt-get install xvfb"
    if program is None or why_not:
        pytest.skip(why_not)
    ready, says = os.pipe()
    command = [program, "-displayfd", str(says), "-screen", "0", f"{size}x24", "-nolisten", "tcp", *options]
    server = subprocess.Popen(command, pass_fds=(says,), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(says)
    try:
        if not select.select([ready], [], [], 60)[0] or not (number := os.read(ready, 16).split()):
            pytest.skip("Xvfb does not start here")
        yield f":{number[0].decode()}"
    finally:
        os.close(ready)
        server.terminate()
        server.wait(30)


def run_on(display: str, files: tuple[str, ...], which: str = "", **environment: str) -> None:
    """Run tests of this folder on that screen, those whose name has one of these words; and on that platform."""
    names = [f"{HERE}::test_the_platform_is_the_one_asked_for", *(str(HERE.with_name(name)) for name in files)]
    words = " or ".join(["platform", *which.split()]) if which else ""
    command = [os.path.join(os.path.dirname(sys.executable), "pytest"), "-p", "no:cacheprovider", "-k", words, *names]
    settings = os.environ | {PLATFORM: "xcb", "DISPLAY": display} | environment
    settings.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(command, env=settings, cwd=HERE.parents[2], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def test_the_platform_is_the_one_asked_for(qapp: QApplication) -> None:
    assert qapp.platformName() == os.environ.get(PLATFORM, "offscreen")


def test_keys_and_tables_on_a_screen() -> None:
    with screen("1700x1100") as display:
        run_on(display, (KEYS,))


def test_brushing_and_dropping_files_as_over_x_forwarding() -> None:
    with screen("1700x1100", *FORWARDED) as display:
        run_on(display, (BRUSHED, DROPPED), "brushed undo drop", QT_X11_NO_MITSHM="1")


def test_brushing_with_twice_the_pixels() -> None:
    with screen("3400x2200") as display:
        run_on(display, (BRUSHED,), "brushed undo", QT_SCALE_FACTOR="2")


def test_windows_of_docks_at_the_end_of_the_program() -> None:
    with screen("1700x1100") as display:
        run_on(display, (ENDED,), "floating")
