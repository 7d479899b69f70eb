"""From peak to peak in bars: one for each group, from where the one before ended, with its name and its bytes."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from ..analysis.waterfall import Step, Waterfall
from ..look.frame_cut import frame_cut
from ..look.name_cut import cut_apart
from ..look.tips import one_line, tip
from ..look.units import bytes_text, difference_text, exact_bytes_text
from ..model.paints import Paint
from .colours import fill_brush, hatch_brush
from .pair_item import run_paints
from .theme import Theme, colour, current

_ROW, _MOST_ROW, _EDGE, _GAP = 19, 34, 10, 8
_LEAST_ROW = 15
"""Pixels of a row, in which its name is whole; lower than all of them together the chart is not."""
_NAMES = 0.34  # share of the width that names get at most


class WaterfallChart(QWidget):
    """A row for the peak of a, one for each step, one for the peak of b. A click or the arrow keys choose a row;
    `picked` carries the row of the table behind it, -1 for a peak and for what shares a bar."""

    picked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.theme: Theme = current()
        self.shown = Waterfall(0, 0, ())
        self.names = ("A", "B")
        self.chosen: int | None = None
        self._paint_of: Callable[[int], Paint] | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def show_steps(self, shown: Waterfall, names: tuple[str, str], paint_of: Callable[[int], Paint]) -> None:
        """Other contents: `names` of the peaks, `paint_of(row)` for the rows behind the steps."""
        self.shown, self.names, self._paint_of, self.chosen = shown, names, paint_of, None
        parts = [f"{step.label} {difference_text(step.difference_bytes)}" for step in shown.steps]
        ends = [f"{name} {bytes_text(size)}" for name, size in zip(names, (shown.a_bytes, shown.b_bytes))]
        self.setAccessibleName("; ".join([f"From {ends[0]}", *parts, f"to {ends[1]}"]))
        self.updateGeometry()
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Repaint in this theme."""
        self.theme = theme
        self.update()

    def select_row(self, row: int | None) -> None:
        """Mark the step of a row of the table, without saying so."""
        found = [number for number, step in enumerate(self.shown.steps) if row is not None and step.row == row]
        if found or self._step(self.chosen) is not None:  # a peak that was chosen has no row, and stays so
            self.chosen = found[0] + 1 if found else None
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(520, self._count * _ROW + 2 * _EDGE)

    def minimumSizeHint(self) -> QSize:
        return QSize(260, self._count * _LEAST_ROW + _EDGE)

    @property
    def _count(self) -> int:
        return len(self.shown.steps) + 2

    @property
    def _height(self) -> float:
        """Of a row: as high as there is room for."""
        return max(min((self.height() - _EDGE) / self._count, _MOST_ROW), _LEAST_ROW)

    def _bars(self) -> list[tuple[str, int, int, int, Step | None]]:
        """(name, from, to, bytes to write, step) of each row."""
        whole = self.shown
        steps = [(step.label, step.start_bytes, step.end_bytes, step.difference_bytes, step) for step in whole.steps]
        first = (self.names[0], 0, whole.a_bytes, whole.a_bytes, None)
        return [first, *steps, (self.names[1], 0, whole.b_bytes, whole.b_bytes, None)]

    def _track(self, metrics: QFontMetricsF) -> tuple[float, float]:
        """Left and right edge of the bars: names stand before them, bytes behind."""
        names = max(metrics.horizontalAdvance(name) for name, *_ in self._bars())
        left = _EDGE + min(names, self.width() * _NAMES) + _GAP
        return left, self.width() - _EDGE - metrics.horizontalAdvance("+999 MiB") - _GAP

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self.theme.panel))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        bars, metrics = self._bars(), QFontMetricsF(self.font())
        left, right = self._track(metrics)
        scale = (right - left) / max(self.shown.highest, 1)
        runs = cut_apart([*map(one_line, self.names)], left - _EDGE - _GAP, metrics.horizontalAdvance, "…")
        for number, (name, start, end, size, step) in enumerate(bars):
            top = _EDGE / 2 + number * self._height
            row = QRectF(0, top, self.width(), self._height)
            if number == self.chosen:
                painter.fillRect(row, QColor(self.theme.selected))
            x0, x1 = sorted((left + start * scale, left + end * scale))
            bar = QRectF(x0, top + 2, max(x1 - x0, 2), self._height - 5)
            self._bar(painter, bar, number, step)
            if number + 1 < len(bars):  # the next bar begins where this one ends
                x = left + end * scale
                painter.setPen(QPen(QColor(self.theme.faint), 1, Qt.PenStyle.DotLine))
                painter.drawLine(QPointF(x, bar.bottom()), QPointF(x, bar.bottom() + 5))
            name = name if step else runs[0 if number == 0 else 1]
            self._words(painter, row, metrics, name, difference_text(size) if step else bytes_text(size), left)

    def _words(self, painter: QPainter, row: QRectF, metrics: QFontMetricsF, name: str, size: str, left: float) -> None:
        painter.setPen(QColor(self.theme.text))
        room = left - _EDGE - _GAP
        name = frame_cut(one_line(name), room, metrics.horizontalAdvance)
        shown = metrics.elidedText(name, Qt.TextElideMode.ElideMiddle, room + 1)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(_EDGE, row.top(), room + 2, row.height()), middle | Qt.AlignmentFlag.AlignLeft, shown)
        painter.drawText(row.adjusted(0, 0, -_EDGE, 0), middle | Qt.AlignmentFlag.AlignRight, size)

    def _bar(self, painter: QPainter, bar: QRectF, number: int, step: Step | None) -> None:
        """In the group's own colour, outlined as good or bad; the peaks in the colours of their curves."""
        if step is None:
            painter.fillRect(bar, colour(run_paints(self.theme)[0 if number == 0 else 1].fill, 220))
            return
        known = step.row is not None and self._paint_of is not None
        paint = self._paint_of(step.row) if known else Paint(self.theme.border)  # type: ignore[misc, arg-type]
        for brush in (fill_brush(paint), hatch_brush(paint)):
            if brush is not None:
                painter.fillRect(bar, brush)
        ink = self.theme.good if step.difference_bytes < 0 else self.theme.warning
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(ink), 2))
        painter.drawRect(bar.adjusted(1, 1, -1, -1) if bar.width() > 3 else bar)

    def row_middle(self, number: int) -> int:
        """The height at which a row is, 0 for the peak of a."""
        return round(_EDGE / 2 + (number + 0.5) * self._height)

    def row_at(self, y: float) -> int | None:
        """The number of the row at a height, 0 for the peak of a."""
        number = int((y - _EDGE / 2) // self._height)
        return number if 0 <= number < self._count else None

    def _step(self, number: int | None) -> Step | None:
        """The step in a row, None for a peak."""
        inside = number is not None and 0 < number <= len(self.shown.steps)
        return self.shown.steps[number - 1] if inside else None  # type: ignore[operator]

    def _choose(self, number: int | None) -> None:
        self.chosen = number
        self.update()
        step = self._step(number)
        self.picked.emit(-1 if step is None or step.row is None else step.row)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._choose(self.row_at(event.position().y()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}.get(Qt.Key(event.key()))
        if step is None:
            super().keyPressEvent(event)
            return
        at = -1 if self.chosen is None else self.chosen
        self._choose(min(max(at + step, 0), self._count - 1))

    def hover_text(self, y: float) -> str:
        """The exact bytes of the row at a height."""
        number = self.row_at(y)
        if number is None:
            return ""
        name, start, end, size, step = self._bars()[number]
        if step is None:
            return f"{name}\n{exact_bytes_text(size)}"
        return f"{name}\n{size:+,} bytes: from {exact_bytes_text(start)} to {exact_bytes_text(end)}"

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), tip(self.hover_text(event.pos().y())), self)
            return True
        return super().event(event)
