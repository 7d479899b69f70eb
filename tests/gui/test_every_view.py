"""What holds for every registered view of a run and of a comparison: a picture as PNG and SVG, a table as CSV."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QByteArray, QPointF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QTableView, QTreeView, QWidget
from pytestqt.qtbot import QtBot

from memstrata.viewer.charts.frame import Frame, PixelItem
from memstrata.viewer.panels.copying import shown_columns, shown_rows, view_csv
from memstrata.viewer.panels.pictures import picture_bytes
from memstrata.viewer.panels.registry import VIEWS


def every_view(page: Any) -> Iterator[tuple[str, QWidget]]:
    """Title and widget of every view, each brought forward as by the menu."""
    titles = page.hideable()
    for key in titles:
        page.bring_forward(key)
    known = dict(page.titled_views())
    assert set(titles.values()) <= set(known)
    for title, view in known.items():
        for key in (key for key, name in titles.items() if name == title):
            page.bring_forward(key)
        until = time.monotonic() + 20
        QTest.qWait(80)
        while hasattr(view, "work") and view.work.is_busy and time.monotonic() < until:
            QTest.qWait(20)
        yield title, view


def colours(image: QImage) -> int:
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), -1)[:, : image.width()]
    return len(np.unique(pixels & 0xFFFFFF))


@pytest.fixture(params=["run", "comparison"])
def page(request: pytest.FixtureRequest, opened: Any, pair: tuple[str, str]) -> Any:
    """A page that has every view there is of its kind."""
    made = opened(*(pair if request.param == "comparison" else pair[:1]))
    titles = set(made.hideable().values())
    assert len(titles) == len(made.hideable())
    assert request.param == "comparison" or titles == {spec.title for spec in VIEWS if spec.place != "chart"}
    return made


def head(view: QWidget) -> int:
    """Pixels of the words over a picture: a line over the lanes, whose own stands in the title of their dock."""
    return view.fontMetrics().lineSpacing() + 8 if hasattr(view, "title_line") else 0


def test_every_view_is_a_picture_as_png_and_as_svg(page: Any, qtbot: QtBot, tmp_path: Path) -> None:
    for title, view in every_view(page):
        qtbot.waitUntil(view.isVisible, timeout=5_000)
        image = QImage.fromData(picture_bytes(view, "picture.png", title))
        assert image.width() == 2 * view.width() and image.height() - 2 * view.height() == 2 * head(view), title
        assert colours(image) >= 3, title
        drawn = QImage(image.size() / 2, QImage.Format.Format_RGB32)
        drawn.fill(Qt.GlobalColor.white)
        svg = QSvgRenderer(QByteArray(picture_bytes(view, "picture.svg", title)))
        assert svg.isValid() and svg.viewBox().size() == image.size() / 2, title
        painter = QPainter(drawn)
        svg.render(painter)
        painter.end()
        assert colours(drawn) >= 3, title


def test_every_table_of_every_view_is_csv(page: Any, qtbot: QtBot) -> None:
    """A line for each row that is unfolded and one of titles; numbers of bytes are whole."""
    checked = 0
    for title, view in every_view(page):
        for table in {view, *view.findChildren(QTableView), *view.findChildren(QTreeView)}:
            if not isinstance(table, QTableView | QTreeView) or table.isHidden():
                continue
            lines = list(csv.reader(io.StringIO(view_csv(table))))
            assert len(lines) == 1 + len(list(shown_rows(table))), title
            assert len({len(line) for line in lines}) == 1, title
            assert len(lines[0]) - len(shown_columns(table)) in (0, 1), title  # a tree says its depth as well
            assert not any(cell.endswith((" MiB", " GiB", " KiB")) for line in lines[1:] for cell in line), title
            checked += 1
    assert checked >= 4


class Broken(PixelItem):
    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        raise ArithmeticError("a fault of ours")


def test_a_fault_while_painting_is_said_and_the_rest_is_painted(opened: Any, tapes: Any, qtbot: QtBot) -> None:
    """Qt would go on with the error set, and end the process at some later call."""
    timeline = opened(tapes[0]).views["timeline"].timeline
    item = Broken()
    item.set_extent(0, 1, 44 << 20)
    item.setZValue(-100)
    with qtbot.capture_exceptions() as said:
        timeline.view.addItem(item)
        image = timeline.grab().toImage()
        timeline.view.removeItem(item)
    assert [kind for kind, _, _ in said] and all(kind is ArithmeticError for kind, _, _ in said)
    place = timeline.mapFromScene(timeline.view.mapViewToScene(QPointF(0.02, 4 << 20)))
    assert image.pixelColor(place).name() != image.pixelColor(2, 2).name()


BYTES = re.compile(r"[+-]?\b[\d.,]+ (B|KiB|MiB|GiB|TiB)\b")


def test_every_figure_of_the_answer_and_the_captions_is_exact_on_hover(page: Any, qtbot: QtBot) -> None:
    """A line that says bytes shortened says them whole on hover."""
    checked, without = 0, []
    for title, view in (("answer", page.answer), *every_view(page)):
        for label in view.findChildren(QLabel):
            words = re.sub("<[^>]*>", "", label.text())
            if BYTES.search(words) and not re.search(r"[\d,]+ bytes?\b", words):
                checked += 1
                without += [] if re.search(r"[\d,]+ bytes?\b", label.toolTip()) else [f"{title}: {words}"]
    assert checked >= 3
    assert not without
