"""Delegates that colour what the item models say: swatches beside names, bars under numbers, quiet rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QLocale, QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from ..charts.colours import fill_brush, hatch_brush
from ..charts.theme import Theme, colour, current
from ..look.frame_cut import frame_cut
from ..look.tips import one_line
from ..model.paints import Paint
from ..state.array_table import FaintRole, ShareRole, SwatchRole

Index = QModelIndex | QPersistentModelIndex
_SWATCH, _GAP, _BAR = 12, 8, 3
AROUND = 20
"""Pixels beside a text in its cell."""
_NUMBER = 92  # pixels that a number beside a bar needs


class TableDelegate(QStyledItemDelegate):
    """`paint_of(row)` is the paint of a source row that has a swatch; bars take it too where it is given."""

    def __init__(self, parent: QWidget, paint_of: Callable[[int], Paint] | None = None) -> None:
        super().__init__(parent)
        self.paint_of = paint_of
        self.pointed_row = -1
        """The row of the table under the pointer, here or in another view."""
        self.theme: Theme = current()
        self.room: int | None = None
        """Pixels that the text being painted has; None while nothing is."""

    def displayText(self, value: Any, locale: QLocale | QLocale.Language) -> str:
        return one_line(super().displayText(value, locale))

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        if index.data(FaintRole):
            option.palette.setColor(QPalette.ColorRole.Text, QColor(self.theme.faint))
        if option.rect.height() < 2 * option.fontMetrics.lineSpacing():  # a single line is cut at a sign, not at a word
            option.features &= ~QStyleOptionViewItem.ViewItemFeature.WrapText
        if self.room is not None:
            option.text = frame_cut(option.text, self.room, option.fontMetrics.horizontalAdvance)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        swatch, share = index.data(SwatchRole), index.data(ShareRole)
        rect: QRect = option.rect
        if index.row() == self.pointed_row and not index.parent().isValid():
            painter.fillRect(rect, colour(self.theme.accent, 44))
        if swatch is not None and self.paint_of is not None:
            self._background(painter, option, index)
            side = (rect.height() - _SWATCH) // 2
            paint_swatch(painter, QRectF(rect.left() + 6, rect.top() + side, _SWATCH, _SWATCH), self.paint_of(swatch))
            option.rect = rect.adjusted(_SWATCH + _GAP, 0, 0, 0)
        self.room = option.rect.width() - AROUND
        super().paint(painter, option, index)
        option.rect, self.room = rect, None
        if share:
            self._bar(painter, rect, float(share))

    def _background(self, painter: QPainter, option: QStyleOptionViewItem, _index: Index) -> None:
        """The selection under the swatch, which the text's own rectangle no longer covers."""
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(option.rect, option.palette.highlight())

    def _bar(self, painter: QPainter, rect: QRect, share: float) -> None:
        length = (rect.width() - 12) * min(share, 1.0)
        place = QRectF(rect.right() - 6 - length, rect.bottom() - _BAR, length, _BAR - 1)
        painter.fillRect(place, colour(self.theme.accent, 150))

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        size = super().sizeHint(option, index)
        extra = _SWATCH + _GAP if index.data(SwatchRole) is not None and self.paint_of else 6
        return QSize(size.width() + extra, size.height() + _BAR + 2)


class DifferenceDelegate(TableDelegate):
    """Bars that diverge from the middle: to the left what became less, to the right what became more."""

    def _bar(self, painter: QPainter, rect: QRect, share: float) -> None:
        room = max((rect.width() - _NUMBER) / 2, 4)
        middle = rect.left() + 4 + room
        ink = self.theme.good if share < 0 else self.theme.warning
        place = QRectF(middle, rect.center().y() - 5, room * share, 11).normalized()
        painter.fillRect(place, colour(ink, 190))
        painter.fillRect(QRectF(middle - 0.5, rect.top() + 3, 1, rect.height() - 6), QColor(self.theme.border))


def paint_swatch(painter: QPainter, rect: QRectF, paint: Paint) -> None:
    """A small rounded square in a group's colour and hatch."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    for brush in (fill_brush(paint), hatch_brush(paint)):
        if brush is not None:
            painter.setBrush(brush)
            painter.drawRoundedRect(rect, 2.5, 2.5)
    painter.restore()
