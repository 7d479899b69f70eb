"""The ribbon parts the steps of a run by lines."""

from __future__ import annotations

from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from memstrata.capture.format.schema import Phase
from memstrata.viewer.charts.frame import Frame
from memstrata.viewer.charts.ribbon import HEIGHT, RibbonItem
from memstrata.viewer.model.axes import by_event

from ..model.recordings import Step


def test_a_line_stands_where_a_step_begins_or_ends(qapp: QApplication) -> None:
    step = Step()
    for time in range(9):
        step.alloc(512 * (time + 1), 8, time)
    item = RibbonItem()
    item.show_phases([(Phase.forward, 0, 9)], by_event(step.run()), steps=[(0, 4), (4, 8)])
    image = QImage(110, HEIGHT, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    painter = QPainter(image)
    item.paint_pixels(painter, Frame(0, 11, 0, 1, sx=10, dx=0, sy=-HEIGHT, dy=HEIGHT))
    painter.end()
    ink = QColor(item.theme.text).rgb()
    lines = [x for x in range(image.width()) if all(image.pixel(x, y) == ink for y in range(HEIGHT - 1))]
    assert lines == [0, 39, 40, 79, 80]  # two pixels each, the first half outside
