"""Stacked bands painted: as one image on a screen, as rectangles on paper; no polygon is ever filled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter

from memstrata.capture.format.schema import F64, I64

from ..look import palette
from ..look.tips import one_line
from ..model.paints import Paint
from .band_raster import can_raster, paint_raster
from .colours import fill_brush, hatch_brush
from .rectangles import Rectangles
from .stacking import Stack

DIMMED = 0.22
_FOOT = 10
"""Pixels at the foot of the bands where no name is written: there the selected allocation has its bar."""


def paint_stack(painter: QPainter, bands: Stack, paints: Sequence[Paint], lifted: int | None = None) -> None:
    """Paint all bands; with `lifted` the others are dimmed."""
    opacities = [1.0 if lifted is None or lifted == group else DIMMED for group in range(bands.groups)]
    fills = [fill_brush(paint, opacity) for paint, opacity in zip(paints, opacities)]
    hatches = [hatch_brush(paint, opacity) for paint, opacity in zip(paints, opacities)]
    painter.setPen(Qt.PenStyle.NoPen)
    if can_raster(painter, bands):
        paint_raster(painter, bands, [fill.color() for fill in fills])
    else:
        _paint_each(painter, bands, fills)
    _paint_each(painter, bands, hatches)


def _paint_each(painter: QPainter, bands: Stack, brushes: Sequence[QBrush | None]) -> None:
    """The rectangles of each band that has a brush."""
    rectangles = Rectangles()
    for group, brush in enumerate(brushes):
        if brush is not None and rectangles.put(*bands.sides(group)).count:
            painter.setBrush(brush)
            rectangles.paint(painter)


def band_rects(bands: Stack, group: int) -> list[QRectF]:
    """The rectangles of one band."""
    left, top, right, bottom = bands.sides(group)
    return [QRectF(*side) for side in np.stack([left, top, right - left, bottom - top], axis=1).tolist()]


def paint_labels(painter: QPainter, bands: Stack, names: Sequence[str], paints: Sequence[Paint]) -> None:
    """Write names into the bands that have room for them, at their highest place."""
    metrics = QFontMetricsF(painter.font())
    height = metrics.height()
    most = (bands.y[:-1] - bands.y[1:]).max(axis=1, initial=0)
    starts = np.arange(0, len(bands.x) - 1, 8)
    foot = bands.y[0] - _FOOT
    for group in np.flatnonzero(most >= height + 2).tolist():
        name = one_line(names[group])
        width = metrics.horizontalAdvance(name) + 10
        place = _room(bands, group, starts, foot, (width, height))
        if place is None:
            continue
        rect = QRectF(place[0], place[1] - height / 2, width, height)
        if paints[group].hatch:  # text on a hatch is hard to read
            painter.fillRect(rect, fill_brush(paints[group]))
        painter.setPen(QColor(palette.text_on(paints[group].fill)))
        painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, name)


def _room(bands: Stack, group: int, starts: I64, foot: F64, size: tuple[float, float]) -> tuple[float, float] | None:
    """(left, middle) of a place of a size inside a band and over its foot, from one of the columns `starts` on; None if
    there is none. Of all places the one nearest to a spot left of the peak of the stack, so that names stand over each
    other and the peak stays clear."""
    width, height = size
    x = bands.x[starts]
    spans = np.empty((len(starts), 2), np.int64)
    spans[:, 0], spans[:, 1] = starts, bands.x.searchsorted(x + width)
    spans = spans[: int(spans[:, 1].searchsorted(len(bands.x) - 1))]
    if not len(spans):
        return None
    low = np.minimum.reduceat(np.minimum(bands.y[group], foot), spans.ravel())[::2]
    high = np.maximum.reduceat(bands.y[group + 1], spans.ravel())[::2]
    fits = np.flatnonzero(low - high >= height + 2)
    if not len(fits):
        return None
    wanted = bands.x[bands.y[-1].argmin()] - width - 24
    best = int(fits[np.abs(x[fits] - wanted).argmin()])
    return float(x[best]), float((low[best] + high[best]) / 2)
