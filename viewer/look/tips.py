"""Tooltips that show what files say as it is: Qt takes a text that looks like HTML for HTML, and shortens none."""

from __future__ import annotations

from html import escape

MOST_LINES = 40
WIDEST = 240
"""Characters of a line; the table beside it has the whole."""


def one_line(text: str) -> str:
    """The text for a cell or a label in a picture: what breaks a line, turns it around or has no sign is a space."""
    if len(text) > WIDEST:
        text = f"{text[: WIDEST - 80]} ... {text[-74:]}"
    return text if text.isprintable() else "".join(sign if sign.isprintable() else " " for sign in text)


def tip(text: str) -> str:
    """The text for a tooltip: long lines and long texts shortened, and never markup."""
    lines = text.splitlines()
    shown = [line if len(line) <= WIDEST else f"{line[: WIDEST - 80]} ... {line[-74:]}" for line in lines[:MOST_LINES]]
    rest = len(lines) - len(shown)
    whole = "\n".join([*shown, f"... and {rest:,} more lines"] if rest else shown)
    return f'<span style="white-space: pre-wrap">{escape(whole)}</span>' if "<" in whole or "&lt;" in whole else whole
