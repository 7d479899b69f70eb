"""What the colours of a picture stand for: the box that chooses the grouping, and its largest groups."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QHelpEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QSizePolicy, QToolTip, QWidget

from memstrata.capture.format.schema import I64

from ..charts.theme import Theme, current
from ..look.frame_cut import frame_cut
from ..look.tips import one_line, tip
from ..look.units import bytes_text, exact_bytes_text
from ..model.grouping import GROUPINGS, available
from ..model.paints import Paint, group_paints
from ..state.scope import Scope
from ..state.view_state import RunView
from .delegates import paint_swatch

_SWATCH, _GAP = 11, 5
_LONGEST = 190
"""Pixels of one group."""


class ColourLine(QWidget):
    """The groups in one line, the largest first, as many as have room; the tip lists all of them."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.groups: list[tuple[str, Paint, int]] = []
        """(name, paint, bytes)."""
        self.theme: Theme = current()
        self.setMouseTracking(True)
        self.setAccessibleName("What the colours stand for")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(200, self.fontMetrics().height() + 6)

    def show_groups(self, groups: list[tuple[str, Paint, int]]) -> None:
        """Other groups."""
        self.groups = groups
        said = "; ".join(f"{name} {bytes_text(size)}" for name, _, size in groups)
        self.setAccessibleDescription(said)
        self.update()

    def places(self) -> list[tuple[QRectF, str, Paint, int]]:
        """Where each group that has room is painted."""
        out, x = [], 0.0
        for number, (name, paint, size) in enumerate(self.groups):
            measure = self.fontMetrics().horizontalAdvance
            name = frame_cut(one_line(name), _LONGEST - measure(self._text("", size)), measure)
            text = self._text(name, size)
            width = min(measure(text), _LONGEST) + _SWATCH + 3 * _GAP
            rest = 40 if number + 1 < len(self.groups) else 0
            if x + width + rest > self.width():
                break
            out.append((QRectF(x, 0, width, self.height()), text, paint, size))
            x += width
        return out

    @staticmethod
    def _text(name: str, size: int) -> str:
        return f"{one_line(name)} {bytes_text(size)}"

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter, x = QPainter(self), 0.0
        places = self.places()
        for rect, text, paint, _ in places:
            paint_swatch(painter, QRectF(rect.left(), (rect.height() - _SWATCH) / 2, _SWATCH, _SWATCH), paint)
            painter.setPen(QColor(self.theme.text))
            inside = rect.adjusted(_SWATCH + _GAP, 0, -2 * _GAP, 0)
            cut = self.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, int(inside.width()) + 1)
            painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter, cut)
            x = rect.right()
        if left := len(self.groups) - len(places):
            painter.setPen(QColor(self.theme.faint))
            painter.drawText(QRectF(x, 0, self.width() - x, self.height()), Qt.AlignmentFlag.AlignVCenter, f"+{left}")

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        QToolTip.showText(event.globalPosition().toPoint(), tip(self.text_at(event.position().x())), self)

    def event(self, event: object) -> bool:
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), tip(self.text_at(event.pos().x())), self)
            return True
        return super().event(event)  # type: ignore[arg-type]

    def text_at(self, x: float) -> str:
        """The group at a place to the byte; behind the last one all of them."""
        named = [f"{name}: {exact_bytes_text(size)}" for name, _, size in self.groups]
        hit = next((n for n, (rect, *_) in enumerate(self.places()) if rect.left() <= x < rect.right()), None)
        return "\n".join(named) if hit is None else named[hit]


class ColourKey(QWidget):
    """For pictures that are seen without the timeline, whose legend and box would say the same."""

    def __init__(self, scope: Scope, parent: QWidget) -> None:
        super().__init__(parent)
        self.scope = scope
        self.box = QComboBox(self)
        self.box.setAccessibleName("What colours the blocks")
        for key in available(scope.run):
            self.box.addItem(GROUPINGS[key].title, key)
        self.box.activated.connect(lambda row: scope.look(grouping=self.box.itemData(row), query=None))
        self.line = ColourLine(self)
        label = QLabel("Blocks by", self)
        label.setBuddy(self.box)
        line = QHBoxLayout(self)
        line.setContentsMargins(8, 2, 8, 2)
        line.setSpacing(6)
        line.addWidget(label)
        line.addWidget(self.box)
        line.addWidget(self.line, 1)
        self._numbers = self._bytes = np.empty(0, np.int64)
        self.theme: Theme = current()
        self._show()
        scope.changed.connect(self._view_changed)

    def show_sizes(self, numbers: I64, sizes: I64) -> None:
        """These allocations are painted, with so many bytes each."""
        self._numbers, self._bytes = numbers, sizes
        self._show()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = self.line.theme = theme
        self._show()

    def _show(self) -> None:
        bands = self.scope.bands
        grouping = bands.grouping
        self.box.setCurrentIndex(self.box.findData(self.scope.view.grouping))
        known = self._numbers < len(grouping.labels)
        sums = np.zeros(len(grouping), np.int64)
        np.add.at(sums, grouping.labels[self._numbers[known]], self._bytes[known])
        paints = group_paints(grouping, self.theme.dark)
        order = [group for group in np.argsort(-sums, kind="stable").tolist() if sums[group]]
        self.line.show_groups([(grouping.names[group], paints[group], int(sums[group])) for group in order])

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.grouping != new.grouping and self.scope.is_open:
            self._show()
