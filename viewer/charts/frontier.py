"""Plans as points: the peak of the step against the time it takes longer. A click on a point chooses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QToolTip, QWidget

from ..look import ticks
from ..look.tips import tip
from .theme import Theme, colour, current

_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 20, 36
_RADIUS, _NEAR = 4.0, 14.0


@dataclass(frozen=True)
class Point:
    """A plan: `cost` is its extra seconds, or layers run again where nothing was timed."""

    cost: float
    peak_bytes: int
    text: str
    """What is shown on hover."""


class FrontierChart(QWidget):
    """`chosen` carries the number of a point; left and right go from one to the next."""

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.points: tuple[Point, ...] = ()
        self.shown: Point | None = None
        """The plan looked at, on a point or between them."""
        self.timed = True
        self.theme = current()
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Best plans: peak against extra time")
        self.setMinimumSize(190, 96)

    def sizeHint(self) -> QSize:
        return QSize(320, 200)

    def show_points(self, points: Sequence[Point], shown: Point | None, timed: bool) -> None:
        """Other contents; the points in order of their cost. Without any there are no axes either."""
        self.points, self.shown, self.timed = tuple(points), shown, timed
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = theme
        self.update()

    @property
    def _all(self) -> list[Point]:
        return [*self.points, *([self.shown] if self.shown is not None else [])]

    @property
    def _plot(self) -> QRectF:
        return QRectF(_LEFT, _TOP, max(self.width() - _LEFT - _RIGHT, 1), max(self.height() - _TOP - _BOTTOM, 1))

    @property
    def _most(self) -> tuple[float, float]:
        """Cost and bytes at the far ends of the axes, which begin at zero."""
        cost = max((p.cost for p in self._all), default=0.0) or 1.0
        return cost * 1.05, max((p.peak_bytes for p in self._all), default=1) * 1.08

    def place_of(self, point: Point) -> QPointF:
        """Where a point is drawn."""
        plot, (cost, size) = self._plot, self._most
        return QPointF(
            plot.left() + plot.width() * point.cost / cost, plot.bottom() - plot.height() * point.peak_bytes / size
        )

    def point_at(self, place: QPointF) -> int:
        """The number of the nearest point within reach, -1 for none."""
        distances = [(self.place_of(point) - place).manhattanLength() for point in self.points]
        nearest = min(range(len(distances)), key=distances.__getitem__, default=-1)
        return nearest if nearest >= 0 and distances[nearest] <= _NEAR else -1

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self.theme.panel))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._all:
            self._axes(painter)
        if self.points:
            self._line(painter)
        if self.shown is not None:
            self._shown(painter, self.shown)
        if self.hasFocus():
            painter.setPen(QPen(QColor(self.theme.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _axes(self, painter: QPainter) -> None:
        plot, (cost, size) = self._plot, self._most
        metrics, faint = QFontMetricsF(self.font()), QColor(self.theme.faint)
        painter.setPen(QPen(QColor(self.theme.border), 1))
        painter.drawLine(plot.bottomLeft(), plot.bottomRight())
        step = ticks.byte_step(size, max(int(plot.height() / 26), 2))
        for value in ticks.multiples(0, size, step):
            y = plot.bottom() - plot.height() * value / size
            painter.setPen(QPen(colour(self.theme.border, 130), 1))
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.setPen(faint)
            box = QRectF(0, y - metrics.height() / 2, _LEFT - 12, metrics.height())
            painter.drawText(
                box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, ticks.byte_text(value, step)
            )
        painter.setPen(faint)
        painter.drawText(QRectF(4, 0, self.width() - 8, _TOP), Qt.AlignmentFlag.AlignVCenter, "peak of the step")
        self._cost_axis(painter, metrics, cost)

    def _cost_axis(self, painter: QPainter, metrics: QFontMetricsF, cost: float) -> None:
        plot = self._plot
        step = ticks.round_step(cost, max(int(plot.width() / 62), 2))
        if step > cost:  # a narrow chart, too, says what its axis counts
            step = ticks.round_step(cost / 2.5, 1)
        step = step if self.timed else max(step, 1.0)
        for value in ticks.multiples(step, cost, step):
            x = plot.left() + plot.width() * value / cost
            text = ticks.seconds_text(value, step) if self.timed else ticks.event_text(value, step)
            width = metrics.horizontalAdvance(text) + 2
            box = QRectF(x - width / 2, plot.bottom() + 2, width, metrics.height())
            if box.right() > self.width():
                box.moveRight(self.width())
            painter.drawText(box, Qt.AlignmentFlag.AlignHCenter, text)
        title = "more time per step" if self.timed else "layers run again per step"
        below = QRectF(4, plot.bottom() + metrics.height() + 1, self.width() - 4 - _RIGHT, metrics.height() + 2)
        painter.drawText(below, Qt.AlignmentFlag.AlignRight, title)

    def _line(self, painter: QPainter) -> None:
        """Stairs: between two plans the slower one is what a budget gets."""
        corners = [self.place_of(self.points[0])]
        for point in self.points[1:]:
            place = self.place_of(point)
            corners += [QPointF(place.x(), corners[-1].y()), place]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(colour(self.theme.accent, 150), 1))
        painter.drawPolyline(QPolygonF(corners))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(self.theme.panel), 1))
        painter.setBrush(QColor(self.theme.accent))
        for point in self.points:
            painter.drawEllipse(self.place_of(point), _RADIUS, _RADIUS)

    def _shown(self, painter: QPainter, point: Point) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(QColor(self.theme.text), 2))
        painter.drawEllipse(self.place_of(point), _RADIUS + 3, _RADIUS + 3)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        number = self.point_at(event.position())
        if number >= 0:
            self.chosen.emit(number)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        number = self.point_at(event.position())
        self.setCursor(Qt.CursorShape.PointingHandCursor if number >= 0 else Qt.CursorShape.ArrowCursor)
        if number < 0:
            QToolTip.hideText()
            return
        QToolTip.showText(event.globalPosition().toPoint(), tip(self.points[number].text), self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        if not step or not self.points:
            super().keyPressEvent(event)
            return
        cost = self.shown.cost if self.shown is not None else 0.0
        beyond = [i for i, p in enumerate(self.points) if (p.cost > cost if step > 0 else p.cost < cost)]
        if beyond:
            self.chosen.emit(beyond[0] if step > 0 else beyond[-1])
