"""The curves of two runs on one axis: before as a grey area, after in front of it, both lines on top; pale where
what a filter matches of them is drawn."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from memstrata.capture.format.schema import I64

from ..analysis.aligned import Structure
from ..look import palette
from ..look.units import bytes_text
from ..model.axes import XAxis
from ..model.paints import Paint
from ..model.peaks import peaks_of
from ..model.run import Run
from ..model.sampling import peak_columns
from .band_painter import band_rects
from .band_raster import can_raster, paint_raster
from .colours import fill_brush
from .frame import Frame, PixelItem
from .marks import peak_names, pill, pill_place
from .matching_lines import MatchingLines
from .stacking import stack
from .step_line import step_line
from .theme import Theme, colour

_SEE_THROUGH = 10_000
"""Device pixels of height up to which Qt takes longer to mix rectangles with what lies behind than an image of them."""

_FILLED = (0.32, 0.62)
"""Opacity of the area of the run before and of the run after."""
_PALE, _PALE_LINE = 0.4, 150
"""What is left of it, and that of the lines (to 255), under what a filter matches."""


def run_paints(theme: Theme) -> tuple[Paint, Paint]:
    """The paints of the run before and of the run after."""
    before, after = palette.RUN_FILL[theme.dark]
    return Paint(before), Paint(after)


class PairItem(PixelItem):
    """Both curves, their peaks, the cell that is selected or else where the cursors stand."""

    def __init__(self, structure: Structure, runs: tuple[Run, Run]) -> None:
        super().__init__()
        self.structure, self.runs = structure, runs
        self.cell: int | None = None
        self.cursors: tuple[int, int] | None = None
        """Positions; drawn on axes without cells."""
        self.planned: I64 | None = None
        """What the run before says of the plan of the run after, at its own positions."""
        self.matching: MatchingLines | None = None
        """What the filter matches; the rest is pale then."""
        self.pills: list[QRectF] = []
        """Where names stand, in pixels."""

    @property
    def axes(self) -> tuple[XAxis, XAxis]:
        """The axis of each run."""
        return self.structure.a, self.structure.b

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        if self.cell is not None and self.structure.cells:
            cell = self.structure.cells[self.cell]
            left, right = frame.x(cell.x0), frame.x(cell.x1)
            place = QRectF(left, frame.rect.top(), max(right - left, 2), frame.rect.height())
            painter.fillRect(place, colour(self.theme.accent, 46))
        lines = [self._area(painter, frame, number) for number in (0, 1)]
        for line, ink in zip(lines, palette.RUN_LINE[self.theme.dark]):
            painter.setPen(QPen(QColor(ink), 1.6) if self.matching is None else QPen(colour(ink, _PALE_LINE), 1))
            painter.drawPolyline(line)
        if self.planned is not None:
            strength, width = (255, 2.0) if self.matching is None else (_PALE_LINE, 1.4)
            painter.setPen(QPen(colour(self.theme.accent, strength), width, Qt.PenStyle.DotLine))
            painter.drawPolyline(self._planned_line(frame, self.planned))
        if self.cursors is not None and not self.structure.cells:
            self._cursor_lines(painter, frame, self.cursors)
        if self.matching is not None:
            self.matching.paint(painter, frame, self.theme, self.axes)
        self._peaks(painter, frame)
        if self.matching is not None:
            self.pills.append(self.matching.paint_key(painter, frame, self.theme, self.pills))

    def _area(self, painter: QPainter, frame: Frame, number: int) -> QPolygonF:
        """Fills the area of a run. Returns the line over it."""
        curve, paint = self.runs[number].curve, run_paints(self.theme)[number]
        peaks = self.runs[number].once(peaks_of)
        columns = peak_columns(peaks, self.axes[number], frame.x0, frame.x1, frame.columns)
        if not len(columns.positions):
            return QPolygonF()
        values = curve[columns.positions]
        area = stack(columns.x * frame.sx + frame.dx, values[None, :], frame.y(0), -frame.sy, frame.ratio)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(Qt.PenStyle.NoPen)
        brush = fill_brush(paint, _FILLED[number] * (1 if self.matching is None else _PALE))
        if can_raster(painter, area, tall=_SEE_THROUGH):
            paint_raster(painter, area, [brush.color()])
        else:
            painter.setBrush(brush)
            painter.drawRects(band_rects(area, 0))
        return step_line(area.x, area.y[1])

    def _planned_line(self, frame: Frame, curve: I64) -> QPolygonF:
        columns = peak_columns(curve, self.axes[0], frame.x0, frame.x1, frame.columns)
        return step_line(columns.x * frame.sx + frame.dx, frame.y(0) + curve[columns.positions] * frame.sy)

    def _cursor_lines(self, painter: QPainter, frame: Frame, cursors: tuple[int, int]) -> None:
        """Where they stand on their peaks, the dots there say so already."""
        painter.setPen(QPen(QColor(self.theme.accent), 1.4, Qt.PenStyle.DashLine))
        moved = [at != run.peak_position for run, at in zip(self.runs, cursors)]
        for x in {round(frame.x(float(axis.x_of(at)))) for axis, at in zip(self.axes, cursors) if any(moved)}:
            painter.drawLine(QPointF(x, frame.rect.top()), QPointF(x, frame.rect.bottom()))

    def _peaks(self, painter: QPainter, frame: Frame) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        self.pills = []
        texts = peak_names(painter.font(), frame.rect, [(run.name, bytes_text(run.peak_bytes)) for run in self.runs])
        for run, axis, paint, text in zip(self.runs, self.axes, run_paints(self.theme), texts):
            at = QPointF(frame.x(float(axis.x_of(run.peak_position))), frame.y(run.peak_bytes))
            painter.setPen(QPen(QColor(self.theme.text), 1.2))
            painter.setBrush(QColor(paint.fill))
            painter.drawEllipse(at, 3.5, 3.5)
            y = self._free_height(painter, frame.rect, at, text)
            self.pills.append(pill(painter, frame.rect, at.x(), y, text, self.theme.text, self.theme.panel))

    def _free_height(self, painter: QPainter, rect: QRectF, at: QPointF, text: str) -> float:
        """Where the name of a peak lies over no other name: over the peak, else under it or farther away."""
        steps = (at.y() - 26, at.y() + 8, *(at.y() + 26 * away for away in (1, -2, 2, -3, 3)))
        inside = [min(max(y, rect.top() + 2), rect.bottom() - 24) for y in steps]
        places = [pill_place(painter.font(), rect, at.x(), y, text)[1] for y in inside]
        free = (y for y, place in zip(inside, places) if not any(place.intersects(one) for one in self.pills))
        return next(free, inside[0])
