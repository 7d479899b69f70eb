"""One lane: bytes over time cut by category, the prediction as an outline, and the passes of its layers below."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from memstrata.capture.format.schema import F64, I64, NONE

from ..analysis.predicted_curve import PredictedCurve
from ..model.axes import XAxis
from ..model.paints import Paint, category_paint
from ..model.sampling import spans_of_columns
from ..state.lanes import Lane, Lanes
from ..state.view_state import Segments
from .band_painter import paint_stack
from .frame import device_ratio
from .ribbon import paint_phase
from .stacking import stack
from .theme import Theme, colour

STRIP = 4
"""Pixels of the strip of passes at the foot of a lane."""


@dataclass(frozen=True)
class Window:
    """What part of the axis lies between which pixels, the same for every lane."""

    axis: XAxis
    low: float
    high: float
    left: float
    right: float
    ratio: float = 1.0
    """Device pixels to one pixel."""

    def px(self, x: F64) -> F64:
        """Pixels of x values."""
        return self.left + (x - self.low) * ((self.right - self.left) / (self.high - self.low))

    def px_of(self, position: float) -> float:
        """Pixel where the state at a position begins."""
        return float(self.px(self.axis.x_of(position)))


def outline(x: F64, y: F64, sizes: I64) -> list[list[float]]:
    """The corners of a line of steps from the first to the last step that has any bytes."""
    some = np.flatnonzero(sizes > 0)
    first, last = int(some[0]), int(some[-1]) + 1
    zero = float(y[sizes == 0][0]) if (sizes == 0).any() else float(y[-1])
    across, up = np.repeat(x[first : last + 1], 2), np.repeat(y[first:last], 2)
    corners = np.stack([across, np.concatenate(([zero], up, [zero]))], axis=1)
    return list(np.clip(corners, -1e6, 1e6).tolist())


class LanePainter:
    """Paints lanes of one run; keeps what it sampled until the window moves."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.plan: Segments | None = None
        """The plan that is tried."""
        self._window: Window | None = None
        self._sampled: dict[Lane, tuple[F64, I64]] = {}

    def forget(self) -> None:
        """Sample anew: other parts of the lanes are shown."""
        self._sampled = {}

    def sample(self, lane: Lane, window: Window) -> tuple[F64, I64]:
        """(column edges, bytes by category and column), each column at the lane's own peak in it."""
        if window != self._window:
            self._window, self._sampled = window, {}
        if lane not in self._sampled:
            width = max(round((window.right - window.left) * window.ratio), 1)
            x, first, last = spans_of_columns(window.axis, window.low, window.high, width)
            self._sampled[lane] = (x, lane.bytes_at(lane.peaks(first, last)))
        return self._sampled[lane]

    def paint(self, painter: QPainter, rect: QRectF, lane: Lane, window: Window, scale: int, theme: Theme) -> None:
        """Paint the lane into a rectangle; `scale` bytes fill its height. Of a lane of which only a part is shown, the
        whole stands behind it in grey."""
        area = rect.adjusted(0, 3, 0, -STRIP - 3)
        per_byte = area.height() / scale
        window = replace(window, ratio=device_ratio(painter))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        shown = self.lanes.shown(lane)
        if shown is not lane:
            x, sums = self.sample(lane, window)
            if len(x) > 1:
                whole = stack(window.px(x), sums.sum(axis=0, keepdims=True), area.bottom(), per_byte, window.ratio)
                paint_stack(painter, whole, [Paint(theme.rest)])
        x, sums = self.sample(shown, window)
        if len(x) > 1:
            bands = stack(window.px(x), sums, area.bottom(), per_byte, window.ratio)
            paint_stack(painter, bands, [category_paint(c, theme.dark) for c in lane.categories])
        for curve, ink, style in (
            (self.lanes.predicted(lane), theme.text, Qt.PenStyle.DashLine),
            (self.lanes.tried(lane, self.plan), theme.accent, Qt.PenStyle.DotLine),
        ):
            if curve is not None and curve.peak_bytes:
                self._line(painter, area, curve, window, per_byte, (colour(theme.panel, 190), QColor(ink), style))
        self._passes(painter, QRectF(rect.left(), area.bottom() + 1, rect.width(), STRIP), lane, window, theme)

    def _line(
        self, painter: QPainter, area: QRectF, curve: PredictedCurve, window: Window, per_byte: float,
        pen: tuple[QColor, QColor, Qt.PenStyle],
    ) -> None:  # fmt: skip
        """A predicted line of steps over a paler one, which sets it off from the bands."""
        x = window.px(window.axis.x_of(np.append(curve.positions, window.axis.last + 1)))
        y = np.asarray(area.bottom() - curve.bytes * per_byte, np.float64)
        line = QPolygonF([QPointF(*point) for point in outline(x, y, curve.bytes)])
        around, ink, style = pen
        for width, each, how in ((3.0, around, Qt.PenStyle.SolidLine), (1.6, ink, style)):
            painter.setPen(QPen(each, width, how))
            painter.drawPolyline(line)

    def _passes(self, painter: QPainter, rect: QRectF, lane: Lane, window: Window, theme: Theme) -> None:
        if lane.super_block == NONE:
            return
        for phase, first, last in self.lanes.phases(lane):
            left, right = window.px_of(first), window.px_of(last)
            strip = QRectF(left, rect.top(), max(right - left, 1.0), rect.height())
            paint_phase(painter, strip.intersected(rect), phase, theme)
