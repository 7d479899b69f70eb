"""The name of a frame, `models.py:174 update_nodes`, where it has too little room."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

_FRAME = re.compile(r"(?P<stem>[^\s:/\\]+)(?P<line>\.\w+:\d+)(?P<rest> .*)?", re.DOTALL)
_LEAST = 3
"""Characters that stay of the file's name."""


def frame_cut(text: str, room: float, width: Callable[[str], float]) -> str:
    """With a shorter name of the file, then of the function: frames of one file differ in the line. Other texts stay
    as they are. `width` measures a text."""
    if width(text) <= room or (found := _FRAME.fullmatch(text)) is None:
        return text
    stem, line, rest = found["stem"], found["line"], found["rest"] or ""
    kept = range(_LEAST, len(stem))
    fits = bisect_right(kept, room, key=lambda count: width(f"{stem[:count]}…{line}{rest}"))
    if fits:
        return f"{stem[: kept[fits - 1]]}…{line}{rest}"
    head = f"{stem[:_LEAST]}…{line}" if kept else f"{stem}{line}"
    fits = bisect_right(range(len(rest)), room, key=lambda count: width(f"{head}{rest[:count]}…"))
    return f"{head}{rest[: max(fits - 1, 0)].rstrip()}{'…' * bool(rest)}"
