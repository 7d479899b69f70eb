"""The curves of two runs on one axis, pixel by pixel, and the lines of steps that every curve is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QApplication

from memstrata.viewer.analysis.common_axes import COMMON_AXES
from memstrata.viewer.charts import pair_item
from memstrata.viewer.charts.frame import Frame
from memstrata.viewer.charts.matching_lines import MatchingLines
from memstrata.viewer.charts.pair_item import PairItem
from memstrata.viewer.charts.step_line import step_line
from memstrata.viewer.model.peaks import peaks_of
from memstrata.viewer.model.run import Run
from memstrata.viewer.state.loading import open_run

WIDTH, HEIGHT = 700, 160


@pytest.fixture(scope="module")
def item(qapp: QApplication, samples: Path) -> PairItem:
    before, after = (open_run(str(samples / f"{name}.mstrata")) for name in ("before", "after"))
    return PairItem(COMMON_AXES["share"].make(before, after), (before, after))


def frame_of(item: PairItem, low: float = 0.0, high: float = 100.0) -> Frame:
    """So much of the axis in the picture, the higher peak a little under its upper edge."""
    sx, sy = WIDTH / (high - low), -HEIGHT / (1.1 * max(run.peak_bytes for run in item.runs))
    return Frame(low, high, 0, HEIGHT / -sy, sx, -low * sx, sy, HEIGHT)


def painted(item: PairItem, frame: Frame) -> np.ndarray:
    image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFFFF)
    painter = QPainter(image)
    item.paint_pixels(painter, frame)
    painter.end()
    return np.frombuffer(image.constBits(), np.uint8).reshape(HEIGHT, WIDTH, 4)[:, :, :3].astype(np.int64)


@pytest.mark.parametrize(("low", "high"), [(0.0, 100.0), (37.5, 38.25)])
def test_areas_are_the_same_as_an_image_and_as_rectangles(
    item: PairItem, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = frame_of(item, low, high)
    as_image = painted(item, frame)
    monkeypatch.setattr(pair_item, "can_raster", lambda *_, **__: False)
    monkeypatch.setattr(pair_item, "paint_raster", None)
    as_rectangles = painted(item, frame)
    assert np.abs(as_image - as_rectangles).max() <= 2  # colours are mixed with what lies behind: rounding
    assert len(np.unique(as_image.reshape(-1, 3), axis=0)) > 6


def test_a_drawing_gets_shapes_and_no_image(item: PairItem, tmp_path: Path) -> None:
    made = QSvgGenerator()
    made.setFileName(str(tmp_path / "pair.svg"))
    made.setSize(QSize(WIDTH, HEIGHT))
    painter = QPainter(made)
    item.paint_pixels(painter, frame_of(item))
    painter.end()
    text = (tmp_path / "pair.svg").read_text()
    assert text.count("<rect") > 50 and "<image" not in text


def test_the_area_reaches_to_the_highest_state_of_each_column(item: PairItem) -> None:
    """The run before alone: under the line, which is two pixels wide, all is filled, and over it nothing is."""
    run = item.runs[0]
    alone = PairItem(COMMON_AXES["share"].make(run, nothing_like(run)), (run, nothing_like(run)))
    frame, axis = frame_of(item), item.axes[0]
    filled = (painted(alone, frame) != 255).any(axis=2)
    peak = int(frame.x(float(axis.x_of(run.peak_position))))
    names = [*alone.pills, QRectF(peak - 5, 0, 10, 0)]
    free = [x for x in range(10, WIDTH, 30) if not any(name.left() - 9 < x < name.right() + 9 for name in names)]
    assert len(free) > 6
    for column in free:
        first, last = (int(axis.position_at(x / WIDTH * 100)) for x in (column, column + 1 - 1e-9))
        top = HEIGHT + int(run.curve[first : last + 1].max()) * frame.sy
        assert filled[round(top) + 1 :, column].all() and not filled[: round(top) - 2, column].any(), column


def nothing_like(run: Run) -> Run:
    """The same run without any bytes."""
    events = run.recording.events
    none = replace(events, bytes=np.zeros_like(events.bytes))
    storages = replace(run.recording.known_storages, bytes=np.zeros_like(run.recording.known_storages.bytes))
    return Run(replace(run.recording, events=none, known_storages=storages), name="nothing")


@pytest.mark.parametrize("height", [60, 90, 140, 400])
def test_names_of_peaks_do_not_lie_over_each_other(item: PairItem, height: int) -> None:
    """The same run twice: both peaks are one point. However low the chart is, both names can be read."""
    run = item.runs[0]
    twice = PairItem(COMMON_AXES["share"].make(run, run), (run, run))
    frame = frame_of(twice)
    painted(twice, replace(frame, sy=frame.sy * height / HEIGHT, dy=height, y1=frame.y1))
    first, second = twice.pills
    assert not first.intersects(second)
    assert min(first.top(), second.top()) >= 0 and max(first.bottom(), second.bottom()) <= height + 1


def test_a_line_of_steps_has_a_corner_where_its_height_changes() -> None:
    line = step_line(np.array([0.0, 1, 2, 4, 5]), np.array([7.0, 7, 3, 9]))
    corners = [(0, 7), (2, 7), (2, 3), (4, 3), (4, 9), (5, 9)]
    assert list(line) == [QPointF(*corner) for corner in corners]
    assert list(step_line(np.array([2.0, 6]), np.array([5.0]))) == [QPointF(2, 5), QPointF(6, 5)]
    assert step_line(np.array([2.0]), np.empty(0)).isEmpty()


def test_the_key_of_matching_lines_takes_the_room_there_is(item: PairItem) -> None:
    frame, image = frame_of(item), QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)
    lines = MatchingLines("mlp " * 30, (peaks_of(item.runs[0]), peaks_of(item.runs[1])))
    painter, found = QPainter(image), []
    for taken in (0, 150, 380, WIDTH):  # pixels of a name in the middle of the picture, as high as it is
        name = QRectF((WIDTH - taken) / 2, 0, taken, HEIGHT)
        found.append(lines.paint_key(painter, frame, item.theme, [name]))
        assert frame.rect.contains(found[-1]) and (taken == WIDTH or not found[-1].intersects(name))
    painter.end()
    widths = [place.width() for place in found]
    assert widths[0] > widths[1] > widths[2] == widths[3]
