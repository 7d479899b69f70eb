"""The allocator's memory as bars: one for each range, as wide as its bytes, blocks in the colours of the grouping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from ..analysis.allocator.history import Layout
from ..look.tips import tip
from ..look.units import bytes_text
from ..model.paints import Paint
from .colours import fill_brush, hatch_brush
from .theme import Theme, current

_ROW, _GAP, _SPACE = 20, 4, 3
_LEAST = 3.0
"""Pixels of the narrowest bar."""
_EDGED = 4
"""Pixels from which on a block shows where it ends."""
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


class AllocatorMap(QWidget):
    """Ranges in order of address, broken into rows like text. `picked` carries the allocation clicked."""

    picked = Signal(int)

    def __init__(self, paint_of: Callable[[int], Paint], text_of: Callable[[int], str]) -> None:
        super().__init__()
        self.paint_of, self.text_of = paint_of, text_of
        self.layout_shown: Layout | None = None
        self.selected: int | None = None
        self.theme: Theme = current()
        self.bars: list[Bar] = []
        self._first: list[int] = []
        """The first bar of each range."""
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Map of the allocator's memory at the cursor")

    def show_layout(self, layout: Layout, selected: int | None) -> None:
        """Another moment."""
        self.layout_shown, self.selected = layout, selected
        self._lay_out()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(480, _ROWS * (_ROW + _GAP))

    def resizeEvent(self, _event: object) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Places the bars. A range that reaches the end of its row goes on in the next one."""
        self.bars, self._first = [], []
        shown, width = self.layout_shown, max(self.width() - 2 * _SPACE, 50)
        if shown is not None and len(shown.bytes):
            per_byte = width * _ROWS / shown.reserved_bytes
            x, y = float(_SPACE), float(_GAP)
            for row, size in enumerate(shown.bytes.tolist()):
                wide = max(size * per_byte, _LEAST)
                if x > _SPACE and x + min(wide, width / 2) > width + _SPACE:
                    x, y = float(_SPACE), y + _ROW + _GAP
                self._first.append(len(self.bars))
                done = 0.0
                while done < wide:
                    part = min(wide - done, width + _SPACE - x)
                    self.bars.append(Bar(QRectF(x, y, part, _ROW), row, done / wide * size, size / wide))
                    done, x = done + part, x + part + _SPACE
                    if done < wide:
                        x, y = float(_SPACE), y + _ROW + _GAP
        self.setMinimumHeight(int(self.bars[-1].box.bottom() + _GAP) if self.bars else _ROW)
        self.update()

    def boxes_of(self, block: int) -> list[QRectF]:
        """Where a block (row of the layout's blocks) is painted: one box for each bar it lies in."""
        shown = self.layout_shown
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

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(event.rect(), QColor(self.theme.panel))
        if self.layout_shown is None:
            return
        seen = QRectF(event.rect())
        bars = [bar.box for bar in self.bars if bar.box.intersects(seen)]
        for box in bars:
            painter.fillRect(box, QColor(self.theme.raised))
        marked = self._paint_blocks(painter, seen)
        painter.setPen(QPen(QColor(self.theme.border)))
        painter.drawRects(bars)
        painter.setPen(QPen(QColor(self.theme.text), 2))
        painter.drawRects(marked)

    def _paint_blocks(self, painter: QPainter, seen: QRectF) -> list[QRectF]:
        """Paints what can be told apart; returns the boxes of the selected block."""
        shown = self.layout_shown
        assert shown is not None
        last, marked = (-1.0, -1.0), []
        edge = QColor(self.theme.panel)
        brushes: dict[Paint, tuple[QBrush, QBrush | None]] = {}
        for block, number in enumerate(shown.number.tolist()):
            boxes = self.boxes_of(block)
            marked += boxes if number == self.selected else []
            paint = self.paint_of(number)
            fill, hatch = brushes.setdefault(paint, (fill_brush(paint), hatch_brush(paint)))
            for box in boxes:
                end = box.right()
                if not box.intersects(seen) or (last[0] == box.top() and end - last[1] < 0.5):
                    continue  # nothing of it can be seen
                last = box.top(), end
                painter.fillRect(box, fill)
                if hatch is not None:
                    painter.fillRect(box, hatch)
                if box.width() > _EDGED:
                    painter.fillRect(QRectF(end - 1, box.top(), 1, box.height()), edge)
        return marked

    def block_at(self, point: QPointF) -> int:
        """Row of the block at a point, -1 for free memory and outside."""
        shown, bar = self.layout_shown, self._bar_at(point)
        if shown is None or bar is None:
            return -1
        rows = np.flatnonzero(shown.home == bar.row).tolist()
        return next((row for row in rows if any(box.contains(point) for box in self.boxes_of(row))), -1)

    def _bar_at(self, point: QPointF) -> Bar | None:
        return next((bar for bar in self.bars if bar.box.contains(point)), None)

    def range_text(self, point: QPointF) -> str:
        """What is at a point, in words; empty outside of everything."""
        shown, bar = self.layout_shown, self._bar_at(point)
        if shown is None or bar is None:
            return ""
        block, home = self.block_at(point), bar.row
        used = int(shown.block_bytes[shown.home == home].sum())
        kind = "Expandable segment" if shown.expandable[home] else "Allocator segment"
        size = int(shown.bytes[home])
        whole = f"{kind} of {bytes_text(size)}, {bytes_text(size - used)} of it free"
        return f"{self.text_of(int(shown.number[block]))}\n{whole}" if block >= 0 else f"Free\n{whole}"

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        QToolTip.showText(event.globalPosition().toPoint(), tip(self.range_text(event.position())), self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        block = self.block_at(event.position())
        if block >= 0 and self.layout_shown is not None:
            self.picked.emit(int(self.layout_shown.number[block]))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right go from block to block."""
        step = {Qt.Key.Key_Right: 1, Qt.Key.Key_Left: -1}.get(Qt.Key(event.key()))
        shown = self.layout_shown
        if step is None or shown is None or not len(shown.number):
            super().keyPressEvent(event)
            return
        found = np.flatnonzero(shown.number == self.selected).tolist() if self.selected is not None else []
        now = found[0] + step if found else 0
        self.picked.emit(int(shown.number[min(max(now, 0), len(shown.number) - 1)]))
