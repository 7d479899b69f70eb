"""The allocator's memory as bars: one for each range, as wide as its bytes, blocks in the colours of the grouping."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QColor, QKeyEvent, QMouseEvent, QPaintEngine, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QToolTip, QWidget

from memstrata.capture.format.schema import B1

from ..analysis.allocator.history import Layout
from ..look.tips import one_line, tip
from ..look.units import bytes_text, exact_bytes_text
from ..model.paints import Paint
from .allocator_rows import GAP, HEAD, ROW, Bar, Rows
from .band_painter import DIMMED
from .colours import fill_brush, hatch_brush
from .focus import paint_focus
from .frame import device_ratio
from .theme import Theme, colour, current

_EDGED = 4
"""Pixels from which on a block shows where it ends."""
_KEPT = 16_000_000
"""Device pixels of a picture that is kept; a larger one is painted as far as it is seen."""


class AllocatorMap(QWidget):
    """Ranges by pool and stream, then in order of address, broken into rows like text. `picked` carries the allocation
    clicked, `pointed` the one under the pointer, -1 for none."""

    picked = Signal(int)
    pointed = Signal(int)

    def __init__(
        self, paint_of: Callable[[int], Paint], text_of: Callable[[int], str],
        kind_of: Callable[[int, bool, int], str],
    ) -> None:  # fmt: skip
        super().__init__()
        self.paint_of, self.text_of, self.kind_of = paint_of, text_of, kind_of
        self.layout_shown: Layout | None = None
        self.selected: int | None = None
        self.matches: B1 | None = None
        """Which allocations are in full colour; None: all."""
        self.hovered = -1
        """The block under the pointer, a row of the layout's blocks."""
        self.theme: Theme = current()
        self.rows = Rows(None, 50)
        self._picture: QPixmap | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Map of the allocator's memory at the cursor")

    @property
    def bars(self) -> list[Bar]:
        """Every bar, from left to right and from top to bottom."""
        return self.rows.bars

    def show_layout(self, layout: Layout | None, selected: int | None, matches: B1 | None = None) -> None:
        """Another moment; None: nothing."""
        self.layout_shown, self.selected, self.matches, self.hovered = layout, selected, matches, -1
        self._lay_out()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme, self._picture = theme, None
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(480, 12 * (ROW + GAP))

    def resizeEvent(self, _event: object) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self.rows, self._picture = Rows(self.layout_shown, self.width()), None
        self.setMinimumHeight(self.rows.height)
        self.update()

    def boxes_of(self, block: int) -> list[QRectF]:
        """Where a block (row of the layout's blocks) is painted: one box for each bar it lies in."""
        return self.rows.boxes_of(block)

    def paintEvent(self, event: QPaintEvent) -> None:
        """What does not change with the pointer is painted once."""
        painter, seen = QPainter(self), QRectF(event.rect())
        ratio = self.devicePixelRatioF()
        on_screen = painter.paintEngine().type() == QPaintEngine.Type.Raster and device_ratio(painter) == ratio
        if not on_screen or self.width() * self.height() * ratio * ratio > _KEPT:  # a drawing, or a larger picture
            self._paint_all(painter, seen)
        else:
            if self._picture is None or self._picture.devicePixelRatio() != ratio:
                self._picture = QPixmap(self.size() * ratio)
                self._picture.setDevicePixelRatio(ratio)
                self._paint_all(QPainter(self._picture), QRectF(self.rect()))
            painter.drawPixmap(seen, self._picture, QRectF(seen.topLeft() * ratio, seen.size() * ratio))
        if self.layout_shown is not None and self.hovered >= 0:
            painter.setPen(QPen(QColor(self.theme.accent), 2))
            painter.setBrush(colour(self.theme.accent, 50))
            painter.drawRects(self.boxes_of(self.hovered))
        paint_focus(painter, self, self.theme)

    def _paint_all(self, painter: QPainter, seen: QRectF) -> None:
        painter.fillRect(seen, QColor(self.theme.panel))
        if self.layout_shown is None:
            return
        bars = [bar.box for bar in self.bars if bar.box.intersects(seen)]
        for box in bars:
            painter.fillRect(box, QColor(self.theme.panel))
        marked = self._paint_blocks(painter, seen, self.layout_shown)
        painter.setPen(QPen(QColor(self.theme.rest)))  # free memory is what is empty in it
        painter.drawRects(bars)
        painter.setPen(QPen(QColor(self.theme.text), 2))
        painter.drawRects(marked)
        painter.setPen(QColor(self.theme.faint))
        for (left, top), (key, of) in zip(self.rows.heads, self.layout_shown.kinds):
            place = QRectF(left, top, self.width() - left, HEAD)
            text = self._kind_text(key, of)
            text = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, int(place.width()) - 4)
            painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, text)

    def _kind_text(self, key: tuple[int, bool, int], rows: np.ndarray, exact: bool = False) -> str:
        """`default pool, large, default stream: 1.2 GiB in 24 ranges, 100 MiB free`."""
        shown, text = self.layout_shown, exact_bytes_text if exact else bytes_text
        assert shown is not None
        size, free = int(shown.bytes[rows].sum()), int(shown.free_bytes[rows].sum())
        ranges = "1 range" if len(rows) == 1 else f"{len(rows):,} ranges"
        grown = int(shown.expandable[rows].sum())
        of = f", {'' if grown == len(rows) else f'{grown:,} '}expandable" if grown else ""
        return one_line(f"{self.kind_of(*key)}: {text(size)} in {ranges}{of}, {text(free)} free")

    def _paint_blocks(self, painter: QPainter, seen: QRectF, shown: Layout) -> list[QRectF]:
        """Paints what can be told apart; returns the boxes of the selected block."""
        last, marked = (-1.0, -1.0), []
        edge = QColor(self.theme.panel)
        brushes: dict[tuple[Paint, bool], tuple[QBrush, QBrush | None]] = {}
        for block, number in enumerate(shown.number.tolist()):
            boxes = self.boxes_of(block)
            marked += boxes if number == self.selected else []
            paint, dim = self.paint_of(number), self.is_dim(number)
            if (paint, dim) not in brushes:
                opacity = DIMMED if dim else 1.0
                brushes[paint, dim] = fill_brush(paint, opacity), hatch_brush(paint, opacity)
            fill, hatch = brushes[paint, dim]
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

    def is_dim(self, number: int) -> bool:
        """Whether an allocation is one that the filter, the range or the selection leaves out."""
        return self.matches is not None and not (number < len(self.matches) and self.matches[number])

    def block_at(self, point: QPointF) -> int:
        """Row of the block at a point, -1 for free memory and outside."""
        shown, found = self.layout_shown, self.rows.address_at(point)
        return -1 if shown is None or found is None else shown.block_at(*found)

    def range_text(self, point: QPointF) -> str:
        """What is at a point, in words; empty outside of everything."""
        shown = self.layout_shown
        if shown is None:
            return ""
        found = self.rows.address_at(point)
        if found is None:
            head = self.rows.head_at(point)
            return "" if head < 0 else self._kind_text(*shown.kinds[head], exact=True)
        block, home = self.block_at(point), found[0]
        whole, free = int(shown.bytes[home]), int(shown.free_bytes[home])
        lines = [f"Free: {_both(shown.gap_at(*found))}"]
        if block >= 0:
            lines = [self.text_of(int(shown.number[block]))]
            lines += [f"block of {_both(int(shown.block_bytes[block]))}, rounding included"]
        kind = "Expandable segment" if shown.expandable[home] else "Allocator segment"
        lines.append(f"{kind} of {_both(whole)}, {_both(free)} of it free")
        lines.append(self.kind_of(int(shown.pool[home]), bool(shown.is_small[home]), int(shown.stream[home])))
        return "\n".join(lines)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._point(self.block_at(event.position()))
        QToolTip.showText(event.globalPosition().toPoint(), tip(self.range_text(event.position())), self)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self._point(-1)
        return super().event(event)

    def _point(self, block: int) -> None:
        """The block under the pointer has a line around it."""
        if block == self.hovered or self.layout_shown is None:
            return
        for one in (self.hovered, block):
            for box in self.boxes_of(one) if one >= 0 else []:
                self.update(box.toAlignedRect().adjusted(-2, -2, 2, 2))
        self.hovered = block
        self.pointed.emit(int(self.layout_shown.number[block]) if block >= 0 else -1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        block = self.block_at(event.position())
        if block >= 0 and self.layout_shown is not None:
            self.picked.emit(int(self.layout_shown.number[block]))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right go from block to block, as they are painted."""
        step = {Qt.Key.Key_Right: 1, Qt.Key.Key_Left: -1}.get(Qt.Key(event.key()))
        shown = self.layout_shown
        if step is None or shown is None or not len(shown.number):
            super().keyPressEvent(event)
            return
        numbers = shown.number[self.rows.block_order]
        found = np.flatnonzero(numbers == self.selected).tolist() if self.selected is not None else []
        now = found[0] + step if found else 0
        self.picked.emit(int(numbers[min(max(now, 0), len(numbers) - 1)]))


def _both(size: int) -> str:
    return f"{bytes_text(size)} ({exact_bytes_text(size)})"
