"""Allocations by address: an exact rectangle for each that can be told apart, a backdrop of density for the rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor, QPainter

from memstrata.capture.format.schema import F64

from ..model.address_index import AddressIndex, Box, Bucket, address_index, joined
from ..model.axes import XAxis
from ..model.layout import AddressLayout, address_layout
from ..model.run import Run
from .allocation_colours import AllocationColours
from .backdrop import Cells, paint_cells
from .density import DensityGrid
from .frame import Frame
from .outlines import around_outline
from .pixels import U32, Canvas
from .rectangles import PixelRectangles
from .theme import Theme

MOST_RECTANGLES = 24_000
"""Painted one by one in a frame; the smallest beyond that belong to the backdrop."""
_SAMPLED = 16_000
"""Rectangles that the backdrop looks at while the view moves, where there is none that goes along."""
_FEWEST = 2_000
"""Of them, in what comes into sight beside one that does."""
_AT_ONCE = 50_000
"""Rectangles that the backdrop takes in between two looks at the clock."""
_CELL, _COARSE_CELL = 2, 6
"""Pixels of a side of a cell of the backdrop, the second while the view moves."""
_SEAM = 4
"""Pixels from which on a rectangle shows where it ends."""


def index_of(run: Run, layout: AddressLayout, axis: XAxis) -> AddressIndex:
    """The index of a run's allocations on an axis."""
    rows = np.flatnonzero(layout.low >= 0)
    low = layout.low[rows].astype(np.float64)
    start, end = (axis.edges[p[rows]] for p in (run.allocations.start, run.allocations.end))
    return address_index(rows, start, end, low, low + run.allocations.bytes[rows])


class AddressPainter:
    """Paints frames of one layout on one axis."""

    def __init__(self, run: Run, axis: XAxis) -> None:
        self.allocations, self.axis = run.allocations, axis
        layout = self.layout = run.once(address_layout)
        self.index = index_of(run, layout, axis)
        self.colours: AllocationColours | None = None
        self._canvas = Canvas()
        self._backdrop: list[Cells] = []
        self._finished: Cells | None = None
        """The backdrop of the last frame of which all was looked at."""
        self.painted = np.empty(0, np.int64)
        """Places in the index of what the last frame painted one by one."""
        self._each, self._kinds = PixelRectangles(), list[tuple[int, int, int]]()
        """These rectangles in order of their colours, and (kind, first, last) of each colour."""
        self._small: tuple[Bucket, ...] = ()
        self._thinned: dict[int, AddressIndex] = {}
        r = layout.ranges
        low = layout.y_of(r.address).astype(np.float64)
        self._ranges = axis.edges[r.start], axis.edges[r.end], low, low + r.bytes

    def show(self, colours: AllocationColours) -> None:
        """Other colours."""
        self.colours, self._finished = colours, None

    def look_at(self, frame: Frame) -> None:
        """What can be painted of a frame at once: the largest, and a backdrop: the one that was finished as far as it
        reaches, so that nothing flickers while the view moves, and one from a part of the others beyond."""
        self._choose(frame)
        self._lay_out(frame)
        still = self._finished if self._finished is not None and self._finished.suits(frame) else None
        beyond = _box(frame) if still is None else still.beyond(frame)
        self._backdrop = [still] if still is not None else []
        if beyond is not None:
            share = (beyond.x1 - beyond.x0) / (frame.x1 - frame.x0)
            for pixels in self._density(frame, beyond, min(max(round(_SAMPLED * share), _FEWEST), _SAMPLED)):
                self._backdrop += [Cells(frame, pixels, beyond)] if pixels is not None else []

    def paint(self, painter: QPainter, frame: Frame, theme: Theme) -> None:
        """Paint the frame looked at."""
        self._paint_ranges(painter, frame, theme)
        if self._backdrop:
            paint_cells(painter, frame, self._backdrop, self._canvas)
        self._paint_each(painter, frame.ratio)

    def paint_selected(self, painter: QPainter, frame: Frame, row: int, theme: Theme) -> None:
        """A line around an allocation."""
        low = int(self.layout.low[row])
        if low >= 0:
            a = self.allocations
            x = np.array([self.axis.edges[a.start[row]], self.axis.edges[a.end[row]]]) * frame.sx + frame.dx
            top, bottom = frame.y(low + int(a.bytes[row])), frame.y(low)
            x[1] = max(x[1], x[0] + 3)
            around_outline(painter, x, np.full(2, top), np.full(2, max(bottom, top + 3)), theme)

    def refine(self, frame: Frame) -> Iterator[bool]:
        """The backdrop from all rectangles; yields whether there is something new to see."""
        finished = Cells(frame, np.zeros((1, 1), np.uint32), _box(frame))
        for pixels in self._density(frame, finished.box, None):
            if pixels is not None:
                finished = Cells(frame, pixels, finished.box)
                self._backdrop = [finished]
            yield pixels is not None
        self._finished = finished

    def _choose(self, frame: Frame) -> None:
        """What is painted one by one: the largest first, as many as there is time for."""
        box = _box(frame)
        large, small = self.index.split(1 / abs(frame.sx), 1 / abs(frame.sy))
        size = {b: min(b.width * abs(frame.sx), b.height * abs(frame.sy)) for b in large}
        chosen: list[tuple[int, int]] = []
        count = 0
        for bucket in sorted(large, key=lambda b: -size[b]):
            found = self.index.candidates(box, (bucket,))
            count += sum(last - first for first, last in found)
            if count > MOST_RECTANGLES and chosen:
                small += (bucket,)
            else:
                chosen += found
        self.painted = self.index.inside(joined(chosen), box)
        self._small = small

    def _paint_ranges(self, painter: QPainter, frame: Frame, theme: Theme) -> None:
        """What is reserved, with a line where each range ends; private pools are tinted."""
        left, right, low, high = self._ranges
        seen = (right >= frame.x0) & (left <= frame.x1) & (high >= frame.y0) & (low <= frame.y1)
        for private, fill in ((False, theme.raised), (True, theme.selected)):
            mine = np.flatnonzero(seen & (self.layout.ranges.private == private))
            edges = _pixels(frame, left[mine], right[mine], low[mine], high[mine])
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(fill))
            made = PixelRectangles().put(*edges)
            made.paint(painter, frame.ratio)
            if len(mine) < frame.rect.height() / 3:
                painter.setBrush(QColor(theme.border))
                made.outlines(max(round(frame.ratio), 1)).paint(painter, frame.ratio)

    def _lay_out(self, frame: Frame) -> None:
        """Where what is painted one by one lies on the screen."""
        assert self.colours is not None
        index, at = self.index, self.painted
        kinds = self.colours.kind[index.row[at]]
        order = np.argsort(kinds, kind="stable")
        at, kinds = at[order], kinds[order]
        self._each.put(*_pixels(frame, index.x0[at], index.x1[at], index.y0[at], index.y1[at]))
        firsts = np.flatnonzero(np.diff(kinds, prepend=-1)).tolist()
        self._kinds = list(zip(kinds[firsts].tolist(), firsts, [*firsts[1:], len(at)]))

    def _paint_each(self, painter: QPainter, ratio: float) -> None:
        assert self.colours is not None
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for kind, first, last in self._kinds:
            painter.setBrush(QBrush(self.colours.fills[kind]))
            self._each.paint(painter, ratio, first, last)
            hatch = self.colours.hatches[kind]
            if hatch is not None:
                painter.setBrush(hatch)
                self._each.units(ratio, first, last).paint(painter)

    def _density(self, frame: Frame, box: Box, most: int | None) -> Iterator[U32 | None]:
        """The backdrop, a pixel for each cell, after Nones: what of it lies in a box, of some of the rectangles where
        `most` says how many."""
        assert self.colours is not None
        behind = self.index.candidates(box, self._small)
        total = sum(last - first for first, last in behind)
        if not total:
            return
        step = 1 if most is None else 1 << max(-(-total // most) - 1, 0).bit_length()
        index, grid = self._every(step), DensityGrid(frame, self.colours, _CELL if most is None else _COARSE_CELL)
        places = joined([(-(-first // step), last // step) for first, last in behind])
        for begin in range(0, len(places), _AT_ONCE):
            grid.add(index, places[begin : begin + _AT_ONCE], step)
            yield None
        yield grid.pixels()

    def _every(self, step: int) -> AddressIndex:
        """One of every so many rectangles; picked out of all of them, each would be far from the next in memory."""
        if step == 1:
            return self.index
        if step not in self._thinned:
            self._thinned[step] = self.index.thinned(step)
        return self._thinned[step]


def _box(frame: Frame) -> Box:
    """All that is in sight."""
    return Box(frame.x0, frame.x1, frame.y0, frame.y1)


def _pixels(frame: Frame, x0: F64, x1: F64, y0: F64, y1: F64) -> tuple[F64, F64, F64, F64]:
    """(left, top, right, bottom) in whole pixels of the device, at least one of the view's wide and high; the large
    ones end with a seam."""
    ratio, one = frame.ratio, max(round(frame.ratio), 1)
    sx, dx, sy, dy = (part * ratio for part in (frame.sx, frame.dx, frame.sy, frame.dy))
    left, right = np.rint(x0 * sx + dx), np.rint(x1 * sx + dx)
    top, bottom = np.rint(y1 * sy + dy), np.rint(y0 * sy + dy)
    np.subtract(right, one, out=right, where=right - left >= _SEAM * one)
    np.add(top, one, out=top, where=bottom - top >= _SEAM * one)
    np.maximum(right, left + one, out=right)
    np.maximum(bottom, top + one, out=bottom)
    return left, top, right, bottom
