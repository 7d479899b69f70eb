"""Says in one sentence which Debian packages the window lacks; the environment's Python runs it before tests and demo.

Qt's wheels bring Qt itself and expect the rest of the desktop from the system. Without this check the first sign
would be an ImportError about one library at a time, or an abort in the middle of a test.
"""

from __future__ import annotations

import ctypes
import os
import sys

# What PySide6-Essentials' QtCore, QtGui, QtWidgets, QtSvg and the offscreen platform are linked against,
# by the Debian package that brings it.
ALWAYS = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11.so.6": "libx11-6",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libzstd.so.1": "libzstd1",
    "libz.so.1": "zlib1g",
}
# What the xcb platform needs besides, to show a window on an X screen.
ON_X11 = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
}


def has(library: str) -> bool:
    """Whether the loader finds and accepts this library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def needed() -> dict[str, str]:
    """The libraries this run needs: those of a screen only where there is an X screen and Qt is to use it."""
    on_x11 = bool(os.environ.get("DISPLAY")) and (os.environ.get("QT_QPA_PLATFORM") or "xcb") == "xcb"
    return ALWAYS | ON_X11 if on_x11 else ALWAYS


def problem() -> str | None:
    """The sentence to show, or None if Qt can start."""
    missing = {library: package for library, package in needed().items() if not has(library)}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        return f"Qt needs {', '.join(missing)}, which this system lacks: apt-get install {packages}"
    try:
        import PySide6.QtSvg
        import PySide6.QtWidgets  # noqa: F401
    except ImportError as error:
        return f"Qt cannot be loaded: {error}."
    return None


if __name__ == "__main__":
    sentence = problem() if sys.platform == "linux" else None
    if sentence:
        sys.exit(sentence)
