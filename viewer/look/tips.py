"""Tooltips that show what files say as it is: Qt takes a text that looks like HTML for HTML, and shortens none."""

from __future__ import annotations

from html import escape

MOST_LINES = 40
WIDEST = 240
"""Characters of a line; the table beside it has the whole."""
MOST_CHARACTERS, LONGEST_WORD = 1_000, 120
"""Of a sentence and of a word in it; a path of a usual length is whole."""


def one_line(text: str) -> str:
    """The text for a cell or a label in a picture: what breaks a line, turns it around or has no sign is a space."""
    return harmless(f"{text[: WIDEST - 80]} ... {text[-74:]}" if len(text) > WIDEST else text)


def sentence(text: str) -> str:
    """The text for a label that wraps: one line as above, but longer, and no word too long to be broken."""
    words = harmless(text[:MOST_CHARACTERS]).split(" ")
    cut = " …" if len(text) > MOST_CHARACTERS else ""
    return " ".join(word if len(word) <= LONGEST_WORD else f"{word[:30]}…{word[-20:]}" for word in words) + cut


def harmless(text: str) -> str:
    """The text with a space for what breaks a line, turns it around or has no sign."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else " " for sign in text)


def tip(text: str) -> str:
    """The text for a tooltip: long lines and long texts shortened, and never markup."""
    lines = text.splitlines()
    shown = [line if len(line) <= WIDEST else f"{line[: WIDEST - 80]} ... {line[-74:]}" for line in lines[:MOST_LINES]]
    rest = len(lines) - len(shown)
    whole = "\n".join([*shown, f"... and {rest:,} more lines"] if rest else shown)
    return f'<span style="white-space: pre-wrap">{escape(whole)}</span>' if "<" in whole or "&lt;" in whole else whole
