"""Names that have too little room: cut only as far as they stay different from each other."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import takewhile

_EDGE = re.compile(r"[^\W_]+")
"""A word of a name; what stands between two of them is punctuation."""
_LEAST = 2
"""Characters that stay where a middle is left out; with less room only the beginning does."""


def cut_apart(
    names: Sequence[str], room: float, width: Callable[[str], float] = len, dots: str = "..."
) -> list[str]:  # fmt: skip
    """Each name in this room, its middle left out where it is too long; what differs stays. `width` measures a text."""
    cut = {name: middle_cut(name, room, width, dots) for name in names}
    for alike in _alike(cut):
        cut |= dict(zip(alike, _around(alike, room, width, dots), strict=True))
    for alike in _alike(cut):  # they differ in more places than there is room for
        for number, name in enumerate(alike[1:], 2):
            end = f"#{number}"
            cut[name] = middle_cut(name, room - width(end), width, dots) + end
    return [cut[name] for name in names]


def middle_cut(text: str, room: float, width: Callable[[str], float] = len, dots: str = "...") -> str:
    """The text with its middle left out where it is wider than the room; a third of what stays is its beginning."""
    if width(text) <= room:
        return text

    def cut(count: int) -> str:
        return f"{text[: count // 3]}{dots}{text[len(text) - count + count // 3 :]}"

    fits = bisect_right(range(len(text)), room, key=lambda count: width(cut(count))) - 1
    if fits >= _LEAST:
        return cut(fits)
    return text[: bisect_right(range(1, len(text)), room, key=lambda count: width(text[:count]))]


def _alike(cut: dict[str, str]) -> list[list[str]]:
    """The names that are cut to one text, where that are several."""
    found: dict[str, list[str]] = {}
    for name, text in cut.items():
        found.setdefault(text, []).append(name)
    return [names for names in found.values() if len(names) > 1]


def _around(names: list[str], room: float, width: Callable[[str], float], dots: str) -> list[str]:
    """The names with what they begin and end with in common left out, as much of it as has to be."""
    start = _common(names)
    end = _common([name[start:][::-1] for name in names])
    return [_kept(name, start, len(name) - end, room, width, dots) for name in names]


def _common(names: Sequence[str]) -> int:
    """With how many characters all of them begin."""
    return sum(1 for _ in takewhile(lambda signs: len({*signs}) == 1, zip(*names)))


def _kept(name: str, start: int, end: int, room: float, width: Callable[[str], float], dots: str) -> str:
    """The name with this part of it: its words in full if there is room, then as much of both ends as fits."""
    for word in _EDGE.finditer(name):
        if word.start() < start < word.end():
            wide = word.start()
            if width(f"{dots}{name[wide:end]}{dots}") <= room:
                start = wide
        if (
            word.start() <= max(end - 1, start) < word.end()
            and width(f"{dots}{name[start : word.end()]}{dots}") <= room
        ):
            end = word.end()
    shown = _shown(name, 0, start, end, 0, dots)
    if width(shown) > room:
        shown = dots + middle_cut(name[start:end], room - 2 * width(dots), width, dots) + dots
        return shown.replace(dots + dots, dots)
    head = tail = 0
    for _ in range(len(name)):
        grown = [(head + 1, tail), (head, tail + 1)] if head <= tail else [(head, tail + 1), (head + 1, tail)]
        fits = [(h, t) for h, t in grown if h <= start and t <= len(name) - end
                and width(_shown(name, h, start, end, t, dots)) <= room]  # fmt: skip
        if not fits:
            break
        head, tail = fits[0]
    return _shown(name, head, start, end, tail, dots)


def _shown(name: str, head: int, start: int, end: int, tail: int, dots: str) -> str:
    left = name[:start] if start - head <= len(dots) else name[:head] + dots
    right = name[end:] if len(name) - end - tail <= len(dots) else dots + name[len(name) - tail :]
    return left + name[start:end] + right
