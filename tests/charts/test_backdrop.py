"""A finished backdrop goes along with the view: what stays in sight does not change while it is dragged."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtGui import QImage, QPainter

from memstrata.viewer.charts.allocation_address import AddressPainter
from memstrata.viewer.charts.backdrop import Cells, paint_cells
from memstrata.viewer.charts.pixels import Canvas
from memstrata.viewer.model.address_index import Box
from memstrata.viewer.model.axes import by_event
from memstrata.viewer.model.run import Run

from .test_allocation_painters import BLUE, HEIGHT, RED, WIDTH, colours, frame_of, painted, short_lived


@pytest.fixture
def run() -> Run:
    return short_lived(3000)


def pixels(image: QImage) -> np.ndarray:
    return np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), -1).copy()


def seen(run: Run, left: float, share: float = 1 / 6):
    """So much of the run from an event on; the small allocations fill the height."""
    top = float(AddressPainter(run, by_event(run)).layout.height)
    return frame_of(left, left + run.n_events * share, top * 0.998, top)


@pytest.mark.parametrize("moved", [10, -10, 44])
def test_what_stays_in_sight_does_not_change_while_it_is_dragged(qapp, run: Run, moved: int) -> None:
    painter = AddressPainter(run, by_event(run))
    painter.show(colours(run, RED, BLUE))
    first = seen(run, 2000.0)
    before = pixels(painted(painter, first))
    wide = first.x1 - first.x0
    after = pixels(painted(painter, seen(run, 2000.0 + moved * wide / WIDTH), refined=False))
    assert len(np.unique(before)) > 5 and not len(painter.painted)
    stays = before[:, moved:], after[:, :-moved]
    if moved < 0:
        stays = before[:, :moved], after[:, -moved:]
    assert (stays[0] == stays[1]).all()
    fresh = after[:, -moved:] if moved > 0 else after[:, :-moved]
    assert (fresh != 0xFFFFFFFF).any(axis=0).all()  # and beyond it is a sample


def test_what_is_shown_again_is_whole_once_it_rests(qapp, run: Run) -> None:
    painter = AddressPainter(run, by_event(run))
    painter.show(colours(run, RED))
    painted(painter, seen(run, 1000.0))
    painted(painter, seen(run, 1300.0), refined=False)
    other = AddressPainter(run, by_event(run))
    other.show(colours(run, RED))
    frame = seen(run, 1300.0)
    assert (pixels(painted(painter, frame)) == pixels(painted(other, frame))).all()


def test_other_colours_are_painted_anew(qapp, run: Run) -> None:
    painter = AddressPainter(run, by_event(run))
    painter.show(colours(run, RED))
    painted(painter, seen(run, 1000.0))
    painter.show(colours(run, BLUE))
    image = painted(painter, seen(run, 1001.0), refined=False)
    found = [image.pixelColor(x, HEIGHT // 2) for x in range(WIDTH)]
    assert all(colour.blue() >= colour.red() for colour in found)


def test_it_goes_along_only_where_it_looks_alike() -> None:
    was = frame_of(0, 90, 0, 60)
    cells = Cells(was, np.zeros((30, 45), np.uint32), Box(0, 90, 0, 60))
    assert cells.suits(frame_of(20, 110, 0, 60)) and cells.suits(frame_of(30, 60, 20, 40))
    assert not cells.suits(frame_of(90, 180, 0, 60))  # nothing of it is in sight
    assert not cells.suits(frame_of(-90, 180, 0, 60)) and not cells.suits(frame_of(0, 9, 0, 60))  # too far, too near
    assert not cells.suits(frame_of(0, 90, 0, 60, ratio=2.0))
    assert cells.beyond(was) is None and cells.beyond(frame_of(30, 60, 20, 40)) is None
    right, left = cells.beyond(frame_of(20, 110, 0, 60)), cells.beyond(frame_of(-20, 70, 0, 60))
    assert right is not None and (right.x0, right.x1) == (90, 110)
    assert left is not None and (left.x0, left.x1) == (-20, 0)
    above = cells.beyond(frame_of(20, 110, 10, 70))
    assert above is not None and (above.x0, above.x1, above.y0, above.y1) == (20, 110, 10, 70)


def test_cells_lie_where_their_frame_is(qapp) -> None:
    """Two by two cells of half the picture, moved by a quarter of it."""
    four = np.array([[1, 2], [3, 4]], np.uint32) | 0xFF000000
    cells = Cells(frame_of(0, 40, 0, 40, 40, 40), four, Box(0, 40, 0, 40))
    frame = frame_of(10, 50, -10, 30, 40, 40)
    image = QImage(40, 40, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(0)
    painter = QPainter(image)
    paint_cells(painter, frame, [cells], Canvas())
    painter.end()
    found = pixels(image)
    assert (found[:10, :10] == four[0, 0]).all() and (found[:10, 10:30] == four[0, 1]).all()
    assert (found[10:30, :10] == four[1, 0]).all() and (found[10:30, 10:30] == four[1, 1]).all()
    assert not found[30:].any() and not found[:, 30:].any()
