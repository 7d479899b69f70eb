"""The views of a comparison: bars from peak to peak, what changed, other axes, more than two runs, plain snapshots."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox
from pytestqt.qtbot import QtBot

from memstrata.viewer.analysis.changes import Fared
from memstrata.viewer.panels.compare_page import ComparePage
from memstrata.viewer.state.array_table import RawRole
from memstrata.viewer.window import Window

from .conftest import worked

MIB = 1 << 20


def choose(box: QComboBox, title: str) -> None:
    """Choose in a box with the arrow keys."""
    row = box.findText(title)
    assert row >= 0, title
    box.setFocus()
    while box.currentIndex() != row:
        QTest.keyClick(box, Qt.Key.Key_Down if box.currentIndex() < row else Qt.Key.Key_Up)


def front(window: Window) -> ComparePage:
    QApplication.processEvents()
    page = window.content.currentWidget()
    assert isinstance(page, ComparePage)
    return page


def column(view: Any, number: int) -> list[Any]:
    return [view.table.index(row, number).data() for row in range(view.table.rowCount())]


def test_bars_lead_from_peak_to_peak_and_a_click_selects(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    """44 MiB: the 8 MiB kept by forward go, nothing else changes, 36 MiB remain."""
    page = opened(*tapes)
    chart = page.cut.chart
    assert (chart.shown.a_bytes, chart.shown.b_bytes) == (44 * MIB, 36 * MIB)
    assert [(step.label, step.difference_bytes) for step in chart.shown.steps] == [("activation", -8 * MIB)]
    assert "activation -8.00 MiB" in chart.accessibleName()
    assert chart.hover_text(chart._height * 1.5) == (
        "activation\n-8,388,608 bytes: from 46,137,344 bytes to 37,748,736 bytes"
    )
    QTest.mouseClick(chart, Qt.MouseButton.LeftButton, pos=QPoint(200, int(chart._height * 1.5) + 5))
    views = window.session.state.views
    found = [view.query.bytes(run) for view, run in zip(views, page.pair) if view.query is not None]
    assert len(found) == 2 and {view.query.category.label for view in views} == {"activation"}
    assert page.views["differences"].currentIndex().data() == "activation" and chart.chosen == 1
    QTest.mouseClick(chart, Qt.MouseButton.LeftButton, pos=QPoint(200, 8))
    assert [view.query for view in window.session.state.views] == [None, None]
    window.undo_action.trigger()
    assert chart.chosen == 1


def test_bars_are_walked_with_the_arrow_keys(opened: Any, window: Window, pair: tuple[str, str]) -> None:
    page = opened(*pair)
    chart = page.cut.chart
    chart.setFocus()
    for _ in range(3):
        QTest.keyClick(chart, Qt.Key.Key_Down)
    assert chart.chosen == 2
    label = chart.shown.steps[1].label
    assert page.views["differences"].currentIndex().data() == label
    state = window.session.state
    assert {view.query.category.label for view in state.views} == {label}


def test_a_group_is_followed_by_its_name_in_both_runs(opened: Any, window: Window, pair: tuple[str, str]) -> None:
    page = opened(*pair)
    choose(page.cut.box, "first user frame")
    table = page.views["differences"]
    assert window.session.state.cut == "frame"
    table.setCurrentIndex(table.table.index(0, 0))
    row = page.cut.rows[table.table.source_row(0)]
    for view, run, size in zip(window.session.state.views, page.pair, (row.a_bytes, row.b_bytes)):
        assert view.query.position is None
        alive = run.allocations.alive(run.peak_position)
        rows = set(view.query.select(run).tolist()) & set(alive.tolist())
        assert int(run.allocations.bytes[sorted(rows)].sum()) == size
    window.undo_action.trigger()
    window.undo_action.trigger()
    assert page.cut.box.currentText() == "category"


def test_what_changed_is_listed_without_what_stayed(
    opened: Any, window: Window, pair: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(*pair)
    worked(page.bring_forward("changes"), qtbot)
    shown = column(page.views["changes"], 1)
    assert set(shown) == {"gone", "new"} and "same" not in shown
    kept = [c for c in page.diff.changes if c.fared is not Fared.SAME]
    differences = [page.views["changes"].table.index(r, 5).data(RawRole) for r in range(len(shown))]
    assert differences == [c.difference_bytes for c in kept]
    assert sum(differences) == page.diff.peak_difference_bytes
    page.views["changes"].setCurrentIndex(page.views["changes"].table.index(0, 0))
    views = window.session.state.views
    assert [len(view.query.rows) for view in views] == [len(kept[0].a_rows), len(kept[0].b_rows)]
    assert "12 layers" in column(page.views["changes"], 0)[0] and "layers.11" in page.views["changes"].table.index(
        0, 0
    ).data(Qt.ItemDataRole.ToolTipRole)


def test_other_axes_and_a_click_on_them(opened: Any, window: Window, pair: tuple[str, str]) -> None:
    page = opened(*pair)
    first = page.chart
    choose(page.bar.axis, "time")
    chart = page.chart
    assert chart is not first and page.stack.currentWidget() is chart and window.session.state.common_axis == "time"
    assert chart.x_axis.labelText == "time since the start"
    QApplication.processEvents()
    where = chart.view.mapViewToScene(QPointF(1.0, 100 * MIB))
    QTest.mouseClick(chart.viewport(), Qt.MouseButton.LeftButton, pos=chart.mapFromScene(where))
    for view, run in zip(window.session.state.views, page.pair):
        assert run.times is not None
        assert run.times[view.cursor] <= 1.01 and run.times[view.cursor + 1] >= 0.99
    assert "before.mstrata: " in chart.hover_text(0.5) and chart.hover_text(0.5).startswith("500 ms")
    choose(page.bar.axis, "share of each run")
    assert page.chart.hover_text(50).startswith("50.0%")
    choose(page.bar.axis, "phase and layer")
    assert page.chart is first


def test_of_three_runs_any_two_can_be_compared(opened: Any, window: Window, samples: Path) -> None:
    names = ["before.mstrata", "after.mstrata", "uniform.mstrata"]
    page = opened(*(str(samples / name) for name in names))
    assert [run.name for run in page.pair] == names[:2]
    assert all(box.isVisible() for box in page.bar.sides)
    assert column(page.views["runs"], 1) == names and column(page.views["runs"], 0) == ["A", "B", ""]
    throughput = column(page.views["runs"], len(page.views["runs"].table.columns) - 1)
    assert all(re.fullmatch(r"[\d,]+", text) for text in throughput)  # tokens per second of unrecorded steps
    page.bar.sides[1].setFocus()
    QTest.keyClick(page.bar.sides[1], Qt.Key.Key_Down)
    page = front(window)
    assert page.bar.sides[1].hasFocus()
    assert [run.name for run in page.pair] == ["before.mstrata", "uniform.mstrata"]
    assert len(window.content.pages) == 1
    QTest.keyClick(page.bar.sides[0], Qt.Key.Key_Down)
    assert [run.name for run in front(window).pair] == ["after.mstrata", "uniform.mstrata"]
    QTest.keyClick(front(window).bar.sides[0], Qt.Key.Key_Down)  # stands on the other side: they change places
    assert [run.name for run in front(window).pair] == ["uniform.mstrata", "after.mstrata"]


def test_two_runs_change_places(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    page = opened(*tapes)
    assert not any(box.isVisible() for box in page.bar.sides)
    QTest.mouseClick(page.bar.swap, Qt.MouseButton.LeftButton)
    page = front(window)
    assert [run.name for run in page.pair] == ["checkpointed.mstrata", "plain.mstrata"]
    assert page.answer.lines[0].text.startswith("Peak 36.0 MiB to 44.0 MiB: 8.00 MiB more (22.2%)")
    assert page.views["saving"].heading == "Difference, B minus A"
    assert page.views["saving"].rows[0][1] == 8 * MIB
    window.undo_action.trigger()
    assert [run.name for run in front(window).pair] == ["plain.mstrata", "checkpointed.mstrata"]


def test_ranks_have_differences_and_no_savings(window: Window, qtbot: QtBot, samples: Path) -> None:
    window.open_paths([str(samples / "ranks")])
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 2, timeout=20_000)
    page = front(window)
    assert page.views["saving"].heading == "Rank 1 minus rank 0"
    assert page.views["saving"].rows[0][1] == page.diff.peak_difference_bytes > 0
    assert page.answer.lines[0].text.startswith("Peak 40.7 MiB on rank 0, 56.5 MiB on rank 1: 15.7 MiB more")
    page.bring_forward("runs")
    assert column(page.views["runs"], 2) == ["0", "1"]


def test_a_recording_and_a_snapshot_share_an_axis_with_a_name(opened: Any, samples: Path, snapshots: Path) -> None:
    page = opened(str(samples / "before.mstrata"), str(snapshots / "torch24-linear-grad.pickle"))
    assert page.bar.axis.currentText() == "share of each run"
    assert page.chart.x_axis.labelText == "share of each run's events" and not page.structure.cells
    assert page.views["saving"].heading == "Difference, B minus A"
    assert "5.63x as much" in page.answer.lines[0].text and "463" not in page.answer.lines[0].text
    assert "By phase and super-block" not in list(page.docks.tabs().values())


def test_states_without_a_history_have_no_curves_and_no_peak(opened: Any, snapshots: Path) -> None:
    names = ("torch22-state-second-gpu", "torch22-list-of-segments")
    page = opened(*(str(snapshots / f"{name}.pickle") for name in names))
    assert page.answer.lines[0].text.startswith("Active at the end 9.90 GiB to 3.08 GiB")
    assert not page.stack.isVisible() and "saving" not in page.views and page.cut.chart.isVisible()
    assert page.cut.chart.shown.b_bytes == page.pair[1].end_bytes
    assert not any("peak" in line.text.lower() for line in page.answer.lines)


def test_a_state_and_a_peak_are_named_in_the_order_of_the_runs(
    opened: Any, window: Window, snapshots: Path, pair: tuple[str, str]
) -> None:
    page = opened(str(snapshots / "torch22-state-second-gpu.pickle"), pair[1])
    assert page.cut.when.text() == "From end to peak by"
    assert page.answer.lines[2].text.startswith("At the end and at the peak: ")
    QTest.mouseClick(page.bar.swap, Qt.MouseButton.LeftButton)
    page = front(window)
    assert page.cut.when.text() == "From peak to end by"
    assert page.answer.lines[2].text.startswith("At the peak and at the end: ")


def test_of_three_files_opened_together_the_first_is_held_against_the_second(
    opened: Any, window: Window, pair: tuple[str, str], samples: Path, qtbot: QtBot
) -> None:
    page = opened(*pair, str(samples / "uniform.mstrata"))
    assert [run.name for run in page.pair] == ["before.mstrata", "after.mstrata"]
    window.open_paths([str(samples / "raised.mstrata")])
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 4, timeout=20_000)
    assert [run.name for run in front(window).pair] == ["uniform.mstrata", "raised.mstrata"]


def test_a_file_with_itself_differs_in_nothing(opened: Any, pair: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(pair[0], pair[0])
    assert "never checkpointed" not in page.warnings.text()
    assert "compared with itself" in page.warnings.text()
    assert page.cut.chart.shown.steps == ()
    worked(page.bring_forward("changes"), qtbot)
    assert page.views["changes"].table.rowCount() == 0


def test_stacks_of_both_runs_are_one_tree(opened: Any, window: Window, pair: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(*pair)
    worked(page.bring_forward("by_stack"), qtbot)
    model = page.views["by_stack"].model()
    first = model.index(0, 0)
    assert page.views["by_stack"].isExpanded(first)
    page.views["by_stack"].setCurrentIndex(first)
    node = page.views["by_stack"].model().tree.nodes[model.node(first)]
    views = window.session.state.views
    assert [view.query.bytes(run) for view, run in zip(views, page.pair)] == node.bytes
    assert node.difference_bytes < 0


def test_what_the_run_before_said_of_the_plan_is_drawn(opened: Any, pair: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(*pair)
    qtbot.waitUntil(lambda: page.planned.found is not None, timeout=20_000)
    planned = page.planned.found
    assert np.array_equal(page.chart.pair.planned, planned.curve)
    row = next(row for row in page.views["saving"].rows if row[0] == "Planned before (dotted)")
    assert row[1] == page.diff.a.peak_bytes - planned.outcome.peak_bytes and row[2] is False
    assert planned.text in page.views["saving"].toolTip()
    with_line = page.chart.grab().toImage()
    page.chart.pair.planned = None
    page.chart.pair.update()
    assert page.chart.grab().toImage() != with_line


def test_curves_of_further_runs_stand_on_the_same_axis(
    opened: Any, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    """The plain step once more beside the pair: on every axis its line is that of the same run in the pair."""
    page = opened(*tapes, tapes[0])
    assert [run.name for run in page.pair] == ["plain.mstrata", "checkpointed.mstrata"]
    other = window.session.state.runs[2]
    assert page.bar.others.isVisible() and page.bar.others.isChecked()
    for title in ("phase and layer", "time", "event order", "share of each run"):
        choose(page.bar.axis, title)
        ((run, axis),) = page.chart.others.lines
        assert run is other and np.array_equal(axis.edges, page.structure.a.edges)
    said = page.chart.hover_text(40.0)
    assert said.count("plain.mstrata: ") == said.count("plain.mstrata (same file again): ") == 1
    QTest.mouseClick(page.bar.others, Qt.MouseButton.LeftButton, pos=QPoint(8, page.bar.others.height() // 2))
    assert page.chart.others.lines == ()


def test_a_further_run_that_recomputes_has_its_own_events_in_each_cell(
    opened: Any, window: Window, tapes: tuple[str, str]
) -> None:
    page = opened(*tapes, tapes[1])
    run, pair = window.session.state.runs[2], page.pair
    ((_, axis),) = page.chart.others.lines
    assert run not in pair and np.array_equal(axis.edges, page.structure.b.edges)


def test_a_run_that_is_far_higher_is_left_out_at_first(opened: Any, samples: Path) -> None:
    names = ("raised.mstrata", "raised.mstrata", "before.mstrata")
    page = opened(*(str(samples / name) for name in names))
    assert not page.bar.others.isChecked() and page.chart.others.lines == ()
    page.bar.others.click()
    assert [run.name for run, _ in page.chart.others.lines] == ["before.mstrata"]
    assert page.chart.others.boundingRect().height() > page.chart.others.lines[0][0].peak_bytes
