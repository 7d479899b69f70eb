"""A line of text that is cut with an ellipsis where it has too little room, and says the rest when pointed at."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QPalette, QTextLayout
from PySide6.QtWidgets import QLabel, QSizePolicy, QToolTip, QWidget

from ..look.name_cut import cut_apart
from ..look.tips import one_line, tip

_SEPARATOR = " · "
_HIGH = 250
"""Pixels of a panel below which what is under its table gets one line only."""


class Caption(QLabel):
    """Keeps nothing wide, however long its text is: lines become one, or with `lines` each is cut by itself. Where it
    wraps it is a label like any other."""

    def __init__(
        self, parent: QWidget | None = None, elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight, lines: bool = False
    ) -> None:
        super().__init__(parent)
        self.setObjectName("caption")
        self.elide, self.lines = elide, lines
        self.apart: tuple[str, ...] = ()
        """Names beside which this one is to be told apart where it is cut."""
        self._tip = ""

    @property
    def is_cut(self) -> bool:
        """Whether not all of the text can be read."""
        return not self.wordWrap() and self.widest > self.contentsRect().width()

    @property
    def widest(self) -> int:
        """Pixels that the longest line needs to be whole."""
        return max(map(self.fontMetrics().horizontalAdvance, self._shown()))

    def _shown(self) -> list[str]:
        """The lines that are painted."""
        lines = [one_line(line) for line in self.text().split("\n")]
        return lines if self.lines else [_SEPARATOR.join(lines)]

    def minimumSizeHint(self) -> QSize:
        if self.wordWrap():
            return super().minimumSizeHint()
        return QSize(1, self._height())

    def sizeHint(self) -> QSize:
        whole = super().sizeHint()
        return whole if self.wordWrap() else QSize(whole.width(), self._height())

    def _height(self) -> int:
        """That of the text as it is, less the lines that are not painted."""
        others = self.text().count("\n") + 1 - len(self._shown())
        return super().sizeHint().height() - others * self.fontMetrics().lineSpacing()

    def paintEvent(self, event: QPaintEvent) -> None:
        shown = self._shown()
        if self.wordWrap() or not (self.is_cut or "\n".join(shown) != self.text()):
            super().paintEvent(event)
            return
        painter, place = QPainter(self), self.contentsRect()
        self.drawFrame(painter)
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        cut = [self._cut(line, place.width()) for line in shown]
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, "\n".join(cut))

    def _cut(self, line: str, room: int) -> str:
        if not self.apart:
            return self.fontMetrics().elidedText(line, self.elide, room)
        return cut_apart([line, *map(one_line, self.apart)], room, self.fontMetrics().horizontalAdvance, "…")[0]

    def event(self, event: QEvent) -> bool:
        return _says(self, event, [self.text()] * self.is_cut, self._tip) or super().event(event)

    def setToolTip(self, text: str) -> None:
        """More about it, which is no markup."""
        self._tip = text
        super().setToolTip(tip(text))


class Paragraph(QLabel):
    """Wraps; where it has too little height for that, the last line that it has ends with an ellipsis."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        self.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)

    @property
    def is_cut(self) -> bool:
        """Whether not all of the text can be read."""
        return super().heightForWidth(self.width()) > self.height()

    def hasHeightForWidth(self) -> bool:
        """It takes what it gets: a line is enough."""
        return False

    def minimumSizeHint(self) -> QSize:
        return QSize(1, self.fontMetrics().height())

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self.is_cut:
            super().paintEvent(event)
            return
        painter, place = QPainter(self), self.contentsRect()
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        flags = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft
        painter.drawText(place, flags, "\n".join(self._lines(place.width(), place.height())))

    def _lines(self, width: int, height: int) -> list[str]:
        """As many as have room, the last of them cut."""
        text, lines = self.text(), []
        layout = QTextLayout(text, self.font())
        layout.beginLayout()
        for _ in range(max(height // self.fontMetrics().lineSpacing(), 1)):
            line = layout.createLine()
            line.setLineWidth(width)
            lines.append(text[line.textStart() : line.textStart() + line.textLength()])
        layout.endLayout()
        rest = text[line.textStart() :]
        return [*lines[:-1], self.fontMetrics().elidedText(rest, Qt.TextElideMode.ElideRight, width)]

    def event(self, event: QEvent) -> bool:
        return _says(self, event, [self.text()] * self.is_cut, self.toolTip()) or super().event(event)


def _says(label: QLabel, event: QEvent, text: list[str], more: str) -> bool:
    """Answers a pointer that rests on a label: with its text where that is cut, and with its tip."""
    if event.type() != QEvent.Type.ToolTip or not isinstance(event, QHelpEvent):
        return False
    QToolTip.showText(event.globalPos(), tip("\n".join([*text, *([more] if more else [])])), label)
    return True


def wrap_where_high(panel: QWidget, *captions: Caption, high: int = _HIGH) -> None:
    """Whole sentences where the panel has the height for them; a low one keeps it for its table."""
    for caption in captions:
        caption.setWordWrap(panel.height() >= high)
