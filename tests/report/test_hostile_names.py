"""Names that come from files do no harm in what is written for browsers, spreadsheets, terminals and programs."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from memstrata.viewer import cli
from memstrata.viewer.report.exports import EXPORTS
from memstrata.viewer.report.tables_csv import TABLES, safe_cell
from memstrata.viewer.sources import open_file

from .hostile_names import MARKUP, hostile

NAME = "<i>=x<img src=y>.mstrata"


@pytest.fixture(scope="module", params=[True, False], ids=["paths kept", "all"])
def bad(request: Any, samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    return hostile(samples / "after.mstrata", folder / NAME, keep_paths=request.param)


def made(path: Path, key: str, table: str = "allocations") -> str:
    return EXPORTS[key].make(open_file(path), path.name, table).decode()


class Page(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.said: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def test_a_page_shows_markup_as_text(bad: Path) -> None:
    text = made(bad, "html")
    page = Page(text)
    assert not page.tags & {"img", "script", "iframe", "link", "object", "b><img"}
    assert not {name for name in page.attributes if name.startswith("on")} | (page.attributes & {"src", "href"})
    assert MARKUP.format("cpu") in "".join(page.said)
    assert "\0" not in text and "\x1b" not in text and "\u202e" not in text


def test_a_picture_is_xml_all_the_same(bad: Path) -> None:
    root = ElementTree.fromstring(made(bad, "svg"))
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds <= {"svg", "style", "rect", "line", "text", "path", "title", "polyline", "defs", "pattern", "g"}


@pytest.mark.parametrize("key", ["html", "svg"])
def test_it_needs_nothing_from_elsewhere(bad: Path, key: str) -> None:
    text = made(bad, key)
    styles = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    assert styles and not any("url(" in style or "@import" in style or "<" in style for style in styles)
    assert not Page(text).attributes & {"src", "href", "xlink:href", "data", "background"}


@pytest.mark.parametrize("table", TABLES)
def test_no_cell_of_a_table_is_a_formula(bad: Path, table: str) -> None:
    text = made(bad, "csv", table)
    assert "\0" not in text
    head, *rows = csv.reader(io.StringIO(text))
    assert rows and all(len(row) == len(head) for row in rows)
    for cell in (cell for row in rows for cell in row):
        assert cell[:1] not in ("=", "+", "@", "\t", "\r", "\n") and not (cell[:1] == "-" and not cell[1:].isdigit())


def test_cells_that_could_be_formulas() -> None:
    assert [safe_cell(value) for value in ("=1", "+1", "-x", "@a", "\t=1", "\n=1", "a\0b", 5, -5, "fine")] == [
        "'=1", "'+1", "'-x", "'@a", "'\t=1", "'\n=1", "a?b", 5, -5, "fine",
    ]  # fmt: skip


def strict(text: str) -> Any:
    """JSON as other languages read it: NaN is no number to them."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.mark.parametrize("key", ["json", "perfetto"])
def test_json_stays_json(bad: Path, key: str) -> None:
    assert strict(made(bad, key))


def test_a_loss_that_is_no_number_is_null(bad: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", "--json", str(samples / "before.mstrata"), str(bad)]) == 0
    assert strict(capsys.readouterr().out)["b"]["loss"] is None


@pytest.mark.parametrize("command", [["report"], ["check", "--max-peak", "1KiB"], ["allocator"]])
def test_what_is_printed_cannot_steer_a_terminal(
    bad: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert cli.main([*command, str(bad)]) in (0, 1)
    out = capsys.readouterr().out
    assert out and all(c.isprintable() or c == "\n" for c in out)
