"""Predicted against achieved: what b needs less than a, or simply the difference, as bars on one scale."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from ..analysis.comparison import difference_title, is_saving, savings, when_text
from ..analysis.diff import Diff
from ..analysis.planned_before import PlannedBefore
from ..analysis.steps import throughput
from ..charts.theme import Theme, colour, current
from ..look.tips import tip
from ..look.units import bytes_text, difference_text, exact_bytes_text, seconds_text

_LINE = 20
_HIGH, _LOW, _NARROW = (42, 14), (31, 7), (18, 0)
"""Pixels of a row and of the bar in it: where everything has room, where the bars have, and where they have none."""


class SavingPanel(QWidget):
    """Measured is filled, by shapes an outline. Under the bars stands how fast each run was."""

    def __init__(self, diff: Diff, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        saved = is_saving(diff)
        self.heading = "Saved" if saved else difference_title(diff)
        self.diff = diff
        self.planned: PlannedBefore | None = None
        self._text = bytes_text if saved else difference_text
        self._good = 1 if saved else -1
        self.speeds = _speeds(diff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self.theme: Theme = current()
        self._fill()

    def show_planned(self, planned: PlannedBefore | None) -> None:
        """One bar more: what the run before said of the plan of the run after (dotted in the chart)."""
        self.planned = planned
        self._fill()

    def show_diff(self, diff: Diff) -> None:
        """The same runs: with a filter one bar more, for what it matches; the others stay those of the whole steps."""
        self.diff = diff
        self._fill()

    def _fill(self) -> None:
        self.rows = [(saving.title, self._good * saving.bytes, saving.measured) for saving in savings(self.diff)]
        notes = []
        if self.planned is not None:
            drop = self.planned.a.peak_bytes - self.planned.outcome.peak_bytes
            self.rows.insert(1, ("Planned before (dotted)", self._good * drop, False))
            notes = [f"{self.planned.text}; dotted in the chart", self.planned.exact_text]
        if self.diff.filter:
            a, b = self.diff.matched_bytes
            self.rows.insert(0, (f"Matching, {when_text(self.diff)}", self._good * (a - b), True))
            notes.append(f'matching "{self.diff.filter}"; all else is of the whole steps')
        self._say(notes)
        self.updateGeometry()
        self.update()

    def _say(self, notes: list[str]) -> None:
        said = [f"{title} {self._text(value)}" for title, value, _ in self.rows]
        speeds = [f"{title} {value}" for title, value in self.speeds]
        self.setAccessibleName(f"{self.heading}: {'; '.join([*said, *speeds, *notes])}")
        exact = [f"{title}: {exact_bytes_text(value)}" for title, value, _ in self.rows]
        self.setToolTip(tip("\n".join([*exact, *(f"{title}: {value}" for title, value in self.speeds), *notes])))

    def sizeHint(self) -> QSize:
        widest = self.fontMetrics().horizontalAdvance("Activations by shapes  +99.99 GiB")
        return QSize(widest + 40, self._height(_HIGH[0]) + self._speeds_height)

    def _height(self, row: int) -> int:
        """Pixels of the bars, in rows so high."""
        between = _LINE if self.diff.filter else 0
        return 36 + between + row * len(self.rows)

    @property
    def _speeds_height(self) -> int:
        return _LINE * (len(self.speeds) + 1)

    def set_theme(self, theme: Theme) -> None:
        """Repaint in this theme."""
        self.theme = theme
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self.theme.panel))
        self._title(painter, 8, self.heading)
        most = max((abs(value) for _, value, _ in self.rows), default=1) or 1
        row, thick = _LOW if self._height(_LOW[0]) <= self.height() else _NARROW
        if self._height(_HIGH[0]) + self._speeds_height <= self.height():
            row, thick = _HIGH
        top = 34 if thick else 26
        for number, (title, value, filled) in enumerate(self.rows):
            self._row(painter, top, thick, (title, value, filled), most)
            top += row
            if number == 0 and self.diff.filter and thick:
                self._words(painter, top, "Of the whole steps:", "")
                top += _LINE
        top += 6
        if self.speeds and top + _LINE * (len(self.speeds) + 1) <= self.height():
            self._title(painter, top, "Unrecorded steps")
            for number, (title, speeds) in enumerate(self.speeds):
                self._words(painter, top + _LINE * (number + 1), title, speeds)

    def _title(self, painter: QPainter, top: float, text: str) -> None:
        font = painter.font()
        font.setBold(True)
        painter.setFont(font)
        painter.setPen(QColor(self.theme.text))
        painter.drawText(QRectF(12, top, self.width(), 20), Qt.AlignmentFlag.AlignLeft, text)
        font.setBold(False)
        painter.setFont(font)

    def _words(self, painter: QPainter, top: float, title: str, value: str) -> None:
        place = QRectF(12, top, self.width() - 24, 18)
        painter.setPen(QColor(self.theme.faint))
        painter.drawText(place, Qt.AlignmentFlag.AlignLeft, title)
        painter.setPen(QColor(self.theme.text))
        painter.drawText(place, Qt.AlignmentFlag.AlignRight, value)

    def _row(self, painter: QPainter, top: float, thick: int, row: tuple[str, int, bool], most: int) -> None:
        title, value, filled = row
        self._words(painter, top, title, self._text(value))
        if not thick:
            return
        ink = self.theme.good if value * self._good >= 0 else self.theme.warning
        bar = QRectF(12, top + 19, max((self.width() - 24) * abs(value) / most, 2), thick)
        if filled:
            painter.fillRect(bar, colour(ink, 200))
            return
        painter.setPen(QPen(QColor(ink), 1.6, Qt.PenStyle.DashLine))
        painter.drawRect(bar.adjusted(0.8, 0.8, -0.8, -0.8))


def _speeds(diff: Diff) -> list[tuple[str, str]]:
    """Time and throughput of both runs; nothing between files that know neither."""
    runs = (diff.a, diff.b)
    seconds = [run.recording.meta.step_seconds_unrecorded for run in runs]
    rates = [throughput(run.recording) for run in runs]
    if not any(seconds) and not any(rates):
        return []
    return [
        ("step", " → ".join("unknown" if s is None else seconds_text(s) for s in seconds)),
        ("tokens/s", " → ".join("unknown" if r is None else f"{r:,.0f}" for r in rates)),
    ]
