"""What the painters of allocations put on the screen, pixel by pixel, against a slow way of working it out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QColor, QImage, QPainter

from memstrata.capture.format.schema import NONE
from memstrata.viewer.charts import allocation_address
from memstrata.viewer.charts.allocation_address import AddressPainter
from memstrata.viewer.charts.allocation_colours import allocation_colours
from memstrata.viewer.charts.allocation_stacked import StackedPainter, seams
from memstrata.viewer.charts.density import DensityGrid
from memstrata.viewer.charts.frame import Frame
from memstrata.viewer.charts.theme import current
from memstrata.viewer.model.axes import XAxis, by_event, by_time
from memstrata.viewer.model.layout import Stacked
from memstrata.viewer.model.paints import Paint
from memstrata.viewer.model.peaks import Peaks, peaks_between, peaks_of
from memstrata.viewer.model.run import Run

from ..model.random_runs import SLOT, Moves, moves, piles, run_of
from ..model.recordings import Step

WIDTH, HEIGHT = 90, 60
MIB = 1 << 20
RED, BLUE = "#c00000", "#0000c0"


def frame_of(
    x0: float, x1: float, y0: float, y1: float, width: int = WIDTH, height: int = HEIGHT, ratio: float = 1.0
) -> Frame:
    sx, sy = width / (x1 - x0), -height / (y1 - y0)
    return Frame(x0, x1, y0, y1, sx, -x0 * sx, sy, -y1 * sy, ratio)


def painted(painter: StackedPainter | AddressPainter, frame: Frame, refined: bool = True) -> QImage:
    image = QImage(frame.columns, frame.rows, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(frame.ratio)
    image.fill(QColor("white"))
    painter.look_at(frame)
    for _ in painter.refine(frame) if refined else ():
        pass
    paint = QPainter(image)
    painter.paint(paint, frame, current())
    paint.end()
    return image


def colours(run: Run, *fills: str, matches=None, hatch: str = ""):
    paints = [Paint(fill, hatch) for fill in fills]
    labels = np.arange(len(run.allocations)) % len(fills)
    return allocation_colours(labels, paints, matches, current())


def stacked_painter(run: Run, axis: XAxis) -> StackedPainter:
    painter = StackedPainter(Stacked(run.live), run.once(peaks_of), axis)
    painter.show(colours(run, RED, BLUE))
    return painter


def slow_ids(what: Moves, axis: XAxis, frame: Frame) -> list[list[int]]:
    """For each pixel the allocation there: every column shows its highest position, the first of equal ones."""
    every = piles(what)
    heights = [sum(size for _, size in pile) for pile in every]
    out = []
    for row in range(frame.rows):
        y = frame.y1 - (row + 0.5) * ((frame.y1 - frame.y0) / frame.rows)
        line = []
        for column in range(frame.columns):
            low, high = (frame.x0 + (frame.x1 - frame.x0) * c / frame.columns for c in (column, column + 1))
            if high <= axis.edges[0] or low >= axis.edges[-1]:
                continue
            seen = [p for p in range(len(every)) if axis.edges[p] < high and axis.edges[p + 1] > low]
            best = max(seen, key=lambda p: heights[p])
            top, found = 0, NONE
            for allocation, size in every[best]:
                if top <= y < top + size:
                    found = allocation
                top += size
            line.append(found)
        out.append(line)
    return out


@settings(max_examples=25, deadline=None)
@given(
    moves, st.integers(0, 50), st.integers(1, 61), st.integers(0, 40), st.integers(20, 300), st.booleans(),
    st.sampled_from([1.0, 1.0, 2.0]),
)  # fmt: skip
def test_the_stacked_raster_is_pixel_equal_to_piling_up_by_hand(qapp, what, low, span, y0, tall, timed, ratio) -> None:
    run = run_of(what)
    axis = by_time(run) if timed else by_event(run)
    scale = (axis.edges[-1] - axis.edges[0]) / (len(what) + 1)
    x0 = float(axis.edges[0] + low * scale) + scale * 0.013  # no pixel border exactly on an event
    frame = frame_of(x0, x0 + span * scale * 0.997, y0 + 0.013, y0 + tall + 0.013, ratio=ratio)  # nor of a pile
    painter = stacked_painter(run, axis)
    image = painted(painter, frame)
    wanted = slow_ids(what, axis, frame)
    assert painter.ids().tolist() == (wanted if wanted[0] else painter.ids().tolist())
    assert painter.ids().shape[-1] == len(wanted[0])
    seam = seams(painter.ids().T).T
    left = next((c for c in range(frame.columns) if frame.x0 + (c + 1) / frame.sx / ratio > axis.edges[0]), 0)
    for row, line in enumerate(wanted):
        for column, found in enumerate(line):
            fill = "#ffffff" if found == NONE or seam[row, column] else (RED, BLUE)[found % 2]
            assert image.pixelColor(left + column, row).name() == fill


def test_each_pixel_has_the_colour_of_its_allocation_and_a_seam_parts_equal_ones(qapp) -> None:
    step = Step()
    for number in range(2):
        step.alloc((number + 1) * 512, 30, number)
    run = step.run()
    painter = StackedPainter(Stacked(run.live), run.once(peaks_of), by_event(run))
    painter.show(colours(run, RED))
    image = painted(painter, frame_of(0, 3, 0, 60))  # a pixel a byte
    column = [image.pixelColor(80, row).name() for row in range(HEIGHT)]
    assert column == ["#c00000", *[RED] * 29, "#ffffff", *[RED] * 29]
    assert [image.pixelColor(45, row).name() for row in (0, 29, 31, 59)] == ["#ffffff", "#ffffff", RED, RED]


def test_a_moving_view_makes_few_piles_and_a_still_one_all_of_them(qapp, monkeypatch) -> None:
    step = Step()
    for number in range(4000):
        step.alloc((number % 7 + 1) * 512, 10 + number % 5, 2 * number)
        step.free((number % 7 + 1) * 512, 10 + number % 5, 2 * number + 1)
    run = step.run()
    painter = stacked_painter(run, by_event(run))
    monkeypatch.setattr(painter, "_budget", 8)
    frame = frame_of(0, run.n_events + 1, 0, 20)
    painted(painter, frame, refined=False)
    assert 0 < len(painter._piles) <= 8
    shown = painter._shown
    assert shown is not None and len(shown[0].positions) == len(range(2, WIDTH, 4)) and len(shown[0].x) == 23
    steps = list(painter.refine(frame))
    assert len(steps) > 2 and steps[-1] and painter.ids().shape == (HEIGHT, WIDTH)
    painted(painter, frame_of(0, run.n_events + 1, 0, 30), refined=False)  # another height: older piles are of no use
    assert len(painter._piles) <= 8


def test_hatched_groups_are_hatched_in_the_raster(qapp) -> None:
    step = Step()
    step.alloc(512, 60, 0)
    run = step.run()
    for hatch in ("diagonal", "dots"):
        painter = StackedPainter(Stacked(run.live), run.once(peaks_of), by_event(run))
        painter.show(colours(run, RED, hatch=hatch))
        image = painted(painter, frame_of(1, 2, 0, 60))
        names = {image.pixelColor(x, y).name() for x in range(WIDTH) for y in range(2, HEIGHT)}
        assert len(names) == 2 and RED in names


def address_run() -> Run:
    """Three neighbours of 20 bytes, alive from event 1, 2 and 3; the second is freed by event 4, the last event."""
    step = Step()
    for number in range(3):
        step.alloc(1000 + 20 * number, 20, number)
    step.free(1020, 20, 3)
    return step.run()


def test_by_address_each_rectangle_is_exact(qapp) -> None:
    run = address_run()
    painter = AddressPainter(run, by_event(run))
    painter.show(colours(run, RED, BLUE))
    image = painted(painter, frame_of(0, 5, 0, 60, width=100))  # 20 pixels an event, a pixel a byte
    seen = {(x, y): image.pixelColor(x, y).name() for x in (10, 30, 50, 70, 90) for y in (10, 30, 50)}
    white = "#ffffff"
    assert [seen[x, 50] for x in (10, 30, 50, 70, 90)] == [white, RED, RED, RED, RED]
    assert [seen[x, 30] for x in (10, 30, 50, 70, 90)] == [white, white, BLUE, BLUE, white]
    assert [seen[x, 10] for x in (10, 30, 50, 70, 90)] == [white, white, white, RED, RED]
    assert sorted(painter.index.row[painter.painted].tolist()) == [0, 1, 2]


def slow_rectangles(what: Moves) -> list[tuple[int, int, int, int]]:
    """(event of its making + 1, of its freeing + 1, lowest address, bytes) of each allocation, the slow way."""
    held, out = dict[int, int](), list[tuple[int, int, int, int]]()
    for event, (slot, size) in enumerate(what):
        if slot in held:
            row = held.pop(slot)
            out[row] = (out[row][0], event + 1, *out[row][2:])
        else:
            held[slot] = len(out)
            out.append((event + 1, len(what) + 1, slot * SLOT, size))
    return out


def whole_pixels(low: float, high: float, seam_at_end: bool, ratio: int) -> range:
    """Which device pixels lie between two edges: rounded, at least a pixel of them, and a pixel of them left out at an
    end where there are four."""
    first, last = round(low * ratio), round(high * ratio)
    if last - first >= 4 * ratio:
        first, last = (first, last - ratio) if seam_at_end else (first + ratio, last)
    return range(first, max(last, first + ratio))


@settings(max_examples=40, deadline=None)
@given(moves, st.integers(0, 9), st.integers(3, 30), st.integers(0, 130), st.integers(20, 60), st.sampled_from([1, 2]))
@example([(0, 30), (1, 20), (0, 1), (2, 40)], 0, 6, 0, 60, 2)
def test_by_address_every_pixel_is_that_of_the_allocation_there(qapp, what, x0, wide, y0, tall, ratio) -> None:
    run = run_of(what)
    painter = AddressPainter(run, by_event(run))
    painter.show(colours(run, RED, BLUE))
    frame = frame_of(
        x0 + 0.013, x0 + wide + 0.013, y0 + 0.017, y0 + tall + 0.017, ratio=ratio
    )  # no edge on half a pixel
    image = painted(painter, frame)
    wanted = dict[tuple[int, int], str]()
    lowest = min(low for _, _, low, _ in slow_rectangles(what))
    for row, (start, end, low, size) in enumerate(slow_rectangles(what)):
        columns = whole_pixels(frame.x(start), frame.x(end), True, ratio)
        rows = whole_pixels(frame.y(low - lowest + size), frame.y(low - lowest), False, ratio)
        wanted |= {(x, y): (RED, BLUE)[row % 2] for y in rows for x in columns}
    for y in range(frame.rows):
        for x in range(frame.columns):
            found = image.pixelColor(x, y).name()
            assert wanted.get((x, y)) == (found if found in (RED, BLUE) else None)


def test_what_a_filter_does_not_match_is_pale(qapp) -> None:
    run = address_run()
    painter = AddressPainter(run, by_event(run))
    painter.show(colours(run, RED, BLUE, matches=np.array([True, False, False])))
    image = painted(painter, frame_of(0, 5, 0, 60, width=100))
    assert image.pixelColor(50, 50).name() == RED
    assert image.pixelColor(50, 30).lightness() > QColor(BLUE).lightness() + 60


def short_lived(count: int) -> Run:
    """A large allocation throughout, and beside it many small ones one after the other."""
    step = Step()
    step.alloc(1 << 20, MIB, 0)
    for number in range(count):
        step.alloc((2 << 20) + number % 16 * 512, 512, 2 * number + 1)
        step.free((2 << 20) + number % 16 * 512, 512, 2 * number + 2)
    return step.run()


def test_what_is_too_small_for_a_pixel_becomes_a_backdrop_and_returns_when_zoomed_in(qapp) -> None:
    run = short_lived(3000)
    axis = by_event(run)
    painter = AddressPainter(run, axis)
    painter.show(colours(run, RED))
    top = float(painter.layout.height)
    whole = frame_of(0, run.n_events + 1, 0, top)
    image = painted(painter, whole)
    assert painter.index.row[painter.painted].tolist() == [0]
    behind = [image.pixelColor(x, 0) for x in range(2, WIDTH - 2)]
    assert all(colour.red() > colour.green() + 10 for colour in behind)
    near = frame_of(1000, 1010, painter.layout.y_of(np.array([2 << 20]))[0] + 1, top, width=400)
    painted(painter, near)
    alive = (run.allocations.start <= 1010) & (run.allocations.end >= 1000)
    assert set(painter.index.row[painter.painted].tolist()) == set(np.flatnonzero(alive).tolist()) - {0}


def test_no_more_rectangles_are_painted_than_there_is_time_for_and_the_largest_are_among_them(
    qapp, monkeypatch
) -> None:
    run = short_lived(300)
    monkeypatch.setattr(allocation_address, "MOST_RECTANGLES", 20)
    painter = AddressPainter(run, by_event(run))
    painter.show(colours(run, RED))
    painted(painter, frame_of(0, run.n_events + 1, 0, painter.layout.height, width=900, height=700))
    assert painter.index.row[painter.painted].tolist() == [0]


boxes = st.tuples(st.floats(0, 60), st.floats(0.001, 1), st.floats(0, 40), st.floats(0.5, 25), st.booleans())


@settings(max_examples=60, deadline=None)
@given(st.lists(boxes, min_size=1, max_size=12))
def test_the_backdrop_covers_as_much_as_the_rectangles(qapp, rects) -> None:
    step = Step()
    step.alloc(512, 1, 0)
    run = step.run()
    grid = DensityGrid(frame_of(0, 200, 0, 150, width=200, height=150), colours(run, RED), 2)
    x, w, y, h = (np.array([r[i] if not r[4] else r[(i + 2) % 4] for r in rects]) for i in range(4))
    index = type("Rects", (), {"x0": x, "x1": x + w, "y0": y, "y1": y + h, "row": np.zeros(len(x), np.int32)})()
    grid.add(index, np.arange(len(x)), 1.0)
    cover = grid.coverage()
    assert cover.shape == (4, 75, 100) and cover.min() > -1e-9
    assert cover[0].sum() * 4 == pytest.approx((w * h).sum())
    assert np.allclose(cover[1], cover[0] * 0xC0, atol=1e-6) and np.allclose(cover[2:], 0, atol=1e-6)


@given(
    st.lists(st.integers(0, 1 << 40), min_size=1, max_size=400),
    st.lists(st.tuples(st.integers(0, 399), st.integers(0, 399)), max_size=40),
)
def test_peaks_are_found_in_any_interval(values, pairs) -> None:
    curve = np.array(values, np.int64)
    last = len(values) - 1
    begin = np.array([min(*pair, last) for pair in pairs], np.int64)
    end = np.array([max(min(max(pair), last), b) for pair, b in zip(pairs, begin.tolist())], np.int64)
    assert Peaks(curve).between(begin, end).tolist() == peaks_between(curve, begin, end).tolist()


def test_values_that_leave_no_room_for_a_position_are_searched_plainly() -> None:
    curve = np.array([5, 2**62, 2**62, 7], np.int64)
    assert Peaks(curve).between(np.array([0, 2]), np.array([3, 3])).tolist() == [1, 2]


def test_the_selected_allocation_is_outlined_in_both_layouts(qapp) -> None:
    run = address_run()
    for painter in (
        AddressPainter(run, by_event(run)),
        StackedPainter(Stacked(run.live), run.once(peaks_of), by_event(run)),
    ):
        painter.show(colours(run, RED, BLUE))
        frame = frame_of(0, 5, 0, 70, width=100, height=70)
        image = painted(painter, frame)
        before = image.copy()
        paint = QPainter(image)
        painter.paint_selected(paint, frame, 0, current())
        paint.end()
        ink = {image.pixelColor(60, y).name() for y in range(round(frame.y(20)) - 2, round(frame.y(20)) + 3)}
        assert image != before and QColor(current().text).name() in ink
        assert image.pixelColor(10, 60) == before.pixelColor(10, 60)  # it is not alive yet


def test_an_outline_is_drawn_for_what_is_too_thin_for_a_pixel(qapp) -> None:
    step = Step()
    step.alloc(1 << 20, MIB, 0)
    step.alloc(1 << 22, 1, 1)
    run = step.run()
    painter = stacked_painter(run, by_event(run))
    frame = frame_of(0, 3, 0, 2 * MIB)
    image = painted(painter, frame)
    before = image.copy()
    paint = QPainter(image)
    painter.paint_selected(paint, frame, 1, current())
    paint.end()
    assert image != before


def test_what_was_painted_is_what_a_point_finds(qapp) -> None:
    run = address_run()
    painter = stacked_painter(run, by_event(run))
    frame = frame_of(0, 5, 0, 60)
    painted(painter, frame)
    ids = painter.ids()
    for column in range(0, WIDTH, 7):
        position = painter.position_at(frame.x0 + (column + 0.5) / frame.sx)
        for row in range(0, HEIGHT, 5):
            y = frame.y1 - (row + 0.5) * (frame.y1 - frame.y0) / HEIGHT
            assert painter.stacked.at(position, y) == ids[row, column]
