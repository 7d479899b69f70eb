"""The answer: a few lines of text at the top; a number in them leads to the allocations it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from ..analysis.headline import Line
from ..charts.theme import Theme, current
from ..look.tips import sentence, tip
from ..model.query import AllocationQuery

_FIRST_SIZES = (1.45, 1.3, 1.15)
"""Of the first line, in usual sizes of text: the largest at which it is one line."""
_MARGIN = 14  # pixels at both sides


class HeadlinePanel(QFrame):
    """Shows lines, the first one large. `follow(query)` is called for a number that was clicked."""

    def __init__(
        self, lines: Sequence[Line], follow: Callable[[AllocationQuery], None], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("headline")
        self.setAccessibleName("Answer")
        self.lines, self._follow = tuple(lines), follow
        layout = QVBoxLayout(self)
        layout.setContentsMargins(_MARGIN, 6, _MARGIN, 6)
        layout.setSpacing(3)
        self.labels = [self._label(number) for number in range(len(self.lines))]
        self._first = QHBoxLayout()
        self._first.addWidget(self.labels[0], 1)
        layout.addLayout(self._first)
        self._rows = [self._first, *(QHBoxLayout() for _ in self.labels[1:])]
        for row, label in zip(self._rows[1:], self.labels[1:]):
            row.addWidget(label, 1)
            layout.addLayout(row)
        self.set_theme(current())

    def add_corner(self, widget: QWidget) -> None:
        """Put a control beside the first line."""
        self._first.addWidget(widget, 0, Qt.AlignmentFlag.AlignTop)

    def add_button(self, number: int, text: str, hint: str) -> QToolButton:
        """Put a button at the end of this line."""
        button = QToolButton(self)
        button.setText(text)
        button.setToolTip(hint)
        button.setAccessibleName(hint)
        self._rows[number].addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        return button

    def _label(self, number: int) -> QLabel:
        label = QLabel(self)
        label.setWordWrap(True)
        label.setTextFormat(Qt.TextFormat.RichText)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        label.setAccessibleName(self.lines[number].text)
        label.setToolTip(tip(self.lines[number].exact))
        label.linkActivated.connect(self._clicked)
        return label

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_first()

    def _fit_first(self) -> None:
        beside = [widget for widget in self.findChildren(QWidget) if self._first.indexOf(widget) > 0]
        taken = sum(widget.sizeHint().width() + self._first.spacing() for widget in beside)
        room = self.contentsRect().width() - 2 * _MARGIN - taken
        font = self.font()
        font.setBold(True)
        for size in _FIRST_SIZES:
            font.setPointSizeF(self.font().pointSizeF() * size)
            if QFontMetricsF(font).horizontalAdvance(self.lines[0].text) <= room:
                break
        self.labels[0].setFont(font)

    def set_theme(self, theme: Theme) -> None:
        """Write the lines in the colours of this theme."""
        for number, (line, label) in enumerate(zip(self.lines, self.labels)):
            ink = theme.text if number == 0 else theme.faint
            label.setText(f'<span style="color:{ink}">{self._html(number, line, theme)}</span>')

    def _html(self, number: int, line: Line, theme: Theme) -> str:
        out = []
        for place, part in enumerate(line.parts):
            text = escape(sentence(part.text))
            if part.query is not None:
                style = f"color:{theme.text}; text-decoration:none"
                text = f'<a href="{number}/{place}" style="{style}">{text}</a>'
            out.append(text)
        return "".join(out)

    def _clicked(self, link: str) -> None:
        number, place = (int(part) for part in link.split("/"))
        query = self.lines[number].parts[place].query
        if query is not None:
            self._follow(query)
