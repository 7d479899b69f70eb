"""File names in stacks, as short as they stay unambiguous."""

from __future__ import annotations

import functools
import os
import re

_LIBRARY = re.compile(
    r"^.*/(?:site-packages|dist-packages|lib/python\d+(?:\.\d+)?t?|python\d+(?:\.\d+)?/lib)/", re.IGNORECASE
)


@functools.cache
def short_path(path: str, project: str | None = None) -> str:
    """Relative to site-packages, to the standard library, or to the project (by default the current folder).

    Works on Windows paths too; everything else (`<string>`, `??`) stays as it is.
    """
    plain = path.replace("\\", "/")
    matched = _LIBRARY.match(plain)
    if matched is not None:
        return plain[matched.end() :]
    root = (project or os.getcwd()).replace("\\", "/").rstrip("/") + "/"
    return plain[len(root) :] if plain.startswith(root) else plain
