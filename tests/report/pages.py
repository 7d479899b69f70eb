"""An HTML page as a reader sees it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from memstrata.viewer.look.units import bytes_text

VOID = {"meta", "br", "rect", "line", "polyline", "path", "circle"}
INLINE = {"span", "b", "i", "code"}
HEADINGS = ("h1", "h2", "h3", "h4")
ROUNDED = re.compile(r"\d [KMGTPE]iB")
EXACT = re.compile(r"(-?[\d,]+) bytes?")


@dataclass
class Cell:
    """The words in a cell, and the exact counts that stand on hover over them."""

    text: str = ""
    exact: list[int] = field(default_factory=list)


class Page(HTMLParser):
    """Headings, tables and text of a page whose elements must be closed in order, and name nothing outside it. Every
    exact count on hover must round to the words that it stands over."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.tables: list[tuple[str, list[list[Cell]]]] = []
        """(heading above it, rows without the head)."""
        self.heads: list[list[str]] = []
        """The head of each table."""
        self.words = ""
        self.bare: list[str] = []
        """Texts with a rounded size that is not exact on hover."""
        self._hover: list[int | None] = []
        self._titled: list[bool] = []
        assert "url(" not in text and "@import" not in text
        assert "://" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
        self.feed(text)
        self.close()
        assert not self.open
        self.words = " ".join(self.words.split())

    def table(self, heading: str, number: int = 0) -> list[list[Cell]]:
        """The rows of a table below this heading."""
        return [rows for name, rows in self.tables if name == heading][number]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe") and not {"href", "src"} & {name for name, _ in attrs}
        if tag == "table":
            self.tables.append((self.headings[-1], []))
            self.heads.append([])
        elif tag == "tr" and "tbody" in self.open:
            self.tables[-1][1].append([])
        elif tag == "td":
            self.tables[-1][1][-1].append(Cell())
        elif tag == "th":
            self.heads[-1].append("")
        if tag in HEADINGS:
            self.headings.append("")
        if tag not in INLINE:
            self.words += " "
        if tag not in VOID:
            self.open.append(tag)
            said = dict(attrs).get("title") or ""
            self._titled.append(bool(said))
            exact = EXACT.fullmatch(said)
            self._hover.append(int(exact[1].replace(",", "")) if exact else None)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag
            self.words += "" if tag in INLINE else " "
            self._hover.pop()
            self._titled.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.words += data
        if ROUNDED.search(data) and not any(self._titled) and "svg" not in self.open:
            self.bare.append(data)
        if set(HEADINGS) & set(self.open):
            self.headings[-1] += data
        size = self._hover[-1] if self._hover else None
        if size is not None:
            assert bytes_text(abs(size)) in data, (size, data)
            assert data.startswith("-") == (size < 0) or data[:1] not in "+-0123456789", (size, data)
        if "td" in self.open and "svg" not in self.open:
            cell = self.tables[-1][1][-1][-1]
            cell.text += data
            cell.exact += [] if size is None else [size]
        elif "th" in self.open:
            self.heads[-1][-1] += data
