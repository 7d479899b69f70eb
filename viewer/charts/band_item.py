"""The stacked bands of the timeline and the lines over them: one item each, whatever the number of allocations."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPen

from memstrata.capture.format.schema import I64

from ..model.axes import XAxis
from ..model.bands import Bands
from ..model.paints import Paint
from ..model.peaks import Peaks, peaks_of
from ..model.sampling import Columns, peak_columns
from .band_painter import paint_labels, paint_stack
from .frame import Frame, PixelItem
from .stacking import Stack, stack
from .step_line import draw_rimmed, step_line


class BandItem(PixelItem):
    """Paints for each pixel column the state with the most bytes in it, cut into the groups of the grouping."""

    def __init__(self) -> None:
        super().__init__()
        self.bands: Bands | None = None
        self.axis: XAxis | None = None
        self.paints: Sequence[Paint] = ()
        self.lifted: int | None = None
        self.drawn: Stack | None = None
        """What was painted last."""
        self.columns = 1
        """How many device pixels wide the view was then."""
        self._sampled: tuple[tuple[object, ...], Columns, I64] | None = None

    def show_bands(self, bands: Bands, axis: XAxis, paints: Sequence[Paint], lifted: int | None) -> None:
        """What to paint from now on."""
        self.bands, self.axis, self.paints, self.lifted = bands, axis, paints, lifted
        self.update()

    def sample(self, low: float, high: float, width: int) -> tuple[Columns, I64]:
        """The columns between two x, and the bytes of each group in each; the last answer is kept."""
        assert self.bands is not None and self.axis is not None
        key = (id(self.bands), self.axis.key, low, high, width)
        if self._sampled is None or self._sampled[0] != key:
            columns = peak_columns(self.bands.run.once(peaks_of), self.axis, low, high, width)
            self._sampled = (key, columns, self.bands.bytes_at(columns.positions))
        return self._sampled[1], self._sampled[2]

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        if self.bands is None:
            return
        self.columns = frame.columns
        columns, group_bytes = self.sample(frame.x0, frame.x1, self.columns)
        if not len(columns.positions):
            return
        self.drawn = stack(columns.x * frame.sx + frame.dx, group_bytes, frame.y(0), -frame.sy, frame.ratio)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        paint_stack(painter, self.drawn, self.paints, self.lifted)


class BandNames(PixelItem):
    """The names of the groups, written into their bands; over the lines, so that these do not strike them out."""

    def __init__(self, item: BandItem) -> None:
        super().__init__()
        self.item = item

    def paint_pixels(self, painter: QPainter, _frame: Frame) -> None:
        if self.item.bands is not None and self.item.drawn is not None:
            paint_labels(painter, self.item.drawn, self.item.bands.grouping.names, self.item.paints)


class StepLine(PixelItem):
    """A line of steps over all positions (bytes), sampled so that no peak of its own is lost."""

    def __init__(self, style: Qt.PenStyle, width: float = 1.6) -> None:
        super().__init__()
        self.style, self.width = style, width
        self.values: I64 | None = None
        self._peaks: Peaks | None = None
        self.axis: XAxis | None = None
        self.ink = "#000000"

    def show_values(self, values: I64 | None, axis: XAxis, ink: str, peaks: Peaks | None = None) -> None:
        """Bytes at each position, None to paint nothing; `peaks` are those of these bytes, if at hand."""
        self.values, self.axis, self.ink = values, axis, ink
        self._peaks = peaks or self._peaks
        self.update()

    def paint_pixels(self, painter: QPainter, frame: Frame) -> None:
        if self.values is None or self.axis is None:
            return
        if self._peaks is None or self._peaks.curve is not self.values:
            self._peaks = Peaks(self.values)
        columns = peak_columns(self._peaks, self.axis, frame.x0, frame.x1, frame.columns)
        if not len(columns.positions):
            return
        y = self.values[columns.positions] * frame.sy + frame.dy
        outline = step_line(columns.x * frame.sx + frame.dx, y)
        draw_rimmed(painter, outline, QPen(QColor(self.ink), self.width, self.style), self.theme)
