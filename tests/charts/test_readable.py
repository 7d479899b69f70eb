"""Charts in little room, and with very much in them, still say what they show."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QVBoxLayout, QWidget

from memstrata.capture.format.schema import Phase
from memstrata.viewer.charts.band_painter import paint_labels
from memstrata.viewer.charts.frame import Frame
from memstrata.viewer.charts.frontier import FrontierChart, Point
from memstrata.viewer.charts.ribbon import FOOT, HEIGHT, RibbonItem
from memstrata.viewer.charts.stacking import stack
from memstrata.viewer.charts.timeline import Timeline
from memstrata.viewer.look import palette
from memstrata.viewer.model.axes import by_event
from memstrata.viewer.model.paints import Paint
from memstrata.viewer.model.run import Run
from memstrata.viewer.panels.pictures import svg_bytes
from memstrata.viewer.sources import open_file
from memstrata.viewer.state.scope import Scope
from memstrata.viewer.state.session import Session
from memstrata.viewer.state.view_state import opened

from ..model.recordings import Step

MIB = 1 << 20


def words(widget: QWidget) -> list[str]:
    """Everything written in a picture of the widget."""
    return [text.strip() for text in re.findall(r"<text[^>]*>([^<]*)<", svg_bytes(widget, "x").decode())]


@pytest.mark.parametrize(("most", "timed", "tick"), [(0.399, True, "0.2 s"), (0.0007, True, "0.5 ms"), (3, False, "2")])
def test_a_narrow_frontier_says_what_its_axes_count(qapp, most, timed, tick) -> None:
    chart = FrontierChart()
    points = [Point(0.0, 700 * MIB, ""), Point(most / 2, 500 * MIB, ""), Point(most, 300 * MIB, "")]
    chart.show_points(points, points[2], timed)
    chart.resize(chart.minimumSize())
    said = words(chart)
    assert tick in said and "512 MiB" in said and "0" in said
    assert ("more time per step" in said) == timed


def test_a_low_timeline_has_a_zero_and_several_numbers_of_bytes(qapp, samples) -> None:
    run, session = Run(open_file(samples / "before.mstrata")), Session()
    session.set(opened(session.state, run, "category"))
    page = QWidget()
    chart = Timeline(Scope(session, run, session), page)
    QVBoxLayout(page).addWidget(chart)
    page.resize(800, 250)
    page.show()
    page.grab()
    said = words(page)
    page.hide()
    assert "0" in said and len([text for text in said if text.endswith("iB") and " " in text]) >= 3


def test_no_name_is_written_where_the_selected_allocation_has_its_bar(qapp) -> None:
    paints = [Paint("#eee87c"), Paint("#0000c0")]

    def changed(low: int) -> bool:
        """Whether anything is written in a band of this height under one of 60."""
        image = QImage(400, 200, QImage.Format.Format_RGB32)
        image.fill(QColor("white"))
        painter = QPainter(image)
        bands = stack(np.arange(401.0), np.array([[low] * 400, [60] * 400]), 200, 1.0)
        paint_labels(painter, bands, ["low", ""], paints)
        painter.end()
        return any(image.pixel(x, y) != image.pixel(0, 0) for x in range(400) for y in range(200 - low, 200))

    assert changed(60) and not changed(24)


def test_a_ribbon_of_thousands_of_phases_shows_some_in_every_pixel(qapp) -> None:
    step, count = Step(), 3000
    for number in range(count):
        step.alloc(512 * (number + 1), 1, number)
    run, item = step.run(), RibbonItem()
    turns = (Phase.forward, Phase.recompute, Phase.backward)
    item.show_phases([(turns[n % 3], n, n + 1) for n in range(count)], by_event(run))
    image = QImage(90, HEIGHT, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    painter = QPainter(image)
    item.paint_pixels(painter, Frame(0, count, 0, 1, 90 / count, 0.0, -HEIGHT, HEIGHT))
    painter.end()
    feet = {palette.phase_colour(phase, item.theme.dark) for phase in turns}
    assert all(image.pixelColor(x, HEIGHT - 1).name() in feet for x in range(90))
    assert all(image.pixelColor(x, HEIGHT - FOOT - 2).name() not in feet | {"#ffffff"} for x in range(90))
