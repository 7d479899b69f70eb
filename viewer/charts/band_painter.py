"""Stacked bands as pixel-snapped rectangles, one per run of equal pixel columns; no polygon is ever filled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter

from memstrata.capture.format.schema import F64, I64

from ..look import palette
from ..model.paints import Paint
from .colours import fill_brush, hatch_brush
from .rectangles import Rectangles

DIMMED = 0.22


@dataclass(frozen=True, eq=False)
class Stack:
    """Bands in device pixels: column c reaches from `x[c]` to `x[c + 1]`; band g from `y[g]` up to `y[g + 1]`."""

    x: F64
    y: F64
    """Shape [groups + 1, columns]; y falls upwards, as on the screen."""

    @property
    def groups(self) -> int:
        """How many bands there are."""
        return len(self.y) - 1


def stack(x: F64, group_bytes: I64, zero: float, per_byte: float) -> Stack:
    """Bands of `group_bytes` [groups, columns] on the line y = `zero`, `per_byte` pixels high for each byte.

    The tops are rounded, not the heights, so that the top of the stack is exact to half a pixel.
    """
    tops = np.cumsum(group_bytes, axis=0, dtype=np.float64)
    y = np.vstack([np.zeros(group_bytes.shape[1]), tops])
    return Stack(np.rint(x), np.rint(zero - y * per_byte))


def paint_stack(painter: QPainter, bands: Stack, paints: Sequence[Paint], lifted: int | None = None) -> None:
    """Paint all bands; with `lifted` the others are dimmed."""
    painter.setPen(Qt.PenStyle.NoPen)
    rectangles = Rectangles()
    for group in range(bands.groups):
        if not rectangles.put(*_sides(bands, group)).count:
            continue
        opacity = 1.0 if lifted is None or lifted == group else DIMMED
        painter.setBrush(fill_brush(paints[group], opacity))
        rectangles.paint(painter)
        hatch = hatch_brush(paints[group], opacity)
        if hatch is not None:
            painter.setBrush(hatch)
            rectangles.paint(painter)


def band_rects(bands: Stack, group: int) -> list[QRectF]:
    """The rectangles of one band, neighbours of equal height joined; none where it is less than a pixel high."""
    left, top, right, bottom = _sides(bands, group)
    return [QRectF(*side) for side in np.stack([left, top, right - left, bottom - top], axis=1).tolist()]


def _sides(bands: Stack, group: int) -> tuple[F64, F64, F64, F64]:
    """(left, top, right, bottom) of the rectangles of one band."""
    low, high = bands.y[group], bands.y[group + 1]
    starts = np.flatnonzero(np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1]))[: len(low)])
    ends = np.append(starts[1:], len(low))[: len(starts)]
    keep = low[starts] > high[starts]
    starts, ends = starts[keep], ends[keep]
    return bands.x[starts], high[starts], bands.x[ends], low[starts]


def paint_labels(painter: QPainter, bands: Stack, names: Sequence[str], paints: Sequence[Paint]) -> None:
    """Write names into the bands that have room for them, at their highest place."""
    metrics = QFontMetricsF(painter.font())
    height = metrics.height()
    for group, name in enumerate(names):
        if np.max(bands.y[group] - bands.y[group + 1], initial=0) < height + 2:
            continue
        width = metrics.horizontalAdvance(name) + 10
        place = _room(bands, group, width, height)
        if place is None:
            continue
        rect = QRectF(place[0], place[1] - height / 2, width, height)
        if paints[group].hatch:  # text on a hatch is hard to read
            painter.fillRect(rect, fill_brush(paints[group]))
        painter.setPen(QColor(palette.text_on(paints[group].fill)))
        painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, name)


def _room(bands: Stack, group: int, width: float, height: float) -> tuple[float, float] | None:
    """(left, middle) of a place `width` wide inside a band, None if no place is `height` high. Of all places the one
    nearest to a spot left of the peak of the stack, so that names stand over each other and the peak stays clear."""
    starts = np.arange(0, len(bands.x) - 1, 8)
    ends = np.searchsorted(bands.x, bands.x[starts] + width)
    starts, ends = starts[ends < len(bands.x) - 1], ends[ends < len(bands.x) - 1]
    if not len(starts):
        return None
    spans = np.stack([starts, ends], axis=1).ravel()
    low = np.minimum.reduceat(bands.y[group], spans)[::2]
    high = np.maximum.reduceat(bands.y[group + 1], spans)[::2]
    fits = np.flatnonzero(low - high >= height + 2)
    if not len(fits):
        return None
    wanted = bands.x[int(np.argmin(bands.y[-1]))] - width - 24
    best = int(fits[np.argmin(np.abs(bands.x[starts[fits]] - wanted))])
    return float(bands.x[starts[best]]), float((low[best] + high[best]) / 2)
