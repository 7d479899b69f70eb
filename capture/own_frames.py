"""Which stack frames are memstrata's own, the recorder's and the command's, and therefore in no stack that is shown."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_ROOMS = (_HERE, _HERE.parent / "viewer")
_COMMAND = Path(sys.executable).parent / "memstrata"
"""The script that pip makes for the command."""
_SHOWN = (_HERE / "models", _HERE / "demo.py")
"""The demo trains like anybody's script, and its frames are as interesting as anybody's."""


@functools.cache
def is_own(file: str) -> bool:
    """Whether a source file is ours; the profiler shortens names to what follows an entry of sys.path."""
    path = Path(file)
    if not path.is_absolute():
        path = next((found for entry in sys.path if (found := Path(entry, file)).is_file()), path)
    if path == _COMMAND:
        return True
    path = path.resolve()
    return any(map(path.is_relative_to, _ROOMS)) and not any(map(path.is_relative_to, _SHOWN))
