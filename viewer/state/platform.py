"""Whether Qt can show a window here, found out before Qt tries: where it cannot, it ends the process."""

from __future__ import annotations

import ctypes
import os
import sys

from PySide6.QtCore import QLibraryInfo

PACKAGES = {
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
"""Debian's packages of what Qt's X11 plugin links against."""


def why_no_window() -> str:
    """One sentence, empty where a window can be shown."""
    platform = os.environ.get("QT_QPA_PLATFORM", "")
    if sys.platform != "linux" or platform.partition(":")[0] not in ("", "xcb"):
        return ""
    if not platform and os.environ.get("WAYLAND_DISPLAY"):
        return ""
    if not os.environ.get("DISPLAY"):
        return "There is no display to show a window on; `memstrata report` and `memstrata diff` need none."
    plugins = QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath)
    return missing_library(os.path.join(plugins, "platforms", "libqxcb.so"))


def missing_library(plugin: str) -> str:
    """One sentence about the first library that this plugin lacks, with Debian's package; empty if it loads."""
    if not os.path.exists(plugin):
        return ""
    try:
        ctypes.CDLL(plugin)
    except OSError as error:
        library = str(error).partition(":")[0]
        package = PACKAGES.get(os.path.basename(library))
        install = f"; on Debian: apt-get install {package}" if package else ""
        return f"The window needs {library}, which cannot be loaded{install}."
    return ""
