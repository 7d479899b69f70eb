"""Whether Qt can show a window here, found out before Qt tries: where it cannot, it ends the process."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import time
from typing import Any

from PySide6.QtCore import QCoreApplication, QPluginLoader

PACKAGES = {
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
}
"""Debian's packages of what Qt's plugins for X11 and Wayland link against."""

_NO_DISPLAY = "There is no display to show a window on"
_NO_SCREEN = ("offscreen", "minimal")
"""Platforms that need nothing and always work."""
_kept: list[ctypes.c_void_p] = []
"""The connection to the X server, at most one."""
_PAUSES = (0.0, 0.1, 0.2)  # seconds before each question
_PATIENCE = 30.0  # seconds for Qt to start on a platform of which nothing is known here


def why_no_window() -> str:
    """The cause in words, without a full stop; empty where a window can be shown."""
    wanted = os.environ.get("QT_QPA_PLATFORM", "")
    if not wanted and sys.platform in ("darwin", "win32"):
        return ""
    names = [name.partition(":")[0].lower() for name in wanted.split(";")] if wanted else _usual_platforms()
    causes = [_why_not_on(name) for name in names]
    return "" if "" in causes else causes[0]


def _usual_platforms() -> list[str]:
    """What Qt tries, one after the other, where it is not told: an empty QT_QPA_PLATFORM tells it nothing."""
    wayland = os.environ.get("WAYLAND_DISPLAY") or os.environ.get("XDG_SESSION_TYPE") == "wayland"
    return ["wayland", "xcb"] if wayland else ["xcb"]


def _why_not_on(name: str) -> str:
    plugins = _plugins()
    if name not in plugins:
        return f"QT_QPA_PLATFORM names {name!r}, which is none of Qt's platforms here ({', '.join(sorted(plugins))})"
    if name in _NO_SCREEN:
        return ""
    if name == "xcb":
        return _why_not_on_x(plugins[name])
    if name.startswith("wayland"):
        return missing_library(plugins[name]) or _why_not_on_wayland()
    return "" if _starts_on(name) else f"Qt cannot show a window here with QT_QPA_PLATFORM={name}"


def _plugins() -> dict[str, str]:
    """Name of each platform that this Qt has, and the file of its plugin."""
    found = {}
    folders = [os.path.join(path, "platforms") for path in QCoreApplication.libraryPaths()]
    for folder in (*folders, os.environ.get("QT_QPA_PLATFORM_PLUGIN_PATH", "")):
        for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            path = os.path.join(folder, file)
            about: Any = QPluginLoader(path).metaData().get("MetaData") or {}
            found.update({str(key).lower(): path for key in about.get("Keys", ())})
    return found


def _why_not_on_x(plugin: str) -> str:
    display = os.environ.get("DISPLAY")
    if not display:
        return _NO_DISPLAY
    return missing_library(plugin) or ("" if _reaches_x() else f"The display {display} cannot be reached")


def _reaches_x() -> bool:
    """Whether the X server of DISPLAY lets us in; asked of the library through which Qt will ask.

    A server that nobody else uses starts anew when its last client goes, and refuses all others meanwhile: so it is
    asked again, and the connection is kept, or Qt would come at just that moment.
    """
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    while _kept:
        xcb.xcb_disconnect(_kept.pop())
    for pause in _PAUSES:
        time.sleep(pause)
        connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
        if xcb.xcb_connection_has_error(connection) == 0:
            _kept.append(connection)
            return True
        xcb.xcb_disconnect(connection)
    return False


def _why_not_on_wayland() -> str:
    if os.environ.get("WAYLAND_SOCKET"):  # already connected, by the compositor that started us
        return ""
    display = os.environ.get("WAYLAND_DISPLAY") or "wayland-0"
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), display))
        except OSError:
            return f"The Wayland display {display} cannot be reached"
    return ""


def _starts_on(name: str) -> bool:
    """Whether Qt starts on this platform and has a screen there, tried in a process that it may end."""
    code = "from PySide6.QtGui import QGuiApplication as App; app = App([]); raise SystemExit(not app.primaryScreen())"
    environment = os.environ | {"QT_QPA_PLATFORM": name}
    try:
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def missing_library(plugin: str) -> str:
    """About the first library that this plugin lacks, with Debian's package; empty if it loads."""
    if not os.path.exists(plugin):
        return ""
    try:
        ctypes.CDLL(plugin)
    except OSError as error:
        library = str(error).partition(":")[0]
        package = PACKAGES.get(os.path.basename(library))
        install = f" (on Debian: apt-get install {package})" if package else ""
        return f"The window needs {library}, which cannot be loaded{install}"
    return ""
