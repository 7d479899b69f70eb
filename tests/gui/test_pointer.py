"""What the pointer rests on is said to the byte and shown, here and in the timeline; nothing is selected by it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from memstrata.viewer.charts.frontier import FrontierChart
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.state.pointed import NOTHING, Pointed
from memstrata.viewer.window import Window


@pytest.fixture
def page(opened: Any, samples: Path) -> Any:
    yield (made := opened(str(samples / "before.mstrata")))
    QToolTip.hideText()
    assert made.scope.view.query is None  # the pointer alone selects nothing


def point(widget: Any, place: QPoint, qtbot: QtBot) -> str:
    """Move the pointer there; what the tip says."""
    target = widget.viewport() if hasattr(widget, "viewport") else widget
    QTest.mouseMove(target, place + QPoint(1, 0))
    none = Qt.MouseButton.NoButton
    at = QPointF(place)
    move = QMouseEvent(
        QEvent.Type.MouseMove, at, QPointF(target.mapToGlobal(place)), none, none, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(target, move)
    qtbot.wait(30)
    return re.sub("<[^>]*>", "", QToolTip.text())


def leave(widget: Any) -> None:
    target = widget.viewport() if hasattr(widget, "viewport") else widget
    QApplication.sendEvent(target, QEvent(QEvent.Type.Leave))
    if target is not widget:
        QApplication.sendEvent(widget, QEvent(QEvent.Type.Leave))


def picture(widget: Any) -> QImage:
    return widget.grab().toImage()


def exact(size: int) -> str:
    return f"({size:,} bytes)"


def place_in(timeline: Any, position: int, bytes_: float) -> QPoint:
    x = float(timeline.scope.axis.x_of(position + 0.5))
    return timeline.mapFromScene(timeline.view.mapViewToScene(QPointF(x, bytes_)))


def test_a_row_of_the_legend_lifts_its_band_and_a_band_its_row(page: Any, qtbot: QtBot) -> None:
    timeline, legend, scope = page.views["timeline"].timeline, page.views["legend"].view, page.scope
    plain, plain_legend = picture(timeline), picture(legend)
    group = legend.table.source_row(1)
    point(legend, legend.visualRect(legend.table.index(1, 0)).center(), qtbot)
    assert scope.under_pointer == Pointed(group=group) and timeline.pointed_band.group == group
    lifted = picture(timeline)
    middle = scope.run.n_events // 2
    tops = np.cumsum(scope.bands.bytes_at(np.array([middle]))[:, 0])
    inside = float(tops[group] + (tops[group - 1] if group else 0)) / 2
    place = place_in(timeline, middle, inside)
    assert lifted.pixelColor(place) != plain.pixelColor(place)
    other = place_in(timeline, middle, float(tops[-1]) * 1.2)  # over all bands
    assert lifted.pixelColor(other) == plain.pixelColor(other)
    leave(legend)
    assert scope.under_pointer == NOTHING and picture(timeline) == plain
    said = point(timeline, place, qtbot)
    assert scope.under_pointer == Pointed(group=group) and said.startswith(scope.bands.grouping.names[group])
    assert legend.painter_of_cells.pointed_row == 1 and picture(legend) != plain_legend
    leave(timeline)
    assert scope.under_pointer == NOTHING and legend.painter_of_cells.pointed_row == -1


def test_a_lane_says_its_bytes_where_the_pointer_is_and_is_lifted_with_its_band(page: Any, qtbot: QtBot) -> None:
    tree, timeline, scope = page.views["lanes"].tree, page.views["timeline"].timeline, page.scope
    scope.look(grouping="super_block")
    plain = picture(tree)
    rect = tree.visualRect(tree.lane_model.index(1, 3))
    x = (tree.span[0] + tree.span[1]) // 2
    said = point(tree, QPoint(x, rect.center().y()), qtbot)
    lane = tree.lane_model.lanes.outer[1]
    position = int(scope.axis.position_at(tree._x_at(x)))
    size = AllocationQuery(position=position, categories=frozenset(lane.categories), super_block=1).bytes(scope.run)
    assert said.startswith(lane.name) and size > 0 and exact(size) in said
    assert exact(tree.lane_model.predicted_at(lane, position)) in said
    assert scope.under_pointer == Pointed(query=lane.query) and tree.delegate.pointed is lane
    assert timeline.pointed_band.group == scope.bands.labels.index(1)
    lifted = picture(tree)
    mine, other = (tree.visualRect(tree.lane_model.index(row, 0)).center() for row in (1, 0))
    for place, same in ((mine, False), (other, True)):
        spot = tree.viewport().mapTo(tree, place + QPoint(0, 18))
        assert (lifted.pixelColor(spot) == plain.pixelColor(spot)) is same
    leave(tree)
    assert tree.delegate.pointed is None and scope.under_pointer == NOTHING


def test_a_frame_of_the_icicle_is_said_to_the_byte_and_gets_a_line(page: Any, qtbot: QtBot) -> None:
    panel = page.bring_forward("stacks")
    qtbot.waitUntil(lambda: panel.icicle.tree is not None and panel.icicle.isVisible())
    icicle = panel.icicle
    plain = picture(icicle)
    place = QPoint(60, 50)
    said = point(icicle, place, qtbot)
    node = icicle.node_at(QPointF(place))
    assert node >= 0 and exact(int(icicle.tree.bytes[node])) in said
    assert icicle.pointed == node and picture(icicle) != plain
    scope, band = page.scope, page.views["timeline"].timeline.pointed_band
    assert scope.under_pointer == Pointed(frame=panel._name(node)) and band.group is None  # it is in all categories
    scope.look(grouping="root")
    point(icicle, QPoint(60, 10), qtbot)
    root = panel._name(icicle.node_at(QPointF(60, 10)))
    assert scope.bands.grouping.names[band.group] == root
    leave(icicle)
    assert band.group is None and icicle.pointed == -1 and picture(icicle) == plain


def test_an_allocation_gets_a_line_and_its_band_is_lifted(page: Any, qtbot: QtBot) -> None:
    view, scope = page.bring_forward("allocations"), page.scope
    qtbot.waitUntil(lambda: view.chart.painter is not None and view.chart.isVisible())
    chart = view.chart
    qtbot.wait(100)
    place = place_in(chart, scope.run.peak_position, scope.run.peak_bytes / 2)
    said = point(chart, place, qtbot)
    row = scope.under_pointer.allocation
    assert row is not None and exact(int(scope.run.allocations.bytes[row])) in said
    assert chart.pointed.row == row and scope.view.allocation != row
    assert page.views["timeline"].timeline.pointed_band.group == int(scope.bands.grouping.labels[row])
    with_line = picture(chart)
    leave(chart)
    assert chart.pointed.row == -1 and picture(chart) != with_line


def test_a_block_of_the_allocator_and_a_free_one_are_said_to_the_byte(page: Any, qtbot: QtBot) -> None:
    panel, scope = page.bring_forward("allocator"), page.scope
    qtbot.waitUntil(lambda: panel.map.layout_shown is not None, timeout=20_000)
    qtbot.wait(100)  # the scroll bar that comes with the map takes room
    layout, plain = panel.map.layout_shown, picture(panel.map)
    block = int(layout.block_bytes.argmax())
    said = point(panel.map, panel.map.boxes_of(block)[0].center().toPoint(), qtbot)
    row = int(layout.number[block])
    assert exact(int(scope.run.allocations.bytes[row])) in said and exact(int(layout.block_bytes[block])) in said
    assert "default pool, large, default stream" in said
    assert scope.under_pointer == Pointed(allocation=row) and panel.map.hovered == block
    lifted = picture(panel.map)
    assert lifted != plain
    leave(panel.map)
    assert picture(panel.map) == plain and scope.under_pointer == NOTHING
    widest = max(panel.map.bars, key=lambda bar: int(layout.free_bytes[bar.row]))
    free = next(
        at for x in range(int(widest.box.left()), int(widest.box.right()))
        if panel.map.block_at(at := QPointF(x, widest.box.center().y())) < 0
    )  # fmt: skip
    size = layout.gap_at(*panel.map.rows.address_at(free))
    assert point(panel.map, free.toPoint(), qtbot).startswith("Free: ") and exact(size) in panel.map.range_text(free)


def test_plans_are_said_to_the_byte(page: Any, qtbot: QtBot) -> None:
    view = page.bring_forward("what_if")
    chart = view.findChild(FrontierChart)
    qtbot.waitUntil(lambda: not view.what_if.is_busy and len(chart.points) > 1, timeout=30_000)
    for number in (0, 1):
        one = chart.points[number]
        said = point(chart, chart.place_of(one).toPoint(), qtbot)
        assert f"{one.peak_bytes:,} bytes" in said


def test_what_was_planned_before_is_said_to_the_byte(opened: Any, pair: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(*pair)
    qtbot.waitUntil(lambda: page.planned.found is not None, timeout=30_000)
    tip, found = page.views["saving"].toolTip(), page.planned.found
    assert f"Planned before (dotted): {page.pair[0].peak_bytes - found.outcome.peak_bytes:,} bytes" in tip
    assert f"planned peak {found.outcome.peak_bytes:,} bytes, measured {page.pair[1].peak_bytes:,} bytes" in tip


def test_a_file_closed_under_the_pointer_is_pointed_at_no_more(
    opened: Any, window: Window, samples: Path, qtbot: QtBot
) -> None:
    page = opened(str(samples / "before.mstrata"))
    legend, said = page.views["legend"].view, list[object]()
    point(legend, legend.visualRect(legend.model().index(1, 0)).center(), qtbot)
    assert page.scope.under_pointer != NOTHING
    page.scope.pointed.connect(said.append)
    qtbot.keyClick(window, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
    leave(legend)  # as it is told while it goes: an exception in it fails the test
    QToolTip.hideText()
    assert not window.session.state.runs and not said
