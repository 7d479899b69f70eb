"""The chart of allocations on every real snapshot, without the window around it."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from memstrata.viewer.charts.allocation_chart import ADDRESS, STACKED, AllocationChart, painter_of
from memstrata.viewer.model.grouping import preferred
from memstrata.viewer.model.run import Run
from memstrata.viewer.panels.pictures import png_bytes
from memstrata.viewer.sources import open_file
from memstrata.viewer.state.scope import Scope
from memstrata.viewer.state.session import Session
from memstrata.viewer.state.view_state import opened


@pytest.fixture
def chart_of(qapp):
    """Makes charts that are gone after the test."""
    made = []

    def make(run: Run) -> AllocationChart:
        session = Session()
        session.set(opened(session.state, run, preferred(run)))
        chart = AllocationChart(Scope(session, run, session))
        chart.resize(700, 400)
        chart.wanted.connect(lambda: chart.show_painter(painter_of(run, chart.scope.axis, chart.layout_key)))
        made.append((chart, session))
        chart.show()
        return chart

    yield make
    for chart, session in made:
        chart.hide()
        chart.deleteLater()
        session.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_what_is_painted_is_what_a_point_finds_on_every_snapshot(chart_of, snapshot_file) -> None:
    run = Run(open_file(snapshot_file))
    if "timeline" not in run.capabilities:
        return
    chart = chart_of(run)
    chart.grab()
    chart.item.finish()
    ids, (x0, x1), (y0, y1) = chart.painter.ids(), *chart.view.viewRange()
    rows, columns = np.nonzero(ids >= 0)
    assert len(rows)
    for row, column in list(zip(rows.tolist(), columns.tolist()))[:: len(rows) // 150 + 1]:
        x = x0 + (column + 0.5) * (x1 - x0) / ids.shape[1]
        y = y1 - (row + 0.5) * (y1 - y0) / ids.shape[0]
        assert chart.allocation_at(x, y)[1] == ids[row, column]
        assert "bytes)" in chart.hover_text(x, y) or "byte)" in chart.hover_text(x, y)
    chart.show_layout(ADDRESS)
    chart.grab()
    chart.item.finish()
    index, a = chart.painter.index, run.allocations
    assert len(chart.painter.painted)
    for place in chart.painter.painted[:: len(chart.painter.painted) // 60 + 1].tolist():
        x, y = (index.x0[place] + index.x1[place]) / 2, (index.y0[place] + index.y1[place]) / 2
        position, row = chart.allocation_at(x, y)
        assert a.start[row] <= position < a.end[row]
        assert chart.painter.layout.low[row] <= y < chart.painter.layout.low[row] + a.bytes[row]


def test_a_view_without_a_size_paints_nothing(chart_of, samples) -> None:
    chart = chart_of(Run(open_file(samples / "before.mstrata")))
    chart.resize(2, 2)
    for key in (STACKED, ADDRESS):
        chart.show_layout(key)
        chart.grab()


@pytest.mark.parametrize("key", [STACKED, ADDRESS])
def test_a_saved_picture_is_complete_in_its_own_pixels_and_the_screen_stays_so(chart_of, samples, key) -> None:
    chart = chart_of(Run(open_file(samples / "before.mstrata")))
    page = QWidget()
    chart.setParent(page)
    page.resize(chart.size())
    page.show()
    chart.show()
    chart.show_layout(key)
    chart.grab()
    chart.item.finish()
    before = chart.grab().toImage()
    picture = QImage.fromData(png_bytes(page))
    assert picture.width() == 2 * page.width() and not chart.item.refining
    if key == STACKED:
        rect = chart.view.sceneBoundingRect()
        assert chart.painter.ids().shape == pytest.approx((rect.height() * 2, rect.width() * 2), abs=1)
    assert chart.grab().toImage() == before
    chart.setParent(None)
    page.deleteLater()
