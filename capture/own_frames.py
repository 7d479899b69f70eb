"""Which stack frames are the recorder's own, and therefore in no stack that is shown."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_SHOWN = (_HERE / "models", _HERE / "demo.py")
"""The demo trains like anybody's script, and its frames are as interesting as anybody's."""


@functools.cache
def is_own(file: str) -> bool:
    """Whether a source file is the recorder's; the profiler shortens names to what follows an entry of sys.path."""
    path = Path(file)
    if not path.is_absolute():
        path = next((found for entry in sys.path if (found := Path(entry, file)).is_file()), path)
    path = path.resolve()
    return path.is_relative_to(_HERE) and not any(path.is_relative_to(shown) for shown in _SHOWN)
