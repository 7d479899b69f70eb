"""What is shown while a view moves: less than when it is still, and nothing that is not there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QPainter

from memstrata.viewer.charts import allocation_address
from memstrata.viewer.charts.allocation_address import AddressPainter
from memstrata.viewer.charts.allocation_stacked import top_pixel
from memstrata.viewer.charts.density import DensityGrid
from memstrata.viewer.charts.rectangles import PixelRectangles, Rectangles
from memstrata.viewer.charts.theme import current
from memstrata.viewer.model.axes import by_event

from ..model.random_runs import Moves, moves, run_of
from .test_allocation_painters import RED, WIDTH, colours, frame_of, painted, short_lived, stacked_painter


@settings(max_examples=30, deadline=None)
@given(moves, st.integers(0, 20), st.integers(2, 61), st.sampled_from([1.0, 2.0]))
def test_a_moving_stack_loses_no_peak_and_shows_true_piles(qapp, what: Moves, low: int, span: int, ratio) -> None:
    run = run_of(what)
    frame = frame_of(low + 0.01, low + span * 0.997, 0.013, 300.0, ratio=ratio)
    painter = stacked_painter(run, by_event(run))
    painted(painter, frame, refined=False)
    assert painter._shown is not None
    shown = painter._shown[1]
    assert len(shown) <= frame.columns // round(4 * ratio)
    seen = np.arange(int(frame.x0), min(int(frame.x1), run.n_events) + 1)
    if len(seen) and len(shown):
        assert run.curve[shown].max() == run.curve[seen].max()
    rows = (np.arange(top_pixel(frame), top_pixel(frame) + frame.rows) + 0.5) / ratio
    wanted = [painter.stacked.column(position, (rows - frame.dy) / frame.sy).tolist() for position in shown.tolist()]
    assert painter.ids().T.tolist() == wanted


def test_a_picture_can_be_painted_at_any_time_while_it_gets_better(qapp, monkeypatch) -> None:
    run = short_lived(900)
    painter = stacked_painter(run, by_event(run))
    monkeypatch.setattr(painter, "_budget", 5)
    image = QImage(WIDTH, 60, QImage.Format.Format_RGB32)
    for number in range(12):  # many times over, so that old piles have to go
        frame = frame_of(number * 90, number * 90 + 500, 0, 1_100_000)
        paint = QPainter(image)
        painter.look_at(frame)
        for _ in (None, *painter.refine(frame)):
            painter.paint(paint, frame, current())
            painter.paint_selected(paint, frame, 0, current())
            assert painter.position_at(frame.x0 + 250) in painter._piles
        paint.end()
        assert len(painter._piles) <= 3 * WIDTH
        assert painter.ids().shape == (60, WIDTH)


def test_a_moving_backdrop_is_made_of_some_that_count_for_all(qapp, monkeypatch) -> None:
    run = short_lived(6000)
    painter = AddressPainter(run, by_event(run))
    painter.show(colours(run, RED))
    frame = frame_of(0, run.n_events + 1, 0, painter.layout.height, width=300, height=200)
    monkeypatch.setattr(allocation_address, "_SAMPLED", 500)
    covered = []

    class Kept(DensityGrid):
        def pixels(self):
            covered.append(self.coverage()[0].sum() / self.width / self.height)
            return super().pixels()

    monkeypatch.setattr(allocation_address, "DensityGrid", Kept)
    painted(painter, frame)
    assert sorted(painter._thinned) == [16]  # one of 16, as 6000 are too many by more than 8 times
    bytes_events = int((run.allocations.bytes * (run.allocations.end - run.allocations.start))[1:].sum())
    whole = painter.layout.height * (run.n_events + 1)
    assert covered == pytest.approx([bytes_events / whole] * 2, rel=0.01)


@pytest.mark.parametrize("ratio", [1.0, 1.25, 1.5, 2.0])
def test_rectangles_of_device_pixels_are_filled_like_any(qapp, ratio: float) -> None:
    random = np.random.default_rng(5)
    left, top = random.integers(-5, 90, (2, 300))
    right, bottom = left + random.integers(1, 9, 300), top + random.integers(1, 9, 300)
    right[0], left[1] = 10**9, -(10**9)  # far out of sight
    images = []
    for whole in (True, False):
        image = QImage(100, 100, QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(ratio)
        image.fill(QColor("white"))
        paint = QPainter(image)
        paint.setPen(Qt.PenStyle.NoPen)
        paint.setBrush(QColor(RED))
        if whole:
            PixelRectangles().put(left, top, right, bottom).paint(paint, ratio, 0, 200)
        else:
            edges = (edge[:200] / ratio for edge in (left, top, right, bottom))
            Rectangles().put(*edges).paint(paint)
        paint.end()
        images.append(image)
    assert images[0] == images[1]
    alone = PixelRectangles().put(left, top, right, bottom).units(ratio, 7, 8)
    assert alone.count == 1


def test_outlines_are_those_of_a_pen(qapp) -> None:
    random = np.random.default_rng(6)
    left, top = random.integers(-5, 90, (2, 40))
    made = PixelRectangles().put(left, top, left + random.integers(1, 30, 40), top + random.integers(1, 30, 40))
    images = []
    for drawn in (False, True):
        image = QImage(100, 100, QImage.Format.Format_RGB32)
        image.fill(QColor("white"))
        paint = QPainter(image)
        if drawn:
            paint.setPen(QColor(RED))
            made.units(1.0).paint(paint)
        else:
            paint.setPen(Qt.PenStyle.NoPen)
            paint.setBrush(QColor(RED))
            made.outlines(1).paint(paint, 1.0)
        paint.end()
        images.append(image)
    assert images[0] == images[1]
