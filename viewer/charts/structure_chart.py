"""Two runs on one axis: by phase and layer with the phases over the plot and the layers under it, or along time,
events or the share of each run."""

from __future__ import annotations

from itertools import groupby

import pyqtgraph as pg
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent, QPainter
from PySide6.QtWidgets import QToolTip, QWidget

from memstrata.capture.format.schema import NONE, Phase

from ..look.units import bytes_text, difference_text, exact_bytes_text, seconds_text
from ..model.run import Run
from ..state.structure import Cell, Structure
from .axis_items import BytesAxis, UnitAxis, style_axis
from .frame import Frame, PixelItem
from .pair_item import PairItem
from .ribbon import HEIGHT, paint_phase
from .theme import Theme, current
from .time_view import TimeView
from .timeline import AXIS_WIDTH, GRID, RIGHT_MARGIN

_HEADROOM = 1.16


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
    """Reads two runs on one axis; says which cell was clicked or, on an axis without cells, which x."""

    picked = Signal(int)
    placed = Signal(float)

    def __init__(self, structure: Structure, runs: tuple[Run, Run], parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.structure, self.runs = structure, runs
        along = "phase and layer" if structure.cells else structure.a.title
        self.setAccessibleName(f"Memory of both runs by {along}")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.pair = PairItem(structure, runs)
        self.items = [self.pair]
        self._build()
        self.set_theme(current())

    def _build(self) -> None:
        self.ci.layout.setContentsMargins(0, 2, RIGHT_MARGIN, 2)
        self.ci.layout.setVerticalSpacing(2)
        self.ci.layout.setHorizontalSpacing(0)
        self.bytes_axis, self.x_axis = BytesAxis(AXIS_WIDTH), UnitAxis()
        self.view = TimeView()
        self.addItem(self.bytes_axis, row=1, col=0)
        self.addItem(self.view, row=1, col=1)
        self.bytes_axis.linkToView(self.view)
        top = int(max(run.peak_bytes for run in self.runs) * _HEADROOM) + 1
        self.view.addItem(self.pair, ignoreBounds=True)
        if self.structure.cells:
            self._add_cells()
        else:
            self.addItem(self.x_axis, row=2, col=1)
            self.x_axis.linkToView(self.view)
            self.x_axis.set_unit(self.structure.a.unit, self._title())
        for item in self.items:
            item.set_extent(0, self.structure.width, top if item is self.pair else 1)
        self.view.bound(self.structure.whole, top)
        self.view.setXRange(0, self.structure.width, padding=0)
        self.view.clicked.connect(self._clicked)

    def _add_cells(self) -> None:
        """The phases over the plot, the layers under it."""
        names = max((run.layers.labels for run in self.runs), key=len)
        strips = {0: CellRibbon(self.structure.cells), 2: CellLabels(self.structure.cells, names)}
        for row, item in strips.items():
            self._strip(row, item)
            self.items.append(item)
        self.caption = self.addLabel("layer", row=2, col=0, justify="right")
        self.ci.layout.setRowFixedHeight(2, HEIGHT)

    def _title(self) -> str:
        """What the x axis counts; the runs need not agree in whose clock they went by."""
        return " and ".join(dict.fromkeys((self.structure.a.title, self.structure.b.title)))

    def _strip(self, row: int, item: PixelItem) -> None:
        view = pg.ViewBox(enableMenu=False, enableMouse=False, defaultPadding=0)
        view.setYRange(0, 1, padding=0)
        view.setFixedHeight(HEIGHT)
        view.addItem(item, ignoreBounds=True)
        self.addItem(view, row=row, col=1)
        view.setXLink(self.view)

    def _clicked(self, x: float, _y: float) -> None:
        if self.structure.cells:
            self.picked.emit(self.structure.cell_at(x))
        else:
            self.placed.emit(x)

    def set_theme(self, theme: Theme) -> None:
        """Repaint in this theme."""
        self.setBackground(theme.panel)
        for axis in (self.bytes_axis, self.x_axis):
            style_axis(axis, theme)
        self.bytes_axis.setGrid(GRID)
        for item in self.items:
            item.theme = theme
            item.update()
        if self.structure.cells:
            self.caption.setText("layer" if any(len(run.layers) for run in self.runs) else "", color=theme.faint)

    def select(self, cell: int | None, cursors: tuple[int, int]) -> None:
        """Mark a cell or, on an axis without cells, the cursors."""
        self.pair.cell, self.pair.cursors = cell, cursors
        self.pair.update()

    def hover_text(self, x: float) -> str:
        """What is at x, and the bytes of each run there: in a cell the most of it."""
        lines, sizes = [], []
        if self.structure.cells:
            cell = self.structure.cells[self.structure.cell_at(x)]
            lines.append(cell.label)
            sizes = [int(run.curve[i : j + 1].max()) for run, (i, j) in zip(self.runs, (cell.a, cell.b))]
        else:
            lines.append(self._place_text(x))
            at = [int(axis.position_at(x)) for axis in self.pair.axes]
            sizes = [int(run.curve[position]) for run, position in zip(self.runs, at)]
        lines += [f"{run.name}: {bytes_text(n)} ({exact_bytes_text(n)})" for run, n in zip(self.runs, sizes)]
        return "\n".join([*lines, f"difference {difference_text(sizes[1] - sizes[0])}"])

    def _place_text(self, x: float) -> str:
        texts = {"s": seconds_text(x), "events": f"event {x:,.0f}"}
        return texts.get(self.structure.a.unit, f"{x:.1f}%")

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        scene = self.mapToScene(event.position().toPoint())
        if event.buttons() == Qt.MouseButton.NoButton and self.view.sceneBoundingRect().contains(scene):
            text = self.hover_text(self.view.mapSceneToView(scene).x())
            QToolTip.showText(event.globalPosition().toPoint(), text, self)
