"""Run with QT_SCALE_FACTOR set, as on a screen of high density: what is painted there, and what the pointer finds.

usage: dense_screen.py RECORDING; prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QMouseEvent
from PySide6.QtWidgets import QApplication, QToolTip

from memstrata.viewer.charts.allocation_chart import ADDRESS, STACKED, AllocationChart, painter_of
from memstrata.viewer.charts.plot import Plot
from memstrata.viewer.charts.timeline import Timeline
from memstrata.viewer.model.paints import group_paints
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file
from memstrata.viewer.state.scope import Scope
from memstrata.viewer.state.session import Session
from memstrata.viewer.state.view_state import opened


def places(chart: Plot) -> list[QPoint]:
    """Points all over the plot, in pixels of the widget."""
    rect = chart.view.sceneBoundingRect()
    across = np.linspace(rect.left() + 3, rect.right() - 3, 37).astype(int).tolist()
    down = np.linspace(rect.top() + 3, rect.bottom() - 3, 23).astype(int).tolist()
    return [QPoint(x, y) for x in across for y in down]


def hovered(chart: Plot, place: QPoint) -> str:
    """The words that come up when the pointer is moved there."""
    at = QPointF(place)
    none = Qt.MouseButton.NoButton
    event = QMouseEvent(
        QEvent.Type.MouseMove, at, QPointF(chart.mapToGlobal(place)), none, none, Qt.KeyboardModifier(0)
    )
    QApplication.sendEvent(chart.viewport(), event)
    return QToolTip.text()


def colour(image: QImage, place: QPoint) -> str:
    """Of the device pixel whose corner is there."""
    ratio = image.devicePixelRatio()
    return image.pixelColor(int(place.x() * ratio), int(place.y() * ratio)).name()


def fine_detail(image: QImage, chart: Plot) -> int:
    """How many device pixels differ from the one they would be a copy of, were the picture painted half as large."""
    rect, ratio = chart.view.sceneBoundingRect(), image.devicePixelRatio()
    left, right, top, bottom = (round(edge * ratio) for edge in (rect.left(), rect.right(), rect.top(), rect.bottom()))
    pixels = np.frombuffer(image.convertToFormat(QImage.Format.Format_RGB32).constBits(), np.uint32)
    inside = pixels.reshape(image.height(), -1)[top // 2 * 2 : bottom // 2 * 2 - 2, left : right - 1]
    return int((inside[::2] != inside[1::2]).sum())


def timeline(scope: Scope) -> dict[str, object]:
    chart = Timeline(scope)
    chart.resize(700, 400)
    chart.show()
    QApplication.processEvents()
    for item in chart._over_plot:
        item.setVisible(item is chart.bands_item)
    image = chart.grab().toImage()
    grouping = scope.bands.grouping
    names = {paint.fill: name for paint, name in zip(group_paints(grouping, chart.theme.dark), grouping.names)}
    wrong = [
        (place.x(), place.y(), names[colour(image, place)], said)
        for place in places(chart)
        if colour(image, place) in names and not (said := hovered(chart, place)).startswith(names[colour(image, place)])
    ]
    seen = sum(colour(image, place) in names for place in places(chart))
    return {"ratio": image.devicePixelRatio(), "seen": seen, "wrong": wrong, "fine": fine_detail(image, chart)}


def allocations(scope: Scope, key: str) -> dict[str, object]:
    chart = AllocationChart(scope)
    chart.resize(700, 400)
    chart.layout_key = key
    chart.made[key, scope.axis.key] = painter_of(scope.run, scope.axis, key)
    chart.show()
    QApplication.processEvents()
    chart.lines.setVisible(False)
    chart.item.selected = None
    chart.grab()
    chart.item.finish()
    image = chart.grab().toImage()
    grouping = scope.bands.grouping
    paints = group_paints(grouping, chart.theme.dark)
    fills = {paint.fill for paint in paints}
    wrong, seen = [], 0
    for place in places(chart):
        where = chart.view.mapSceneToView(QPointF(place) + QPointF(0.5, 0.5) / image.devicePixelRatio())
        row = chart.allocation_at(where.x(), where.y())[1]
        if row >= 0 and colour(image, place) in fills:
            seen += 1
            if paints[int(grouping.labels[row])].fill != colour(image, place):
                wrong.append((place.x(), place.y(), row))
    return {"ratio": image.devicePixelRatio(), "seen": seen, "wrong": wrong, "fine": fine_detail(image, chart)}


def main() -> None:
    app = QApplication([])
    run, session = Run(open_file(Path(sys.argv[1]))), Session()
    session.set(opened(session.state, run, "category"))
    scope = Scope(session, run, session)
    said = {"timeline": timeline(scope), STACKED: allocations(scope, STACKED), ADDRESS: allocations(scope, ADDRESS)}
    print(json.dumps(said))
    app.closeAllWindows()


if __name__ == "__main__":
    main()
