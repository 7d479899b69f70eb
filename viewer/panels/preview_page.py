"""A large run while its allocations are paired and its layers found: how many bytes there were, over all of it."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from ..analysis.headline import Line, Part, at_event, line
from ..charts.preview_chart import PreviewChart
from ..charts.theme import Theme
from ..look.units import bytes_text
from ..model.preview import Preview
from .headline import HeadlinePanel

FOLLOWS = "What it is made of is being worked out: all allocations together so far."


class PreviewPage(QWidget):
    """Stands where the run's page will be."""

    def __init__(self, preview: Preview, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.preview = preview
        self.answer = HeadlinePanel(_lines(preview), lambda query: None, self)
        self.chart = PreviewChart(preview, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.answer)
        layout.addWidget(self.chart, 1)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.answer.set_theme(theme)
        self.chart.set_theme(theme)


def _lines(preview: Preview) -> tuple[Line, Line]:
    peak = Part(f"Peak {bytes_text(preview.peak_bytes)}", None, preview.peak_bytes)
    return line(peak, at_event(preview.peak_position, preview.n_events)), line(FOLLOWS)
