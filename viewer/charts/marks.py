"""What lies over the bands: the flag at the peak, the cursor, the selected allocation, the capacity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen

from ..look.name_cut import cut_apart
from ..look.tips import one_line
from ..look.units import bytes_text
from .frame import Frame, PixelItem
from .theme import colour

_WIDEST = 0.4
"""Of the view's width, which a label may take in which the name of a file stands."""


@dataclass(frozen=True)
class Marks:
    """Where each mark stands, in data coordinates; None leaves it out."""

    peak_x: float
    peak_bytes: int
    cursor_x: float
    cursor_end_x: float
    """Where the state at the cursor ends."""
    cursor_bytes: int
    life: tuple[float, float] | None = None
    """From where to where the selected allocation lives."""
    capacity_bytes: int | None = None
    mark: tuple[float, int] | None = None
    """Where the second cursor stands, and the bytes there."""
    failed: tuple[tuple[float, int], ...] = ()
    """Where an allocation failed, and how many bytes were asked for."""


class MarkItem(PixelItem):
    """Paints the marks."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: Marks | None = None

    def show_marks(self, marks: Marks) -> None:
        """What to paint from now on."""
        self.marks = marks
        self.update()

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        if self.marks is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        self._capacity(painter, frame, self.marks)
        self._life(painter, frame, self.marks)
        self._failed(painter, frame, self.marks)
        self._mark(painter, frame, self.marks)
        self._cursor(painter, frame, self.marks)
        self._peak(painter, frame, self.marks)

    def _peak(self, painter: QPainter, frame: Frame, marks: Marks) -> None:
        """The flag; where the peak is out of sight, it points the way from the edge."""
        text = f"Peak {bytes_text(marks.peak_bytes)}"
        x, y, rect = frame.x(marks.peak_x), frame.y(marks.peak_bytes), frame.rect
        if x < rect.left() - 1 or x > rect.right() + 1:
            text = f"◀ {text}" if x < rect.left() else f"{text} ▶"
            self._pill(painter, rect, min(max(x, rect.left()), rect.right()), rect.top() + 4, text)
            return
        top = max(y - 28, rect.top() + 2)
        painter.setPen(QPen(QColor(self.theme.text), 1.4))
        painter.drawLine(QPointF(x, y), QPointF(x, top))
        painter.setBrush(QColor(self.theme.text))
        painter.drawEllipse(QPointF(x, y), 3, 3)
        self._pill(painter, rect, x, top, text)

    def _pill(self, painter: QPainter, inside: QRectF, x: float, y: float, text: str, accent: bool = False) -> None:
        pill(painter, inside, x, y, text, self.theme.accent if accent else self.theme.text, self.theme.panel)

    def _cursor(self, painter: QPainter, frame: Frame, marks: Marks) -> None:
        x, end, rect = frame.x(marks.cursor_x), frame.x(marks.cursor_end_x), frame.rect
        if end - x > 3:
            painter.fillRect(QRectF(x, rect.top(), end - x, rect.height()), colour(self.theme.accent, 36))
        painter.setPen(QPen(QColor(self.theme.accent), 1.6))
        painter.drawLine(QPointF(x, rect.top()), QPointF(x, rect.bottom()))
        if marks.cursor_x != marks.peak_x and rect.left() <= x <= rect.right():
            y = min(frame.y(marks.cursor_bytes), rect.bottom() - 30)
            self._pill(painter, rect, x, max(y - 24, rect.top() + 26), bytes_text(marks.cursor_bytes), accent=True)

    def _mark(self, painter: QPainter, frame: Frame, marks: Marks) -> None:
        """The second cursor, the stretch from it to the cursor, and what was gained on the way."""
        if marks.mark is None:
            return
        x, cursor, rect = frame.x(marks.mark[0]), frame.x(marks.cursor_x), frame.rect
        left, right = max(min(x, cursor), rect.left()), min(max(x, cursor), rect.right())
        if right > left:
            painter.fillRect(QRectF(left, rect.top(), right - left, rect.height()), colour(self.theme.accent, 26))
        painter.setPen(QPen(QColor(self.theme.accent), 1.6, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, rect.top()), QPointF(x, rect.bottom()))
        if rect.left() <= x <= rect.right():
            text = f"mark {bytes_text(marks.mark[1])}"
            self._pill(painter, rect, x, rect.bottom() - 34, text, accent=True)

    def _life(self, painter: QPainter, frame: Frame, marks: Marks) -> None:
        if marks.life is None:
            return
        left, right, y = frame.x(marks.life[0]), frame.x(marks.life[1]), frame.rect.bottom() - 5
        for width, ink in ((6.0, self.theme.panel), (3.0, self.theme.accent)):
            painter.setPen(QPen(QColor(ink), width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
            painter.drawLine(QPointF(left, y), QPointF(max(right, left + 2), y))

    def _failed(self, painter: QPainter, frame: Frame, marks: Marks) -> None:
        """Marked, never added to a curve: the bytes were asked for and not given."""
        for number, (at, size) in enumerate(marks.failed):
            x, rect = frame.x(at), frame.rect
            painter.setPen(QPen(QColor(self.theme.warning), 1.6, Qt.PenStyle.DotLine))
            painter.drawLine(QPointF(x, rect.top()), QPointF(x, rect.bottom()))
            text = f"out of memory: {bytes_text(size)} asked for"
            if rect.left() <= x <= rect.right():
                y = rect.top() + rect.height() * 0.4 + 24 * (number % 4)
                pill(painter, rect, x, y, text, self.theme.warning, self.theme.panel, widest=1.0)

    def _capacity(self, painter: QPainter, frame: Frame, marks: Marks) -> None:
        if marks.capacity_bytes is None:
            return
        y, rect = frame.y(marks.capacity_bytes), frame.rect
        above = y < rect.top()
        if not above:
            painter.setPen(QPen(QColor(self.theme.warning), 1.4, Qt.PenStyle.DashDotLine))
            painter.drawLine(QPointF(rect.left(), y), QPointF(rect.right(), y))
        text = f"capacity {bytes_text(marks.capacity_bytes)}" + (" ↑" if above else "")
        painter.setPen(QColor(self.theme.warning))
        place = QRectF(rect.left() + 8, max(y, rect.top()) + 2, 260, QFontMetricsF(painter.font()).height())
        painter.drawText(place, Qt.AlignmentFlag.AlignLeft, text)


def pill(
    painter: QPainter, inside: QRectF, x: float, y: float, text: str, fill: str, ink: str, widest: float = _WIDEST
) -> QRectF:
    """A rounded label at x, kept inside the view: right of x where there is room, else left. Returns its place."""
    text, place = pill_place(painter.font(), inside, x, y, text, widest)
    painter.setPen(QPen(QColor(ink), 1.2))
    painter.setBrush(QColor(fill))
    painter.drawRoundedRect(place, 4, 4)
    painter.setPen(QColor(ink))
    plain = painter.font()
    painter.setFont(_bold(plain))
    painter.drawText(place, Qt.AlignmentFlag.AlignCenter, text)
    painter.setFont(plain)
    return place


def pill_place(
    font: QFont, inside: QRectF, x: float, y: float, text: str, widest: float = _WIDEST
) -> tuple[str, QRectF]:
    """What such a label says, and where it lies."""
    metrics = QFontMetricsF(_bold(font))
    room = min(inside.width() * widest, inside.width() - 14)
    text = metrics.elidedText(one_line(text), Qt.TextElideMode.ElideMiddle, room)
    width, height = metrics.horizontalAdvance(text) + 14, metrics.height() + 4
    left = x if x + width < inside.right() else x - width
    return text, QRectF(max(left, inside.left()), y, width, height)


def peak_names(font: QFont, inside: QRectF, named: Sequence[tuple[str, str]]) -> list[str]:
    """What such labels say of these (name, bytes) beside each other: the names are cut so that they differ."""
    metrics = QFontMetricsF(_bold(font))
    room = min(inside.width() * _WIDEST, inside.width() - 14)
    room -= max((metrics.horizontalAdvance(f" {size}") for _, size in named), default=0)
    names = cut_apart([one_line(name) for name, _ in named], room, metrics.horizontalAdvance, "…")
    return [f"{name} {size}" for name, (_, size) in zip(names, named)]


def _bold(font: QFont) -> QFont:
    bold = QFont(font)
    bold.setBold(True)
    return bold
