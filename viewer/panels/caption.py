"""A line of text that is cut with an ellipsis where it has too little room, and says the rest when pointed at."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QLabel, QToolTip, QWidget

from ..look.tips import tip

_SEPARATOR = " · "
_HIGH = 250
"""Pixels of a panel below which what is under its table gets one line only."""


class Caption(QLabel):
    """Keeps nothing wide, however long its text is. Where it wraps it is a label like any other."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("caption")

    @property
    def is_cut(self) -> bool:
        """Whether not all of the text can be read."""
        return not self.wordWrap() and self.fontMetrics().horizontalAdvance(self._line()) > self.contentsRect().width()

    def _line(self) -> str:
        return _SEPARATOR.join(self.text().split("\n"))

    def minimumSizeHint(self) -> QSize:
        if self.wordWrap():
            return super().minimumSizeHint()
        return QSize(1, self._height())

    def sizeHint(self) -> QSize:
        whole = super().sizeHint()
        return whole if self.wordWrap() else QSize(whole.width(), self._height())

    def _height(self) -> int:
        """Of one line: that of all lines, less the others."""
        others = self.text().count("\n") * self.fontMetrics().lineSpacing()
        return super().sizeHint().height() - others

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.wordWrap() or not (self.is_cut or "\n" in self.text()):
            super().paintEvent(event)
            return
        painter, place = QPainter(self), self.contentsRect()
        self.drawFrame(painter)
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        text = self.fontMetrics().elidedText(self._line(), Qt.TextElideMode.ElideRight, place.width())
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent) and self.is_cut:
            said = "\n".join(part for part in (self.text(), self.toolTip()) if part)
            QToolTip.showText(event.globalPos(), tip(said), self)
            return True
        return super().event(event)


def wrap_where_high(panel: QWidget, *captions: Caption, high: int = _HIGH) -> None:
    """Whole sentences where the panel has the height for them; a low one keeps it for its table."""
    for caption in captions:
        caption.setWordWrap(panel.height() >= high)
