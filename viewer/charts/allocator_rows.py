"""Where the bars of the allocator's map lie: the ranges of one pool and stream under a heading, broken like text."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from PySide6.QtCore import QPointF, QRectF

from memstrata.capture.format.schema import I64

from ..analysis.allocator.history import Layout

ROW, GAP, HEAD = 20, 4, 18
_SPACE = 3
_LEAST = 3.0
"""Pixels of the narrowest bar."""
_ROWS = 12
"""Rows that the whole is laid out for; less memory takes fewer."""


@dataclass(frozen=True)
class Bar:
    """A range of the layout, or the part of one that lies in one row."""

    box: QRectF
    row: int
    offset: float
    """Bytes of the range before it."""
    bytes_per_pixel: float


class Rows:
    """The bars of a layout in a width in pixels. A range that reaches the end of its row goes on in the next one."""

    def __init__(self, layout: Layout | None, width: int) -> None:
        self.layout = layout
        self.bars: list[Bar] = []
        self.heads: list[tuple[float, float]] = []
        """Left and upper edge of the heading of each kind of range."""
        self._first: dict[int, int] = {}
        """The first bar of each range."""
        self._y = 0.0
        self._width = max(width - 2 * _SPACE, 50)
        if layout is not None and len(layout.bytes):
            per_byte = self._width * _ROWS / max(layout.reserved_bytes, 1)
            for _, rows in layout.kinds:
                self.heads.append((float(_SPACE + 2), self._y))
                self._y += HEAD
                self._place(rows, layout, per_byte)
        self._tops = sorted({bar.box.top() for bar in self.bars})
        self._keys = [(bar.box.top(), bar.box.left()) for bar in self.bars]

    def _place(self, rows: I64, layout: Layout, per_byte: float) -> None:
        x, width = float(_SPACE), self._width
        for row in rows.tolist():
            size = int(layout.bytes[row])
            wide = max(size * per_byte, _LEAST)
            if x > _SPACE and x + min(wide, width / 2) > width + _SPACE:
                x, self._y = float(_SPACE), self._y + ROW + GAP
            self._first[row] = len(self.bars)
            done = 0.0
            while done < wide:
                part = min(wide - done, width + _SPACE - x)
                self.bars.append(Bar(QRectF(x, self._y, part, ROW), row, done / wide * size, size / wide))
                done, x = done + part, x + part + _SPACE
                if done < wide:
                    x, self._y = float(_SPACE), self._y + ROW + GAP
        self._y += ROW + GAP

    @property
    def height(self) -> int:
        """Pixels that all of it needs."""
        return int(max(self._y, ROW))

    def boxes_of(self, block: int) -> list[QRectF]:
        """Where a block lies: one box for each bar it lies in."""
        shown = self.layout
        assert shown is not None
        home = int(shown.home[block])
        start = int(shown.block_address[block]) - int(shown.address[home])
        end = start + int(shown.block_bytes[block])
        out = []
        for place in range(self._first[home], len(self.bars)):
            bar = self.bars[place]
            if bar.row != home or bar.offset >= end:
                break
            left = max(bar.box.left() + (start - bar.offset) / bar.bytes_per_pixel, bar.box.left())
            right = min(bar.box.left() + (end - bar.offset) / bar.bytes_per_pixel, bar.box.right())
            if left < right:
                out.append(QRectF(left, bar.box.top(), right - left, bar.box.height()))
        return out

    def address_at(self, point: QPointF) -> tuple[int, int] | None:
        """(range, address) at a point; None outside of all bars."""
        line = bisect_right(self._tops, point.y()) - 1
        if line < 0 or self.layout is None:
            return None
        bar = self.bars[max(bisect_right(self._keys, (self._tops[line], point.x())) - 1, 0)]
        if not bar.box.contains(point):
            return None
        inside = int(bar.offset + (point.x() - bar.box.left()) * bar.bytes_per_pixel)
        size = int(self.layout.bytes[bar.row])
        return bar.row, int(self.layout.address[bar.row]) + min(inside, size - 1)

    def head_at(self, point: QPointF) -> int:
        """Number of the heading at a point, -1 for none."""
        return next((n for n, (_, top) in enumerate(self.heads) if top <= point.y() < top + HEAD), -1)

    @cached_property
    def block_order(self) -> I64:
        """The blocks in the order in which they are painted."""
        assert self.layout is not None
        rank = np.empty(len(self.layout.bytes), np.int64)
        rank[np.concatenate([rows for _, rows in self.layout.kinds])] = np.arange(len(rank))
        return np.argsort(rank[self.layout.home], kind="stable").astype(np.int64)
