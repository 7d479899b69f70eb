"""The item that paints allocations: quickly while the view moves, completely once it is still."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from PySide6.QtCore import QPointF, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPen

from .frame import Frame, PixelItem
from .theme import Theme, colour

STILL_MS = 70
"""How long a view must not have moved."""
_SLICE = 0.008
"""Seconds of refining between two turns of the event loop."""


class LayoutPainter(Protocol):
    """What paints one of the layouts."""

    def look_at(self, frame: Frame) -> None:
        """Make ready what can be painted of a frame at once."""

    def paint(self, painter: QPainter, frame: Frame, theme: Theme) -> None:
        """Paint the frame looked at, as far as it is ready."""

    def paint_selected(self, painter: QPainter, frame: Frame, row: int, theme: Theme) -> None:
        """Paint a line around an allocation."""

    def refine(self, frame: Frame) -> Iterator[bool]:
        """Do the rest in small steps; each says whether there is something new to see."""


class AllocationItem(PixelItem):
    """Keeps what it painted until the view, the layout or the colours change."""

    def __init__(self) -> None:
        super().__init__()
        self.layout: LayoutPainter | None = None
        self.selected: int | None = None
        self._frame: Frame | None = None
        self._work: Iterator[bool] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._refine)

    def show_layout(self, layout: LayoutPainter | None) -> None:
        """What to paint from now on; the same one again has other colours."""
        self.layout, self._frame, self._work = layout, None, None
        self._timer.stop()
        self.update()

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        if self.layout is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        if frame != self._frame:
            self._look_at(frame, self.layout)
        self.layout.paint(painter, frame, self.theme)
        if self.selected is not None:
            self.layout.paint_selected(painter, frame, self.selected, self.theme)

    def _look_at(self, frame: Frame, layout: LayoutPainter) -> None:
        """A view that moves is refined once it is still; the same one in other pixels is a picture to be saved, which
        has to be complete."""
        same = self._frame is not None and replace(self._frame, ratio=frame.ratio) == frame
        self._frame, self._work = frame, None
        layout.look_at(frame)
        if same:
            self._timer.stop()
            for _ in layout.refine(frame):
                pass
        else:
            self._timer.start(STILL_MS)

    def finish(self) -> None:
        """Refine what is shown at once, however long it takes."""
        if self.layout is not None and self._frame is not None:
            self._timer.stop()
            for _ in self.layout.refine(self._frame):
                pass
            self._work = None
            self.update()

    @property
    def refining(self) -> bool:
        """Whether the picture is still to get better."""
        return self._timer.isActive()

    def _refine(self) -> None:
        if self.layout is None or self._frame is None:
            return
        if self._work is None:
            self._work = self.layout.refine(self._frame)
        until = time.perf_counter() + _SLICE
        better = False
        for new in self._work:
            better |= new
            if time.perf_counter() >= until:
                self._timer.start(0)
                break
        if better:
            self.update()


class LinesItem(PixelItem):
    """The cursor, the mark and the stretch between them."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor: tuple[float, float] = (0.0, 0.0)
        """Where the state at the cursor begins and ends."""
        self.mark: float | None = None

    def show_lines(self, cursor: tuple[float, float], mark: float | None) -> None:
        """What to paint from now on, as x."""
        self.cursor, self.mark = cursor, mark
        self.update()

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        rect, (x, end) = frame.rect, (frame.x(at) for at in self.cursor)
        if end - x > 3:
            painter.fillRect(QRectF(x, rect.top(), end - x, rect.height()), colour(self.theme.accent, 36))
        lines = [(x, Qt.PenStyle.SolidLine)]
        if self.mark is not None:
            mark = frame.x(self.mark)
            left, right = max(min(mark, x), rect.left()), min(max(mark, x), rect.right())
            if right > left:
                painter.fillRect(QRectF(left, rect.top(), right - left, rect.height()), colour(self.theme.accent, 26))
            lines.append((mark, Qt.PenStyle.DashLine))
        for at, style in lines:
            painter.setPen(QPen(QColor(self.theme.accent), 1.6, style))
            painter.drawLine(QPointF(at, rect.top()), QPointF(at, rect.bottom()))
