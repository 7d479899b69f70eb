"""The filter of a comparison: what it does to the curves, the savings and every table, and what says it does not
follow."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from memstrata.viewer.analysis.at_peaks import alive_at_peak
from memstrata.viewer.look.palette import RUN_LINE
from memstrata.viewer.look.units import bytes_text, difference_text
from memstrata.viewer.model.curves import live_bytes
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.state.array_table import RawRole

from .conftest import worked
from .gestures import typed


def numbers(table: Any, column: int) -> list[int]:
    return [table.index(row, column).data(RawRole) for row in range(table.rowCount())]


@pytest.fixture
def compared(opened: Any, pair: tuple[str, str]) -> Any:
    page = opened(*pair)
    assert page.kind == "compare"
    return page


def test_a_filter_typed_in_the_comparison_filters_both_runs_and_every_table(
    compared: Any, window: Any, qtbot: QtBot
) -> None:
    runs = compared.pair
    qtbot.keyClick(compared, Qt.Key.Key_F)
    assert compared.filter.line.hasFocus()
    qtbot.keyClicks(compared.filter.line, "mlp")
    qtbot.keyClick(compared.filter.line, Qt.Key.Key_Return)
    qtbot.wait(150)
    assert [view.filter for view in window.session.state.views] == ["mlp", "mlp"]
    sums = [AllocationQuery(position=run.peak_position, filter="mlp").bytes(run) for run in runs]
    table = compared.cut.table.table
    for column, size in zip((1, 2), sums):
        assert sorted(numbers(table, column))[-1] == size  # the last row is the sum
        assert sum(numbers(table, column)) == 2 * size
    assert (compared.cut.chart.shown.a_bytes, compared.cut.chart.shown.b_bytes) == tuple(sums)
    count = [int(AllocationQuery(position=run.peak_position, filter="mlp").mask(run).sum()) for run in runs]
    assert compared.filter.said.toolTip().splitlines() == [
        *(f"{side}: {size:,} bytes in {n:,} allocations" for side, size, n in zip("AB", sums, count)),
        f"difference: {sums[1] - sums[0]:,} bytes",
    ]
    assert compared.filter.said.text() == (
        f"matching: {bytes_text(sums[0])} → {bytes_text(sums[1])} ({difference_text(sums[1] - sums[0])}) at the peaks;"
        " headline, other savings and list of runs: whole steps"
    )
    changes = worked(compared.bring_forward("changes"), qtbot)
    qtbot.waitUntil(lambda: changes.table.rowCount() > 0)
    gained = sum(numbers(changes.table, changes.table.columnCount() - 1))
    assert gained == sums[1] - sums[0]
    stacks = worked(compared.bring_forward("by_stack"), qtbot)
    assert stacks.model().tree.nodes[0].bytes == sums
    slots = compared.bring_forward("slots").table
    assert max(numbers(slots, 1)) < runs[0].peak_bytes
    window.undo_action.trigger()
    qtbot.wait(150)
    assert compared.filter.line.text() == "" and not compared.filter.said.isVisible()
    assert sorted(numbers(compared.cut.table.table, 1))[-1] == runs[0].peak_bytes


def test_the_curves_show_what_matches_over_the_whole_steps(compared: Any, window: Any, qtbot: QtBot) -> None:
    """On each axis a line for each run, exact under the pointer; undo takes them away again."""
    runs, chart = compared.pair, compared.chart
    qtbot.waitUntil(lambda: compared.planned.found is not None, timeout=20_000)
    inside = chart.rect().adjusted(4, 4, -4, -4)  # without the frame that says where the focus is
    whole = chart.grab(inside).toImage()
    typed(qtbot, compared, "mlp")
    curves = [live_bytes(run.allocations, run.n_events, run.filtered("mlp")) for run in runs]
    cell = next(cell for cell in compared.structure.cells if cell.label == "backward of layers.4")
    most = [int(curve[i : j + 1].max()) for curve, (i, j) in zip(curves, (cell.a, cell.b))]
    said = chart.hover_text((cell.x0 + cell.x1) / 2).splitlines()
    assert said[0] == "backward of layers.4" and said[1].startswith("before.mstrata: ")
    assert said[4:] == [
        *(f"matching in {run.name}: {bytes_text(size)} ({size:,} bytes)" for run, size in zip(runs, most)),
        f"difference {difference_text(most[1] - most[0])} ({most[1] - most[0]:,} bytes)",
    ]
    assert 'matches "mlp"' in chart.accessibleDescription()
    assert_lines_painted(chart, curves)
    axis = compared.bar.axis
    axis.setFocus()
    while axis.currentText() != "time":
        qtbot.keyClick(axis, Qt.Key.Key_Down)
    assert compared.chart is not chart
    position = int(compared.structure.a.position_at(0.5))
    here = int(curves[0][position])
    assert f"matching in before.mstrata: {bytes_text(here)} ({here:,} bytes)" in compared.chart.hover_text(0.5)
    assert_lines_painted(compared.chart, curves)
    window.undo_action.trigger()
    window.undo_action.trigger()
    qtbot.wait(150)
    assert compared.chart is chart and chart.grab(inside).toImage() == whole
    assert "matching" not in chart.hover_text(0.5) and not chart.accessibleDescription().startswith("Two lines")


def assert_lines_painted(chart: Any, curves: list[Any]) -> None:
    """Where the line of the run after is on top, its ink is at the height of what matches, and pale below it."""
    image, ratio = chart.grab().toImage(), chart.devicePixelRatio()
    rect, item = chart.view.mapRectToScene(chart.view.rect()), chart.pair
    columns, found = range(int(rect.left()) + 20, int(rect.right()) - 20, 7), 0
    for column in columns:
        low, high = (chart.view.mapSceneToView(QPointF(x, 50)).x() for x in (column, column + 1))
        first, last = (int(item.axes[1].position_at(x)) for x in (low, high))
        size = int(curves[1][first : last + 1].max())
        if size != curves[1][first : last + 1].min():
            continue  # a step
        y = chart.view.mapViewToScene(QPointF(low, size)).y()
        if any(pill.contains(QPointF(column, y)) for pill in item.pills):
            continue
        inks = [image.pixelColor(int(column * ratio), int((y + step) * ratio)) for step in (-1, 0, 1)]
        wanted = QColor(RUN_LINE[item.theme.dark][1])
        apart = [max(abs(x - y) for x, y in zip(ink.getRgb(), wanted.getRgb())) for ink in inks]
        assert min(apart) < 48, (column, y, inks)  # lines of the grid lie over it
        found += 1
    assert found > 20


def test_the_key_of_the_lines_lies_on_no_name(compared: Any, window: Any, qtbot: QtBot) -> None:
    typed(qtbot, compared, "mlp")
    for size in ((1600, 1000), (1100, 700), (900, 560)):
        window.resize(*size)
        qtbot.wait(100)
        compared.chart.grab()
        *names, key = compared.chart.pair.pills
        assert len(names) == 2 and not any(key.intersects(name) for name in names)
    qtbot.keyClick(compared.filter.line, Qt.Key.Key_Escape)
    compared.chart.grab()
    assert len(compared.chart.pair.pills) == 2


def test_the_savings_say_what_matches_and_that_the_rest_is_of_whole_steps(compared: Any, qtbot: QtBot) -> None:
    panel, runs = compared.views["saving"], compared.pair
    before = list(panel.rows)
    typed(qtbot, compared, "mlp")
    a, b = (AllocationQuery(position=run.peak_position, filter="mlp").bytes(run) for run in runs)
    assert panel.rows == [("Matching, at the peaks", a - b, True), *before] and panel.heading == "Saved"
    assert panel.toolTip().startswith(f"Matching, at the peaks: {a - b:,} bytes\n")
    assert 'matching "mlp"; all else is of the whole steps' in panel.toolTip()
    first = panel.grab().toImage()
    qtbot.keyClick(compared.filter.line, Qt.Key.Key_Escape)
    assert panel.rows == before and panel.grab().toImage() != first and "matching" not in panel.toolTip()


def test_a_filter_of_one_run_alone_is_not_applied_and_the_comparison_says_so(
    compared: Any, window: Any, qtbot: QtBot
) -> None:
    window.session.look(0, filter="mlp")
    assert compared.filter.said.text() == 'A is filtered by "mlp", B is not: it is not applied here'
    assert sorted(numbers(compared.cut.table.table, 1))[-1] == compared.pair[0].peak_bytes
    window.session.look(1, filter="mlp")
    assert compared.filter.line.text() == "mlp"
    size = int(compared.pair[0].allocations.bytes[alive_at_peak(compared.pair[0], "mlp")].sum())
    assert sorted(numbers(compared.cut.table.table, 1))[-1] == size
    window.session.look(1, filter="silu")  # the box is empty now, and leaves each run its own
    assert compared.filter.line.text() == "" and [v.filter for v in window.session.state.views] == ["mlp", "silu"]
    assert 'A is filtered by "mlp", B by "silu": neither is applied here' in compared.filter.said.text()


def test_words_without_sense_change_nothing_in_the_comparison(compared: Any, window: Any, qtbot: QtBot) -> None:
    line = compared.filter.line
    line.setFocus()
    qtbot.keyClicks(line, ">16XiB")
    qtbot.keyClick(line, Qt.Key.Key_Return)
    assert "is not a size" in compared.filter.said.text() and line.hasFocus()
    assert [view.filter for view in window.session.state.views] == ["", ""]
