"""Stacked bands on the screen, pixel by pixel, against a slow way of working out what belongs there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QSize
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtSvg import QSvgGenerator

from memstrata.viewer.charts import band_raster
from memstrata.viewer.charts.band_painter import DIMMED, paint_stack
from memstrata.viewer.charts.stacking import Stack, stack
from memstrata.viewer.model.paints import Paint

WIDTH, HEIGHT, ZERO = 26, 21, 20
FILLS = ("#c00000", "#0000c0", "#1f8a78", "#eee87c")
AS_IMAGE, AS_RECTANGLES = 1e9, 0.0

Bytes = Sequence[Sequence[int]]
columns_of_bytes = st.lists(st.lists(st.integers(0, 12), min_size=4, max_size=4), min_size=1, max_size=12)


def painted(bands: Stack, tall: float, lifted: int | None = None, fills: Sequence[str] = FILLS) -> QImage:
    """On white, as one image or as rectangles."""
    image = QImage(round(WIDTH * bands.ratio), round(HEIGHT * bands.ratio), QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(bands.ratio)
    image.fill(QColor("white"))
    painter = QPainter(image)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(band_raster, "_TALL", tall)
        paint_stack(painter, bands, [Paint(fill) for fill in fills], lifted)
    painter.end()
    return image


def colours(image: QImage) -> list[list[str]]:
    return [[image.pixelColor(x, y).name() for x in range(image.width())] for y in range(image.height())]


def slow(x: Sequence[float], columns: Bytes, per_byte: float, ratio: float) -> list[list[int]]:
    """The band of each device pixel, -1 for none: edges are rounded to whole ones, a lone speck gets a whole one."""
    out = [[-1] * round(WIDTH * ratio) for _ in range(round(HEIGHT * ratio))]
    for sizes, left, right in zip(columns, x, x[1:]):
        ends = [round(ZERO * ratio - sum(sizes[:n]) * per_byte * ratio) for n in range(len(sizes) + 1)]
        spans = list(zip(ends[1:], ends))
        if sum(sizes) and ends[0] == ends[-1]:
            spans = [(ends[0], ends[0])] * len(sizes)
            spans[sizes.index(max(sizes))] = (ends[0] - 1, ends[0])
        for band, (top, bottom) in enumerate(spans):
            for row in range(max(top, 0), bottom):
                for column in range(round(left * ratio), round(right * ratio)):
                    if 0 <= column < len(out[row]):
                        out[row][column] = band
    return out


def made(x: Sequence[float], columns: Bytes, per_byte: float, ratio: float) -> Stack:
    return stack(np.array(x), np.array(columns, np.int64).T, ZERO, per_byte, ratio)


@settings(max_examples=60, deadline=None)
@given(columns_of_bytes, st.integers(-4, 40), st.sampled_from([1.0, 1.5, 2.0]), st.integers(1, 12), st.integers(2, 24))
@example([[0, 0, 0, 0]], 0, 1.0, 4, 8)
@example([[0, 1, 0, 0], [12, 12, 12, 12]], 0, 2.0, 12, 1)
def test_both_ways_of_painting_give_the_pixels_that_belong_there(qapp, columns, left, ratio, height, wide) -> None:
    x = [left / 4 + n * wide / 8 for n in range(len(columns) + 1)]  # from a quarter of a pixel to three of them wide
    per_byte = height / 32  # no column is higher than the picture, many bands are lower than a pixel
    wanted = [[FILLS[band] if band >= 0 else "#ffffff" for band in row] for row in slow(x, columns, per_byte, ratio)]
    bands = made(x, columns, per_byte, ratio)
    assert colours(painted(bands, AS_RECTANGLES)) == wanted
    assert colours(painted(bands, AS_IMAGE)) == wanted


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_other_bands_than_the_lifted_one_are_dimmed_alike_either_way(qapp, ratio) -> None:
    bands = made([0, 9, 26], [[4, 5, 6, 3], [9, 1, 0, 8]], 1.0, ratio)
    images = [painted(bands, tall, lifted=1) for tall in (AS_IMAGE, AS_RECTANGLES)]
    for row, column in ((19, 3), (13, 3), (7, 3), (19, 20), (10, 20)):
        one, other = (image.pixelColor(int(column * ratio), int(row * ratio)).getRgb() for image in images)
        assert max(abs(a - b) for a, b in zip(one, other)) <= 1
    assert images[0].pixelColor(int(3 * ratio), int(13 * ratio)).name() == FILLS[1]
    pale = images[0].pixelColor(int(3 * ratio), int(19 * ratio))
    assert pale.green() == pytest.approx(255 * (1 - DIMMED), abs=2)


def test_a_group_is_still_hatched_over_the_image(qapp) -> None:
    bands = made([0, 26], [[0, 18, 0, 0]], 1.0, 1.0)
    image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    painter = QPainter(image)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(band_raster, "_TALL", AS_IMAGE)
        paint_stack(painter, bands, [Paint(fill, "diagonal") for fill in FILLS])
    painter.end()
    names = [name for row in colours(image)[3:19] for name in row]
    assert len(set(names)) == 2 and names.count(FILLS[1]) > len(names) / 2


@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_what_is_less_than_a_pixel_high_stays_where_there_is_nothing_else(qapp, ratio) -> None:
    bands = made([0, 13, 26], [[0, 0, 1, 0], [0, 0, 0, 0]], 1e-9, ratio)
    seen = colours(painted(bands, AS_IMAGE))
    row = round(ZERO * ratio) - 1
    assert seen[row] == [FILLS[2]] * round(13 * ratio) + ["#ffffff"] * round(13 * ratio)
    assert seen[row - 1] == seen[row + 1] == ["#ffffff"] * round(WIDTH * ratio)


def test_a_vector_picture_gets_rectangles_and_no_image(qapp) -> None:
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(QSize(WIDTH, HEIGHT))
    painter = QPainter(generator)
    many = [[1, 1, 1, 1]] * WIDTH
    bands = made(range(WIDTH + 1), many, 4.0, 1.0)
    assert not band_raster.can_raster(painter, bands)
    paint_stack(painter, bands, [Paint(fill) for fill in FILLS])
    painter.end()
    text = bytes(data.data()).decode()
    assert "<image" not in text and all(fill in text for fill in FILLS)


def test_many_low_bands_are_an_image_and_few_high_ones_rectangles(qapp) -> None:
    image = QImage(2000, 900, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    x = np.arange(2001.0)
    assert band_raster.can_raster(painter, stack(x, np.full((64, 2000), 10), 900, 1.0))
    assert not band_raster.can_raster(painter, stack(x, np.full((2, 2000), 10), 900, 40.0))
    assert not band_raster.can_raster(painter, stack(x, np.zeros((2, 2000), np.int64), 900, 1.0))
    assert not band_raster.can_raster(painter, stack(x[:1], np.zeros((2, 0), np.int64), 900, 1.0))
    painter.end()
