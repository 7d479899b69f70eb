"""Predicted against achieved: what checkpointing was to save, and what it did, as two bars on one scale."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from ..analysis.diff import Diff
from ..charts.theme import Theme, colour, current
from ..look.units import bytes_text, exact_bytes_text

_ROW, _BAR = 46, 16


class SavingPanel(QWidget):
    """Measured is filled, predicted an outline."""

    def __init__(self, diff: Diff, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        rows = [
            ("Peak of the step, achieved", diff.achieved_peak_drop_bytes, True),
            ("Activations, achieved", diff.achieved_saving_bytes, True),
            ("Activations, predicted", diff.predicted_saving_bytes, False),
        ]
        self.rows = [(title, value, filled) for title, value, filled in rows if value is not None]
        said = "; ".join(f"{title} {bytes_text(value)}" for title, value, _ in self.rows)
        self.setAccessibleName(f"Savings: {said}")
        self.setToolTip("\n".join(f"{title}: {exact_bytes_text(value)}" for title, value, _ in self.rows))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.theme: Theme = current()

    def sizeHint(self) -> QSize:
        widest = self.fontMetrics().horizontalAdvance("Peak of the step, achieved  99.99 GiB")
        return QSize(widest + 40, _ROW * (len(self.rows) + 1))

    def set_theme(self, theme: Theme) -> None:
        """Repaint in this theme."""
        self.theme = theme
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self.theme.panel))
        font = painter.font()
        font.setBold(True)
        painter.setFont(font)
        painter.setPen(QColor(self.theme.text))
        painter.drawText(QRectF(12, 8, self.width(), 20), Qt.AlignmentFlag.AlignLeft, "Saved")
        font.setBold(False)
        painter.setFont(font)
        most = max((abs(value) for _, value, _ in self.rows), default=1) or 1
        for number, (title, value, filled) in enumerate(self.rows):
            self._row(painter, 36 + number * _ROW, title, value, filled, most)

    def _row(self, painter: QPainter, top: float, title: str, value: int, filled: bool, most: int) -> None:
        width = self.width() - 24
        painter.setPen(QColor(self.theme.faint))
        painter.drawText(QRectF(12, top, width, 18), Qt.AlignmentFlag.AlignLeft, title)
        painter.setPen(QColor(self.theme.text))
        painter.drawText(QRectF(12, top, width, 18), Qt.AlignmentFlag.AlignRight, bytes_text(value))
        ink = self.theme.good if value >= 0 else self.theme.warning
        bar = QRectF(12, top + 19, max(width * abs(value) / most, 2), _BAR)
        if filled:
            painter.fillRect(bar, colour(ink, 200))
            return
        painter.setPen(QPen(QColor(ink), 1.6, Qt.PenStyle.DashLine))
        painter.drawRect(bar.adjusted(0.8, 0.8, -0.8, -0.8))
