"""Two runs on one axis of phases and layers: before as a grey area, after in front of it, what is saved in between."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QToolTip, QWidget

from memstrata.capture.format.schema import NONE, Phase

from ..look.units import bytes_text, difference_text, exact_bytes_text
from ..model.paints import Paint
from ..model.run import Run
from ..state.structure import Cell, Structure
from .axis_items import BytesAxis, style_axis
from .band_painter import band_rects, stack
from .colours import fill_brush
from .frame import Frame, PixelItem
from .marks import pill
from .ribbon import HEIGHT, paint_phase
from .sampling import peak_columns
from .theme import Theme, colour, current
from .time_view import TimeView
from .timeline import AXIS_WIDTH, GRID, RIGHT_MARGIN

_HEADROOM = 1.16


def run_paints(theme: Theme) -> tuple[Paint, Paint]:
    """The paints of the run before and of the run after."""
    return (Paint("#8f959e"), Paint("#4d8fe0")) if theme.dark else (Paint("#a9b0ba"), Paint("#2f6fc0"))


class PairItem(PixelItem):
    """Both curves, their peaks, and the cell that is selected."""

    def __init__(self, structure: Structure, runs: tuple[Run, Run]) -> None:
        super().__init__()
        self.structure, self.runs = structure, runs
        self.cell: int | None = None

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        if self.cell is not None:
            cell = self.structure.cells[self.cell]
            left, right = frame.x(cell.x0), frame.x(cell.x1)
            place = QRectF(left, frame.rect.top(), max(right - left, 2), frame.rect.height())
            painter.fillRect(place, colour(self.theme.accent, 46))
        for number, (run, paint) in enumerate(zip(self.runs, run_paints(self.theme))):
            self._curve(painter, frame, run, number, paint)
        self._peaks(painter, frame)

    def _curve(self, painter: QPainter, frame: Frame, run: Run, number: int, paint: Paint) -> None:
        axis = (self.structure.a, self.structure.b)[number]
        columns = peak_columns(run.curve, axis, frame.x0, frame.x1, max(int(frame.rect.width()), 1))
        if not len(columns.positions):
            return
        values = run.curve[columns.positions]
        area = stack(columns.x * frame.sx + frame.dx, values[None, :], frame.y(0), -frame.sy)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(fill_brush(paint, 0.32 if number == 0 else 0.62))
        painter.drawRects(band_rects(area, 0))
        points = np.stack([np.repeat(area.x, 2)[1:-1], np.repeat(area.y[1], 2)], axis=1)
        painter.setPen(QPen(QColor(paint.fill), 1.6))
        painter.drawPolyline(QPolygonF([QPointF(*point) for point in points.tolist()]))

    def _peaks(self, painter: QPainter, frame: Frame) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        taken: QPointF | None = None
        for run, axis, paint in zip(self.runs, (self.structure.a, self.structure.b), run_paints(self.theme)):
            at = QPointF(frame.x(float(axis.x_of(run.peak_position))), frame.y(run.peak_bytes))
            painter.setPen(QPen(QColor(self.theme.text), 1.2))
            painter.setBrush(QColor(paint.fill))
            painter.drawEllipse(at, 3.5, 3.5)
            near = taken is not None and abs(at.x() - taken.x()) < 320 and abs(at.y() - taken.y()) < 30
            y = at.y() + 8 if near else max(at.y() - 26, frame.rect.top() + 2)
            text = f"{run.name} {bytes_text(run.peak_bytes)}"
            pill(painter, frame.rect, at.x(), y, text, self.theme.text, self.theme.panel)
            taken = at


class CellRibbon(PixelItem):
    """The phases over the cells."""

    def __init__(self, cells: tuple[Cell, ...]) -> None:
        super().__init__()
        self.cells = cells

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        for phase, group in groupby(self.cells, key=lambda cell: cell.phase):
            members = list(group)
            if phase == Phase.other:
                continue
            left, right = frame.x(members[0].x0), frame.x(members[-1].x1)
            rect = QRectF(left, frame.rect.top(), max(right - left - 1, 1.0), frame.rect.height())
            paint_phase(painter, rect.intersected(frame.rect), phase, self.theme, phase.name)


class CellLabels(PixelItem):
    """Under the cells the number of each layer, and what else has room for its name."""

    def __init__(self, cells: tuple[Cell, ...], names: tuple[str, ...]) -> None:
        super().__init__()
        self.cells, self.names = cells, names

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        metrics = QFontMetricsF(painter.font())
        painter.setPen(QColor(self.theme.faint))
        free = frame.rect.left()
        for cell in self.cells:
            text = self._text(cell)
            middle, width = frame.x((cell.x0 + cell.x1) / 2), metrics.horizontalAdvance(text)
            if not text or middle - width / 2 < free or middle + width / 2 > frame.rect.right():
                continue
            place = QRectF(middle - width, frame.rect.top(), width * 2, frame.rect.height())
            painter.drawText(place, Qt.AlignmentFlag.AlignCenter, text)
            free = middle + width / 2 + 5

    def _text(self, cell: Cell) -> str:
        if cell.layer == NONE:
            return "optimizer" if cell.phase == Phase.optimizer else ""
        name = self.names[cell.layer] if cell.layer < len(self.names) else str(cell.layer)
        return name.rpartition(".")[2]


class StructureChart(pg.GraphicsLayoutWidget):
    """Reads two runs; says which cell was clicked."""

    picked = Signal(int)

    def __init__(self, structure: Structure, runs: tuple[Run, Run], parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.structure, self.runs = structure, runs
        self.setAccessibleName("Memory of both runs by phase and layer")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.pair = PairItem(structure, runs)
        self.ribbon = CellRibbon(structure.cells)
        self.labels = CellLabels(structure.cells, runs[0].layers.labels)
        self._build()
        self.set_theme(current())

    def _build(self) -> None:
        self.ci.layout.setContentsMargins(0, 2, RIGHT_MARGIN, 2)
        self.ci.layout.setVerticalSpacing(2)
        self.ci.layout.setHorizontalSpacing(0)
        self.bytes_axis = BytesAxis(AXIS_WIDTH)
        self.view = TimeView()
        self.strips = [self._strip(row, item) for row, item in ((0, self.ribbon), (2, self.labels))]
        self.addItem(self.bytes_axis, row=1, col=0)
        self.addItem(self.view, row=1, col=1)
        self.bytes_axis.linkToView(self.view)
        top = int(max(run.peak_bytes for run in self.runs) * _HEADROOM) + 1
        self.view.addItem(self.pair, ignoreBounds=True)
        self.caption = self.addLabel("layer", row=2, col=0, justify="right")
        self.ci.layout.setRowFixedHeight(2, HEIGHT)
        for item, height in ((self.pair, top), (self.ribbon, 1), (self.labels, 1)):
            item.set_extent(0, self.structure.width, height)
        self.view.bound(self.structure.a, top)
        self.view.setXRange(0, self.structure.width, padding=0)
        self.view.clicked.connect(lambda x, _y: self.picked.emit(self.structure.cell_at(x)))

    def _strip(self, row: int, item: PixelItem) -> pg.ViewBox:
        view = pg.ViewBox(enableMenu=False, enableMouse=False, defaultPadding=0)
        view.setYRange(0, 1, padding=0)
        view.setFixedHeight(HEIGHT)
        view.addItem(item, ignoreBounds=True)
        self.addItem(view, row=row, col=1)
        view.setXLink(self.view)
        return view

    def set_theme(self, theme: Theme) -> None:
        """Repaint in this theme."""
        self.setBackground(theme.panel)
        style_axis(self.bytes_axis, theme)
        self.bytes_axis.setGrid(GRID)
        for item in (self.pair, self.ribbon, self.labels):
            item.theme = theme
            item.update()
        self.caption.setText("layer" if self.labels.names else "", color=theme.faint)

    def select(self, cell: int | None) -> None:
        """Mark a cell."""
        self.pair.cell = cell
        self.pair.update()

    def hover_text(self, x: float) -> str:
        """The cell at x, and the most bytes of each run in it."""
        cell = self.structure.cells[self.structure.cell_at(x)]
        lines, sizes = [cell.label], []
        for run, (first, last) in zip(self.runs, (cell.a, cell.b)):
            sizes.append(int(run.curve[first : last + 1].max()))
            lines.append(f"{run.name}: {bytes_text(sizes[-1])} ({exact_bytes_text(sizes[-1])})")
        return "\n".join([*lines, f"difference {difference_text(sizes[1] - sizes[0])}"])

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        scene = self.mapToScene(event.position().toPoint())
        if event.buttons() == Qt.MouseButton.NoButton and self.view.sceneBoundingRect().contains(scene):
            text = self.hover_text(self.view.mapSceneToView(scene).x())
            QToolTip.showText(event.globalPosition().toPoint(), text, self)
