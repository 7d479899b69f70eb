"""Two runs on one axis: by phase and layer with the phases over the plot and the layers under it, or along time,
events or the share of each run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pyqtgraph as pg
from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QPainter
from PySide6.QtWidgets import QWidget

from memstrata.capture.format.schema import I64, NONE, Phase

from ..analysis.aligned import Cell, Span, Structure
from ..analysis.planned_before import PlannedBefore
from ..look.units import bytes_text, difference_text, exact_bytes_text, seconds_text
from ..model.run import Run
from ..state.session import Gesture
from . import pair_keys
from .axis_items import BytesAxis, UnitAxis, style_axis
from .frame import Frame, PixelItem
from .grid import GridItem
from .keys import held
from .matching_lines import MatchingLines
from .other_lines import Line, OtherLines
from .pair_item import PairItem
from .plot import Plot
from .ribbon import HEIGHT, paint_phase
from .theme import Theme, current
from .time_view import TimeView
from .timeline import AXIS_WIDTH, RIGHT_MARGIN

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


class StructureChart(Plot):
    """Reads two runs on one axis; says which cell was clicked or, on an axis without cells, which x."""

    picked = Signal(int)
    placed = Signal(float)
    ranged = Signal(object, object)
    """((first, last x) or None for the whole, gesture): this part of the axis is to be shown."""
    escaped = Signal()
    """Nothing is to be selected."""

    def __init__(self, structure: Structure, runs: tuple[Run, Run], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.structure, self.runs = structure, runs
        along = "phase and layer" if structure.cells else structure.a.title
        self.setAccessibleName(f"Memory of both runs by {along}")
        self.pair = PairItem(structure, runs)
        self._setting = False
        self._planned_text = ""
        self.gesture: Gesture | None = None
        """What a place that is picked just now is part of."""
        self._build()
        self.set_theme(current())

    def _build(self) -> None:
        self.ci.layout.setContentsMargins(0, 2, RIGHT_MARGIN, 2)
        self.ci.layout.setVerticalSpacing(2)
        self.ci.layout.setHorizontalSpacing(0)
        self.bytes_axis, self.x_axis = BytesAxis(AXIS_WIDTH), UnitAxis()
        self.grid = GridItem(self.bytes_axis)
        self.others = OtherLines(self.pair)
        self.items: list[PixelItem] = [self.pair, self.grid, self.others]
        self.view = TimeView()
        self.addItem(self.bytes_axis, row=1, col=0)
        self.addItem(self.view, row=1, col=1)
        self.bytes_axis.linkToView(self.view)
        for item in self.items:
            self.view.addItem(item, ignoreBounds=True)
        if self.structure.cells:
            self._add_cells()
        else:
            self.addItem(self.x_axis, row=2, col=1)
            self.x_axis.linkToView(self.view)
            self.x_axis.set_unit(self.structure.a.unit, self._title())
        self._show_top()
        self.view.setXRange(0, self.structure.width, padding=0)
        self.view.clicked.connect(self._clicked)
        self.view.sigXRangeChanged.connect(self._range_changed)

    def _show_top(self) -> None:
        """Give the bytes the height that all curves need."""
        runs = (*self.runs, *(run for run, _ in self.others.lines))
        top = int(max(run.peak_bytes for run in runs) * _HEADROOM) + 1
        for item in self.items:
            item.set_extent(0, self.structure.width, top if item in (self.pair, self.grid, self.others) else 1)
        self.view.bound(self.structure.whole, top)

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
        self.setFocus()
        self.go_to(x)

    def go_to(self, x: float) -> None:
        """Put both cursors to what each run shows at x."""
        if self.structure.cells:
            self.picked.emit(self.structure.cell_at(x))
        else:
            self.placed.emit(x)

    @property
    def place(self) -> float:
        """The x of the cell that is marked, else of the cursors: of the one further on."""
        if self.structure.cells and self.pair.cell is not None:
            return self.structure.cells[self.pair.cell].x0
        cursors = self.pair.cursors or (0, 0)
        x = max(float(axis.x_of(cursor)) for axis, cursor in zip(self.pair.axes, cursors))
        return self.structure.cells[self.structure.cell_at(x)].x0 if self.structure.cells else x

    @property
    def span(self) -> tuple[float, float]:
        """First and last x on screen."""
        low, high = self.view.viewRange()[0]
        return max(low, 0.0), min(high, self.structure.width)

    def span_with(self, x: float) -> tuple[float, float] | None:
        """The part of the axis on screen, moved as far as x needs to be in it; None for the whole."""
        (low, high), width = self.span, self.structure.width
        if high - low >= width:
            return None
        shift = 0.0 if low <= x <= high else x - (low + (high - low) * (0.1 if x < low else 0.9))
        shift = min(max(shift, -low), width - high)
        return low + shift, high + shift

    def show_range(self, span: tuple[float, float] | None) -> None:
        """Show this part of the axis, None for the whole."""
        self._setting = True
        self.view.setXRange(*(span or (0, self.structure.width)), padding=0)
        self._setting = False

    def show_span(self, span: tuple[float, float] | None, gesture: Gesture | None) -> None:
        """Ask for this part of the axis."""
        low, high = span or (0.0, self.structure.width)
        low, high = max(low, 0.0), min(high, self.structure.width)
        if high - low >= self.view.least:
            self.ranged.emit(None if high - low >= self.structure.width else (low, high), gesture)

    def _range_changed(self, _view: object, span: tuple[float, float]) -> None:
        if not self._setting:
            self.show_span((float(span[0]), float(span[1])), self.view.gesture)

    def let_go(self) -> None:
        """Ask for nothing to be selected."""
        self.escaped.emit()

    def take_key(self, event: QKeyEvent, from_afar: bool = False) -> bool:
        """Do what a key means here; False where it means nothing."""
        self.gesture = held(event)
        taken = pair_keys.take(event, self, from_afar)
        self.gesture = None
        return taken

    def keyPressEvent(self, event: QKeyEvent) -> None:
        event.setAccepted(self.take_key(event))

    def set_theme(self, theme: Theme) -> None:
        """Repaint in this theme."""
        self.setBackground(theme.panel)
        for axis in (self.bytes_axis, self.x_axis):
            style_axis(axis, theme)
        for item in self.items:
            item.theme = theme
            item.update()
        if self.structure.cells:
            self.caption.setText("layer" if any(len(run.layers) for run in self.runs) else "", color=theme.faint)

    def select(self, cell: int | None, cursors: tuple[int, int]) -> None:
        """Mark a cell or, on an axis without cells, the cursors."""
        self.pair.cell, self.pair.cursors = cell, cursors
        self.pair.update()

    def show_planned(self, planned: PlannedBefore | None) -> None:
        """The line that the run before predicts for the plan of the run after; none for None."""
        self.pair.planned = None if planned is None else planned.curve
        self.pair.update()
        self._planned_text = "" if planned is None else f"{planned.text}; dotted."
        self._describe()

    def show_matching(self, matching: MatchingLines | None) -> None:
        """What the filter of both runs matches, over their curves; None where there is no filter."""
        self.pair.matching = matching
        for item in (self.pair, self.others):
            item.update()
        self._describe()

    def _describe(self) -> None:
        matching = self.pair.matching
        said = "" if matching is None else f'Two lines show what matches "{matching.words}".'
        self.setAccessibleDescription(" ".join(filter(None, (said, self._planned_text))))

    def show_others(self, lines: tuple[Line, ...]) -> None:
        """Draw further runs on this axis too, or none."""
        if [run for run, _ in lines] != [run for run, _ in self.others.lines]:
            self.others.lines = lines
            self._show_top()
            self.others.update()

    def hover_text(self, x: float, _y: float = 0.0) -> str:
        """What is at x, and the bytes of each run there: in a cell the most of it."""
        if self.structure.cells:
            cell = self.structure.cells[self.structure.cell_at(x)]
            place, spans = cell.label, [cell.a, cell.b]
        else:
            at = [int(axis.position_at(x)) for axis in self.pair.axes]
            place, spans = self._place_text(x), list(zip(at, at))
        curves, names = [run.curve for run in self.runs], [run.name for run in self.runs]
        lines = [place, *_both_text(names, curves, spans)]
        if self.pair.matching is not None:
            curves = [peaks.curve for peaks in self.pair.matching.curves]
            lines += _both_text([f"matching in {name}" for name in names], curves, spans)
        for run, axis in self.others.lines:
            lines.append(_sized_text(run.name, int(run.curve[int(axis.position_at(x))])))
        return "\n".join(lines)

    def _place_text(self, x: float) -> str:
        texts = {"s": seconds_text(x), "events": f"event {x:,.0f}"}
        return texts.get(self.structure.a.unit, f"{x:.1f}%")


def _both_text(names: list[str], curves: list[I64], spans: Sequence[Span]) -> list[str]:
    """The most of each run in its span, and their difference."""
    sizes = [int(curve[first : last + 1].max()) for curve, (first, last) in zip(curves, spans)]
    gained = sizes[1] - sizes[0]
    said = f"difference {difference_text(gained)} ({exact_bytes_text(gained)})"
    return [*(_sized_text(name, size) for name, size in zip(names, sizes)), said]


def _sized_text(name: str, size: int) -> str:
    return f"{name}: {bytes_text(size)} ({exact_bytes_text(size)})"
