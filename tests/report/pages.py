"""An HTML page as a reader sees it."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "rect", "line", "polyline", "path"}


class Page(HTMLParser):
    """Headings and text of a page whose elements must be closed in order, and name nothing outside it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.words = ""
        assert "url(" not in text and "@import" not in text
        self.feed(text)
        self.close()
        assert not self.open
        self.words = " ".join(self.words.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "img", "iframe") and not {"href", "src"} & {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(data)
        if "style" not in self.open:
            self.words += f" {data}"
