"""One file in the window: what is shown equals what the run says, however it is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from memstrata.capture.format.schema import Category
from memstrata.viewer.look.units import bytes_text, exact_bytes_text
from memstrata.viewer.model.grouping import available
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.state.array_table import RawRole
from memstrata.viewer.window import Window

MIB = 1 << 20


def column(table: Any, number: int, role: int = RawRole) -> list[Any]:
    return [table.index(row, number).data(role) for row in range(table.rowCount())]


def legend(page: Any) -> dict[str, tuple[int, int]]:
    table = page.views["legend"].view.table
    return {table.index(r, 0).data(): (table.index(r, 1).data(RawRole), table.index(r, 2).data(RawRole))
            for r in range(table.rowCount())}  # fmt: skip


def pixel_of(timeline: Any, x: float, y: float) -> QPoint:
    return timeline.mapFromScene(timeline.view.mapViewToScene(QPointF(x, y)))


def test_a_known_step_shows_its_known_bytes(opened: Any, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    assert page.answer.lines[0].text.startswith("Peak 44.0 MiB")
    assert legend(page) == {
        "temporary": (20 * MIB, 20 * MIB),
        "parameter": (16 * MIB, 16 * MIB),
        "activation": (8 * MIB, 8 * MIB),
        "gradient": (0, 0),
    }
    alive = page.views["alive"].view.table
    assert column(alive, 0) == [20 * MIB, *[4 * MIB] * 4, *[2 * MIB] * 4]


def test_the_window_shows_what_the_run_says(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[0])
    run = page.scope.run
    at_peak = {c.label: n for c, n in run.categories_at(run.peak_position).items()}
    assert {name: peak for name, (_, peak) in legend(page).items() if peak} == at_peak
    rows = AllocationQuery(position=run.peak_position).select(run)
    shown = page.views["alive"].view.table
    assert column(shown, 0) == run.allocations.bytes[rows].tolist()
    assert sum(column(shown, 0)) == run.peak_bytes
    assert f"Peak {bytes_text(run.peak_bytes)}" in page.answer.labels[0].text()


def test_moving_the_cursor_moves_every_view(opened: Any, pair: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(pair[0])
    run, timeline = page.scope.run, page.views["timeline"].timeline
    position = run.n_events // 3
    x = float(page.scope.axis.x_of(position + 0.5))
    QTest.mouseClick(timeline.viewport(), Qt.MouseButton.LeftButton, pos=pixel_of(timeline, x, run.peak_bytes))
    qtbot.waitUntil(lambda: page.scope.view.cursor != run.peak_position)
    cursor = page.scope.view.cursor
    page.views["alive"].fill()
    assert sum(column(page.views["alive"].view.table, 0)) == int(run.curve[cursor])
    assert sum(here for here, _ in legend(page).values()) == int(run.curve[cursor])
    lanes = page.views["lanes"].tree.lane_model
    measured = [lanes.index(row, 1).data(RawRole) for row in range(lanes.rowCount())]
    assert sum(measured) == int(run.activation_curve[cursor])
    assert bytes_text(int(run.curve[cursor])) in page.views["legend"].where.text()


def test_every_grouping_sums_to_the_curve(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[1])
    run, combo = page.scope.run, page.views["timeline"].group
    assert [combo.itemData(i) for i in range(combo.count())] == available(run)
    for row, key in enumerate(available(run)):
        combo.setCurrentIndex(row)
        combo.activated.emit(row)
        assert page.scope.view.grouping == key
        assert sum(peak for _, peak in legend(page).values()) == run.peak_bytes
        title = page.views["legend"].view.table.headerData(0, Qt.Orientation.Horizontal)
        assert (
            title == run.grouping(key).title == page.views["alive"].view.table.headerData(1, Qt.Orientation.Horizontal)
        )


def test_a_click_on_a_band_selects_its_group_everywhere(opened: Any, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    timeline, run = page.views["timeline"].timeline, page.scope.run
    x = float(page.scope.axis.x_of(run.peak_position + 0.5))
    inside_activation = pixel_of(timeline, x, 20 * MIB)  # parameters end at 16 MiB, activations at 24
    QTest.mouseClick(timeline.viewport(), Qt.MouseButton.LeftButton, pos=inside_activation)
    assert page.scope.view.query == AllocationQuery(group=("category", Category.activation))
    page.views["alive"].fill()
    assert column(page.views["alive"].view.table, 0) == [2 * MIB] * 4
    assert page.views["alive"].caption.text() == "4 allocations of activation, 8.00 MiB, alive at the cursor"
    assert timeline.bands_item.lifted == Category.activation
    legend_view = page.views["legend"].view
    assert legend_view.currentIndex().data() == "activation"
    QTest.keyClick(timeline, Qt.Key.Key_Escape)
    assert page.scope.view.query is None
    assert timeline.bands_item.lifted is None


def test_selecting_an_allocation_shows_its_stack(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[0])
    run, view, stack = page.scope.run, page.views["alive"].view, page.views["stack"]
    for row in (5, 11):
        view.setCurrentIndex(view.table.index(row, 0))
        allocation = view.table.source_row(row)
        assert page.scope.view.allocation == allocation
        frames = run.recording.stack_frames(int(run.allocations.stack[allocation]))
        assert column(stack.view.table, 0, Qt.ItemDataRole.DisplayRole) == [frame[0] for frame in frames]
        assert exact_bytes_text(int(run.allocations.bytes[allocation])) in stack.facts.text()


def test_sorting_is_by_number_not_by_text(opened: Any, pair: tuple[str, str]) -> None:
    table = opened(pair[0]).views["alive"].view.table
    table.sort(0, Qt.SortOrder.AscendingOrder)
    sizes = column(table, 0)
    assert sizes == sorted(sizes)
    assert len({text.split()[1] for text in column(table, 0, Qt.ItemDataRole.DisplayRole)}) > 1


def test_lanes_unfold_into_layers_that_sum_to_their_super_block(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[1])
    model, run = page.views["lanes"].tree.lane_model, page.scope.run
    names = [model.index(row, 0).data() for row in range(model.rowCount())]
    assert names == [*run.layers.super_block_names, "outside layers"]
    for row in range(model.rowCount() - 1):
        parent = model.index(row, 0)
        inner = [model.index(i, 1, parent).data(RawRole) for i in range(model.rowCount(parent))]
        assert sum(inner) == model.index(row, 1).data(RawRole)
        predicted = [model.index(i, 2, parent).data(RawRole) for i in range(model.rowCount(parent))]
        assert sum(predicted) == model.index(row, 2).data(RawRole)


def test_lanes_lie_exactly_under_the_plot(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[0])
    tree, timeline = page.views["lanes"].tree, page.views["timeline"].timeline
    left, right = timeline.plot_span
    assert (
        tree.viewport().mapToGlobal(QPoint(tree.span[0], 0)).x() == timeline.viewport().mapToGlobal(QPoint(left, 0)).x()
    )
    assert (
        tree.viewport().mapToGlobal(QPoint(tree.span[1], 0)).x()
        == timeline.viewport().mapToGlobal(QPoint(right, 0)).x()
    )
    assert tree.columnViewportPosition(3) == tree.span[0]


def test_a_click_in_a_lane_selects_it_and_moves_the_cursor(opened: Any, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    tree = page.views["lanes"].tree
    rect = tree.visualRect(tree.lane_model.index(1, 3))
    QTest.mouseClick(tree.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(tree.span[0] + 200, rect.center().y()))
    assert page.scope.view.query is not None and page.scope.view.query.super_block == 1
    assert page.scope.view.cursor != page.scope.run.peak_position


def test_wheel_zooms_drag_pans_and_no_zoom_loses_the_peak(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[1])
    timeline, run = page.views["timeline"].timeline, page.scope.run
    x, end = (float(page.scope.axis.x_of(p)) for p in (run.peak_position, run.peak_position + 1))
    for _ in range(40):
        low, high = timeline.view.viewRange()[0]
        assert low < end and x < high
        columns, sums = timeline.bands_item.sample(low, high, int(timeline.view.width()))
        assert sums.sum(axis=0).max() == run.peak_bytes
        assert run.peak_position in columns.positions
        center = pixel_of(timeline, (max(x, low) + min(end, high)) / 2, run.peak_bytes // 2)
        wheel(timeline, center, 120)
    zoomed = page.scope.view.visible
    assert zoomed is not None and zoomed[1] - zoomed[0] < run.n_events / 20
    drag(timeline, center, 120)
    moved = page.scope.view.visible
    assert moved is not None and moved[0] < zoomed[0]


def test_zoomed_away_the_flag_points_to_the_peak(opened: Any, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    page.scope.look(visible=(0.0, 3.0))
    assert page.views["timeline"].timeline.marks_item.marks.peak_bytes == 44 * MIB
    page.grab()
    page.views["timeline"].fit.click()
    assert page.scope.view.visible is None


def test_axis_by_event_and_by_time_keep_the_cursor(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[0])
    axis, timeline = page.views["timeline"].axis, page.views["timeline"].timeline
    assert [axis.itemData(i) for i in range(axis.count())] == ["time", "events"]
    cursor = page.scope.view.cursor
    axis.activated.emit(1)
    assert page.scope.view.axis == "events" and page.scope.view.cursor == cursor
    assert timeline.x_axis.labelText == "event"
    assert timeline.x_axis.tickStrings([2000.0], 1, 1000.0) == ["2,000"]
    axis.activated.emit(0)
    assert timeline.x_axis.labelText == "time since the start"
    assert timeline.bytes_axis.tickStrings([512 * MIB], 1, 256 * MIB) == ["512 MiB"]


def test_keys_act_only_where_the_chart_has_the_focus(opened: Any, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    timeline, table = page.views["timeline"].timeline, page.views["alive"].view
    timeline.setFocus()
    QTest.keyClick(timeline, Qt.Key.Key_Right)
    assert page.scope.view.cursor == page.scope.run.peak_position + 1
    QTest.keyClick(timeline, Qt.Key.Key_P)
    assert page.scope.view.cursor == page.scope.run.peak_position
    QTest.keyClick(timeline, Qt.Key.Key_Plus)
    assert page.scope.view.visible is not None
    QTest.keyClick(timeline, Qt.Key.Key_0)
    table.setFocus()
    QTest.keyClick(table, Qt.Key.Key_Right)
    QTest.keyClick(table, Qt.Key.Key_Plus)
    assert page.scope.view.cursor == page.scope.run.peak_position and page.scope.view.visible is None


def test_undo_goes_back_through_cursor_grouping_and_files(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    start = page.scope.view
    page.scope.look(("key",), cursor=3)
    page.scope.look(("key",), cursor=4)  # the same gesture right after: one step
    page.scope.look(grouping="layer")
    window.undo_action.trigger()
    assert page.scope.view.grouping == "category" and page.scope.view.cursor == 4
    window.undo_action.trigger()
    assert page.scope.view == start
    window.redo_action.trigger()
    assert page.scope.view.cursor == 4
    for _ in range(2):
        window.undo_action.trigger()
    assert window.session.state.runs == () and not window.undo_action.isEnabled()


def test_what_was_put_off_is_dropped_when_the_run_closes(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    page = opened(tapes[0])
    later = page.views["alive"]._later
    page.scope.look(cursor=3)  # the table of what is alive follows a little later
    assert later.isActive()
    while window.session.state.runs:
        window.undo_action.trigger()
    assert not page.scope.is_open
    later.timeout.emit()  # on a slow machine it runs out before the page is deleted; an exception fails the test


def test_hover_says_exact_bytes(opened: Any, tapes: tuple[str, str]) -> None:
    timeline = opened(tapes[0]).views["timeline"].timeline
    run = timeline.run
    text = timeline.hover_text(float(timeline.scope.axis.x_of(run.peak_position + 0.5)), 20 * MIB)
    assert "activation: 8.00 MiB (8,388,608 bytes)" in text
    assert "all: 46,137,344 bytes" in text


def test_a_number_of_the_answer_leads_to_its_allocations(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[0])
    number, place = next(
        (n, p) for n, line in enumerate(page.answer.lines) for p, part in enumerate(line.parts)
        if part.query is not None and part.query.categories
    )  # fmt: skip
    page.answer.labels[number].linkActivated.emit(f"{number}/{place}")
    query = page.answer.lines[number].parts[place].query
    page.views["alive"].fill()
    assert sum(column(page.views["alive"].view.table, 0)) == query.bytes(page.scope.run)
    page.views["alive"].clear.click()
    assert page.scope.view.query is None


def test_lanes_start_folded_where_the_window_is_low(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    window.resize(1100, 700)
    page = opened(tapes[0])
    assert not page.views["lanes"].tree.isVisible()
    page.views["lanes"].fold.click()
    assert page.views["lanes"].tree.isVisible()


def test_the_theme_follows_the_palette(opened: Any, window: Window, qapp: QApplication, dark: Any, tapes: Any) -> None:
    page = opened(tapes[0])
    timeline = page.views["timeline"].timeline
    light_band = timeline.bands_item.paints[Category.parameter]
    qapp.setPalette(dark)
    qapp.processEvents()
    assert window.watch.theme.dark and timeline.theme.dark
    assert timeline.bands_item.paints[Category.parameter] != light_band
    assert window.watch.theme.panel in window.styleSheet()
    corner = window.grab().toImage().pixelColor(window.width() // 2, window.height() - 4)
    assert corner.lightness() < 90


@pytest.mark.parametrize("size", [(1600, 1000), (1100, 700)])
def test_nothing_is_clipped(opened: Any, window: Window, pair: tuple[str, str], size: tuple[int, int]) -> None:
    window.resize(*size)
    page = opened(pair[0])
    for label in page.answer.labels:
        assert label.heightForWidth(label.width()) <= label.height()
    where = page.views["legend"].where
    assert where.heightForWidth(where.width()) <= where.height()
    for combo in (page.views["timeline"].group, page.views["timeline"].axis):
        assert combo.width() >= combo.minimumSizeHint().width()
    assert window.status.sizeHint().width() <= window.status.width()


def test_coverage_and_source_are_always_on_screen(opened: Any, window: Window, pair: tuple[str, str]) -> None:
    run = opened(pair[0]).scope.run
    text = window.status.text()
    assert "coverage 100.0%" in text and "cpu, torch 2.13" in text and "step " in text and "recorded " in text
    assert f"{run.n_events:,} events" in text


def test_saved_tensors_and_problems_are_all_listed(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[1])
    saved = page.views["saved"].view.table
    assert sorted(column(saved, 0)) == sorted(page.scope.run.recording.saved_tensors.storage_bytes.tolist())
    problems = page.views["problems"].view.table
    assert column(problems, 2, Qt.ItemDataRole.DisplayRole) == [p.text for p in page.scope.run.problems]


def test_the_prediction_line_is_the_analysis_curve(opened: Any, pair: tuple[str, str]) -> None:
    timeline = opened(pair[1]).views["timeline"].timeline
    assert timeline.predicted is not None
    assert np.array_equal(timeline.predicted_line.values, timeline.predicted.bytes)
    assert timeline.predicted_line.style == Qt.PenStyle.DashLine
    assert timeline.top >= timeline.predicted.peak_bytes


def wheel(widget: Any, at: QPoint, delta: int) -> None:
    where = QPointF(at)
    event = QWheelEvent(
        where, widget.viewport().mapToGlobal(where), QPoint(), QPoint(0, delta), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(widget.viewport(), event)
    QApplication.processEvents()


def drag(widget: Any, start: QPoint, pixels: int) -> None:
    target = widget.viewport()
    QTest.mousePress(target, Qt.MouseButton.LeftButton, pos=start)
    for step in range(1, 7):
        QTest.mouseMove(target, start + QPoint(pixels * step // 6, 0), 20)
        QApplication.processEvents()
    QTest.mouseRelease(target, Qt.MouseButton.LeftButton, pos=start + QPoint(pixels, 0))


def test_the_groups_without_a_band_of_their_own_are_chosen_together(
    opened: Any, pair: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(pair[0])
    page.scope.look(grouping="op")
    table = page.views["legend"].view
    names = [table.table.index(row, 0).data() for row in range(table.table.rowCount())]
    row = next(row for row, name in enumerate(names) if name.startswith("other ("))
    other = table.table.index(row, 1).data(RawRole)
    timeline = page.views["timeline"].timeline
    qtbot.mouseClick(
        table.viewport(), Qt.MouseButton.LeftButton, pos=table.visualRect(table.model().index(row, 0)).center()
    )
    assert timeline.bands_item.lifted == len(page.scope.bands) - 1
    alive = page.views["alive"]
    qtbot.waitUntil(lambda: sum(column(alive.view.table, 0)) == other, timeout=2_000)
    assert 0 < other < page.scope.run.peak_bytes
    count = names[row].removeprefix("other (").removesuffix(")")
    assert f" of {count} other groups, " in alive.caption.text()
