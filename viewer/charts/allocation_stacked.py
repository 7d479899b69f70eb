"""Allocations stacked on each other: for each pixel column the exact pile at one position, coarse while it moves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage, QPainter

from memstrata.capture.format.schema import F64, I32, I64, NONE

from ..model.axes import XAxis
from ..model.layout import Stacked
from ..model.live_set import EVERY
from ..model.peaks import Peaks
from ..model.sampling import Columns, peak_columns
from .allocation_colours import U32, AllocationColours
from .frame import Frame
from .outlines import around_outline
from .pixels import picture
from .theme import Theme

_COARSE = 4
"""Pixels of width that share one pile while the view moves: that of the highest position in all of them."""
_FEWEST = 16
"""Columns, if there are as many pixels."""
_WORK = 330_000
"""Allocations looked through and piled up in a frame while the view moves; piles beyond that wait until it is still."""
_AT_ONCE = 64
"""Piles made between two looks at the clock."""
_KEPT = 3
"""Times as many piles kept from frame to frame as there are pixel columns; there is always room for all of these."""
_FAINT = 64
"""Columns in which an allocation is looked for that is too thin for a pixel."""
_SEAM = 4
"""Pixels from which on an allocation shows where it ends."""


class StackedPainter:
    """Paints frames of the piles of one run; each pixel column shows its highest position, as the timeline does."""

    def __init__(self, stacked: Stacked, peaks: Peaks, axis: XAxis) -> None:
        self.stacked, self.peaks, self.axis = stacked, peaks, axis
        self._piles: dict[int, int] = {}
        """Which of `_room` is the pile of a position."""
        self._room: I32 = np.empty((0, 0), np.int32)
        """The allocation in each row of device pixels from the top down, for each pile."""
        self._rows: F64 = np.empty(0)
        """Bytes in the middle of each row of device pixels, from the top down."""
        self._shown: tuple[Columns, I64] | None = None
        self._image: QImage | None = None
        self._rgb: U32 = np.empty(0, np.uint32)
        self._hatched: list[tuple[str, U32]] = []
        self._budget = max(_WORK // (2 * stacked.live.most + EVERY // 2), 4)

    def show(self, colours: AllocationColours) -> None:
        """Other colours."""
        self._rgb = np.append(colours.rgb[colours.kind], np.uint32(0))
        tones, kinds = colours.tones, colours.kind
        hatched = (("diagonal", colours.diagonal), ("dots", colours.dots))
        self._hatched = [
            (name, np.append(np.where(mask, tones, colours.rgb)[kinds], np.uint32(0)))
            for name, mask in hatched
            if mask.any()
        ]

    def look_at(self, frame: Frame) -> None:
        """What can be painted of a frame at once: as many piles as there is time for."""
        self._forget(frame)
        columns = self._columns(frame, max(frame.columns // round(_COARSE * frame.ratio), _FEWEST))
        self._make(self._affordable(columns.positions, len(self._room) - frame.columns))
        self._image = self._picture(columns, self._stand_ins(columns.positions))

    def paint(self, painter: QPainter, frame: Frame, _theme: Theme) -> None:
        """Paint the frame looked at."""
        if self._image is not None and self._shown is not None and len(self._shown[0].positions):
            x = self._shown[0].x * frame.sx + frame.dx
            top, height = top_pixel(frame) / frame.ratio, len(self._rows) / frame.ratio
            painter.drawImage(QRectF(x[0], top, x[-1] - x[0], height), self._image)

    def refine(self, frame: Frame) -> Iterator[bool]:
        """Every pile of every pixel column; yields whether there is something new to see."""
        columns = self._columns(frame, frame.columns)
        wanted = np.unique(columns.positions)
        missing = self._missing(wanted)
        for first in range(0, len(missing), _AT_ONCE):
            self._make(missing[first : first + _AT_ONCE])
            yield False
        self._image = self._picture(columns, columns.positions)
        yield True

    def position_at(self, x: float) -> int:
        """The position painted at x."""
        if self._shown is None or not len(self._shown[1]):
            return int(self.axis.position_at(x))
        columns, stand_ins = self._shown
        column = int(np.searchsorted(columns.x, x, "right")) - 1
        return int(stand_ins[min(max(column, 0), len(stand_ins) - 1)])

    def paint_selected(self, painter: QPainter, frame: Frame, row: int, theme: Theme) -> None:
        """A line around an allocation, through every column in which it is alive."""
        if self._shown is None:
            return
        columns, shown = self._shown
        a = self.stacked.live.allocations
        alive = np.flatnonzero((shown >= a.start[row]) & (shown < a.end[row]))
        if not len(alive):
            return
        mine = self._made(shown[alive]) == row
        some = mine.any(axis=1)
        top = (np.argmax(mine, axis=1) + top_pixel(frame)) / frame.ratio
        low = top + mine.sum(axis=1) / frame.ratio
        for column in np.flatnonzero(~some)[:: max(int((~some).sum()) // _FAINT, 1)].tolist():  # too thin for a pixel
            span = self.stacked.span(int(shown[alive[column]]), row)
            if span is not None:
                top[column], low[column], some[column] = frame.y(span[1]), frame.y(span[0]), True
        x = columns.x * frame.sx + frame.dx
        left, right, top, low = x[alive[some]], x[alive[some] + 1], top[some], np.maximum(low[some], top[some] + 2)
        steps = np.stack([np.concatenate([left, right]), np.tile(top, 2), np.tile(low, 2)])
        steps = steps[:, np.argsort(np.tile(np.arange(len(left)), 2), kind="stable")]
        around_outline(painter, steps[0], steps[1], steps[2], theme)

    def _forget(self, frame: Frame) -> None:
        """Piles of other rows are of no use."""
        middles = np.arange(top_pixel(frame), top_pixel(frame) + frame.rows, dtype=np.float64) + 0.5
        rows: F64 = (middles / frame.ratio - frame.dy) / frame.sy
        if not np.array_equal(self._rows, rows) or len(self._room) < _KEPT * frame.columns:
            self._rows, self._piles, self._shown = rows, {}, None
            if self._room.shape != (shape := (_KEPT * frame.columns, len(rows))):
                self._room = np.empty(shape, np.int32)

    def _columns(self, frame: Frame, width: int) -> Columns:
        return peak_columns(self.peaks, self.axis, frame.x0, frame.x1, min(width, frame.columns))

    def _missing(self, positions: I64) -> I64:
        """Which of these positions have no pile yet."""
        return np.array([p for p in positions.tolist() if p not in self._piles], np.int64)

    def _affordable(self, positions: I64, room: int) -> I64:
        """Positions that have no pile yet, evenly spaced, no more than there is time for; with no room for them all
        the others are given up."""
        wanted = np.unique(positions)
        missing = self._missing(wanted)
        if len(self._piles) + min(len(missing), self._budget) > room:
            self._piles, missing = {}, wanted
        return missing[:: -(-len(missing) // self._budget) or 1]

    def _make(self, positions: I64) -> None:
        first = len(self._piles)
        self._room[first : first + len(positions)] = self.stacked.columns(positions, self._rows)
        self._piles |= zip(positions.tolist(), range(first, first + len(positions)))

    def _made(self, positions: I64) -> I32:
        """The piles of these positions, one in a row."""
        return self._room[[self._piles[p] for p in positions.tolist()]]

    def _stand_ins(self, positions: I64) -> I64:
        """For each column the nearest position that has a pile."""
        made = np.array(sorted(self._piles), np.int64)
        if not len(made):
            return positions
        after = np.minimum(np.searchsorted(made, positions), len(made) - 1)
        before = np.maximum(after - 1, 0)
        nearer = positions - made[before] < np.abs(made[after] - positions)
        return np.where(nearer, made[before], made[after])

    def _picture(self, columns: Columns, shown: I64) -> QImage:
        """The piles of these positions side by side as an image; what lies under the seams shows through."""
        self._shown = columns, shown
        if not len(shown):
            return QImage()
        unique, place = np.unique(shown, return_inverse=True)
        piles = self._made(unique)
        pixels = self._rgb.take(piles, mode="wrap")  # the last of them for none; five times as fast as an index
        pixels *= ~seams(piles)
        pixels = np.ascontiguousarray(pixels[place.reshape(-1)].T)
        for name, tones in self._hatched:
            rows, cols = _PATTERNS[name](*pixels.shape)
            marks = pixels[rows, cols] != 0
            rows, cols = rows[marks], cols[marks]
            pixels[rows, cols] = tones[piles[place.reshape(-1)[cols], rows]]
        return picture(pixels)

    def ids(self) -> I32:
        """What was painted last: the allocation of each pixel, -1 for none; shape [height, columns]."""
        if self._shown is None or not len(self._shown[1]):
            return np.empty((0, 0), np.int32)
        return self._made(self._shown[1]).T


def seams(piles: I32) -> NDArray[np.bool_]:
    """The top pixel of each allocation that is high enough to spare one; piles go from the top down, one in a row."""
    out = np.zeros(piles.shape, np.bool_)
    last = piles.shape[1] - _SEAM + 2
    if last > 1:
        inner = out[:, 1:last]
        np.not_equal(piles[:, 1:last], piles[:, : last - 1], out=inner)
        inner &= piles[:, 1:last] == piles[:, _SEAM - 1 :]
        inner &= piles[:, 1:last] != NONE
    return out


def top_pixel(frame: Frame) -> int:
    """The first row of device pixels in the view."""
    return round(frame.y(frame.y1) * frame.ratio)


def _diagonal(height: int, width: int) -> tuple[I64, I64]:
    """Every eighth diagonal."""
    rows, columns = np.arange(height)[:, None], np.arange(0, width + 8, 8)[None]
    columns = columns - rows % 8
    rows = np.broadcast_to(rows, columns.shape)
    inside = (columns >= 0) & (columns < width)
    return rows[inside], columns[inside]


def _dots(height: int, width: int) -> tuple[I64, I64]:
    """A dot in each square of four pixels."""
    rows, columns = np.meshgrid(np.arange(0, height, 4), np.arange(0, width, 4), indexing="ij")
    columns = np.minimum(columns + rows // 4 % 2 * 2, width - 1)
    return rows.ravel(), columns.ravel()


_PATTERNS = {"diagonal": _diagonal, "dots": _dots}
