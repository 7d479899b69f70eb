"""A picture in coarse cells behind what is painted one by one. One that was finished goes along with the view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF
from PySide6.QtGui import QPainter

from memstrata.capture.format.schema import I64

from ..model.address_index import Box
from .frame import Frame
from .pixels import U32, Canvas, paint_pixels

_FARTHEST, _NEAREST = 0.8, 4.0
"""How much smaller and larger than it was a finished picture is shown: in one that is zoomed out what has become too
small to be painted by itself would be missing, in one that is zoomed in cells can be counted."""


@dataclass(frozen=True)
class Cells:
    """Pixels as those of `pixels.picture`, one for each cell of a frame; only what lies in a box is painted."""

    frame: Frame
    pixels: U32
    box: Box

    def suits(self, frame: Frame) -> bool:
        """Whether it can stand for what would be seen in another frame, where both overlap."""
        was = self.frame
        closer = abs(frame.sx / was.sx), abs(frame.sy / was.sy)
        overlaps = frame.x0 < was.x1 and was.x0 < frame.x1 and frame.y0 < was.y1 and was.y0 < frame.y1
        return overlaps and frame.ratio == was.ratio and all(_FARTHEST <= way <= _NEAREST for way in closer)

    def beyond(self, frame: Frame) -> Box | None:
        """What of another frame lies outside of it, in one box; None for nothing."""
        was, whole = self.frame, Box(frame.x0, frame.x1, frame.y0, frame.y1)
        before, behind = frame.x0 < was.x0, frame.x1 > was.x1
        if frame.y0 < was.y0 or frame.y1 > was.y1 or (before and behind):
            return whole
        if before:
            return Box(whole.x0, was.x0, whole.y0, whole.y1)
        return Box(was.x1, whole.x1, whole.y0, whole.y1) if behind else None

    def paint_into(self, pixels: U32, frame: Frame) -> None:
        """Put what lies there into the pixels of a frame."""
        was, box, (height, width) = self.frame, self.box, self.pixels.shape
        across, columns = _cells((frame.x0, frame.x1), frame.columns, (was.x0, was.x1), width, (box.x0, box.x1))
        upside = (-frame.y1, -frame.y0), frame.rows, (-was.y1, -was.y0), height, (-box.y1, -box.y0)
        down, rows = _cells(*upside)
        cells, out = self.pixels[:, columns], pixels[down, across]
        if out.flags.c_contiguous:
            np.take(cells, rows, axis=0, out=out, mode="clip")
        else:  # where numpy would take each number by itself
            out[:] = cells[rows]


def _cells(
    seen: tuple[float, float], pixels: int, whole: tuple[float, float], cells: int, part: tuple[float, float]
) -> tuple[slice, I64]:
    """(pixels of what is seen that lie in the part, the cell of the whole in each of them)."""
    step = (seen[1] - seen[0]) / pixels
    begin, end = max(seen[0], whole[0], part[0]), min(seen[1], whole[1], part[1])
    first, last = round((begin - seen[0]) / step), max(round((end - seen[0]) / step), 0)
    numbers = np.arange(first, last)
    if seen == whole:
        return slice(first, last), numbers * cells // pixels
    at = seen[0] + (numbers + 0.5) * step
    found = np.floor((at - whole[0]) * (cells / (whole[1] - whole[0]))).astype(np.int64)
    return slice(first, last), np.clip(found, 0, cells - 1)


def paint_cells(painter: QPainter, frame: Frame, parts: Sequence[Cells], canvas: Canvas) -> None:
    """Fill the view with cells, of several the last where they overlap: in a quarter of the time that Qt takes."""
    pixels = canvas.pixels(frame.rows, frame.columns)
    pixels.fill(0)
    for part in parts:
        part.paint_into(pixels, frame)
    corner = frame.rect.topLeft() * frame.ratio
    paint_pixels(painter, QPointF(round(corner.x()), round(corner.y())) / frame.ratio, pixels, frame.ratio)
