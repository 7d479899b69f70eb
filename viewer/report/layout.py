"""Plain text in 80 columns: wrapped lines and tables whose first column gives way."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from html import escape

from ..look.name_cut import cut_apart

WIDTH = 80
GAP = 2
_NUMBER = re.compile(r"(?<=\d) (?=(?:[KMGTPE]i)?B\b|[num]?s\b)")


def wrapped(text: str, indent: str = "") -> list[str]:
    """The text in lines of at most 80 columns, later lines indented two further than the first."""
    glued = _NUMBER.sub("\u00a0", text)  # a number and its unit stay together
    rest = indent + "  "
    lines = textwrap.wrap(glued, WIDTH, initial_indent=indent, subsequent_indent=rest, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """A table: first column left, the others right; the first is cut where the whole would pass 80 columns, only as far
    as what differs still does."""
    cells = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    fixed = sum(widths[1:]) + GAP * (len(head) - 1) + len(indent)
    widths[0] = min(widths[0], max(WIDTH - fixed, len("...") + 2))
    out = []
    for row, first in zip(cells, cut_apart([row[0] for row in cells], widths[0]), strict=True):
        numbers = (" " * GAP + cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        out.append((indent + first.ljust(widths[0]) + "".join(numbers)).rstrip())
    return out


def section(title: str, lines: Sequence[str]) -> list[str]:
    """A blank line, the title, the lines; nothing where there are no lines."""
    return ["", *wrapped(title), *lines] if lines else []


def joined(lines: Sequence[str]) -> str:
    """The page, with one newline at its end. Names come from files: what could steer a terminal becomes `?`."""
    return "\n".join(printable(line).rstrip() for line in lines) + "\n"


def markup(text: str) -> str:
    """The text as HTML and SVG hold it. What is invisible can stand in no XML or turn a line round: it becomes `?`."""
    return escape(printable(text))


def printable(text: str) -> str:
    """The text with everything that is no visible character or space as `?`."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
