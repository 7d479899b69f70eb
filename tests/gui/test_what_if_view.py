"""What if: slider, budget, points and button set the plan; the line, the sentence and the code follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from memstrata.capture.format.plan import Plan
from memstrata.viewer.analysis.operators import parse_keep
from memstrata.viewer.analysis.plan_code import torch_code
from memstrata.viewer.analysis.plan_search import TWICE, Search
from memstrata.viewer.analysis.planner import Planner
from memstrata.viewer.analysis.predicted_curve import at_every_position
from memstrata.viewer.look.units import bytes_text
from memstrata.viewer.window import Window


@pytest.fixture
def page(opened: Any, pair: tuple[str, str], qtbot: QtBot) -> Any:
    """The plain run with the tab in front, and everything worked out."""
    page = opened(pair[0])
    page.bring_forward("what_if")
    qtbot.waitUntil(lambda: bool(page.scope.what_if.frontier), timeout=20_000)
    return page


def line(page: Any) -> Any:
    return page.views["timeline"].timeline.what_if_line


def drawn(planner: Planner, plan: Any) -> Any:
    return at_every_position(*planner.outcome(plan).line(), planner.run.n_events)


def test_the_slider_draws_the_planners_curve_dotted(page: Any, qtbot: QtBot) -> None:
    panel, run = page.views["what_if"], page.scope.run
    assert line(page).values is None and panel.slider.maximum() == 12 and panel.slider.value() == 0
    panel.slider.setFocus()
    for _ in range(4):
        qtbot.keyClick(panel.slider, Qt.Key.Key_Right)
    planner = Planner(run)
    outcome = planner.outcome(planner.every(4))
    assert page.scope.view.plan == outcome.plan.segments and panel.slider.value() == 4
    assert np.array_equal(line(page).values, drawn(planner, planner.every(4)))
    assert int(line(page).values.max()) == outcome.peak_bytes and line(page).style == Qt.PenStyle.DotLine
    assert panel.length.text() == "3 segments of 4 layers"
    assert f"Peak {bytes_text(outcome.peak_bytes)} instead of {bytes_text(run.peak_bytes)}" in panel.sentence.text()
    assert f"activations up to {bytes_text(outcome.activation_peak_bytes)}" in panel.sentence.text()
    assert panel.sentence.text().endswith("per step (estimate).")
    assert "with the plan tried: " in page.views["timeline"].timeline.hover_text(0.5, 1.0)
    assert "with the plan tried" in page.views["timeline"].key.text()
    qtbot.keyClick(panel.slider, Qt.Key.Key_Home)
    assert page.scope.view.plan is None and line(page).values is None
    assert "As recorded" in panel.sentence.text()


def test_the_plan_can_be_undone(page: Any, window: Window) -> None:
    panel = page.views["what_if"]
    panel.slider.setValue(6)
    assert line(page).values is not None
    window.session.undo()
    assert page.scope.view.plan is None and line(page).values is None and panel.slider.value() == 0
    window.session.redo()
    assert panel.slider.value() == 6 and line(page).values is not None


def test_enter_in_the_budget_finds_the_best_plan(page: Any, qtbot: QtBot) -> None:
    panel, run = page.views["what_if"], page.scope.run
    budget = 500 << 20
    panel.budget.setFocus()
    qtbot.keyClicks(panel.budget, "500MiB")
    qtbot.keyClick(panel.budget, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: page.scope.view.plan is not None, timeout=10_000)
    planner = Planner(run)
    best = Search(planner).best(budget)
    assert best is not None and best.peak_bytes <= budget < run.peak_bytes
    assert page.scope.view.plan == best.plan.segments
    assert int(line(page).values.max()) == best.peak_bytes and not panel.answer.isVisible()


@pytest.mark.parametrize(
    ("typed", "said"),
    [("lots", "'lots' is not a size such as 30GiB or 512MiB."), ("8GiB", "The step fits without a checkpoint.")],
)
def test_a_budget_that_needs_no_plan_or_is_no_size(page: Any, qtbot: QtBot, typed: str, said: str) -> None:
    panel = page.views["what_if"]
    qtbot.keyClicks(panel.budget, typed)
    qtbot.keyClick(panel.budget, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: panel.answer.text() == said, timeout=10_000)
    assert panel.answer.isVisible() and page.scope.view.plan is None


def test_a_budget_that_no_plan_reaches_shows_the_lowest(page: Any, qtbot: QtBot) -> None:
    panel = page.views["what_if"]
    lowest = Search(Planner(page.scope.run)).lowest()
    qtbot.keyClicks(panel.budget, "1MiB")
    qtbot.keyClick(panel.budget, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: panel.answer.isVisible(), timeout=10_000)
    assert "No plan fits 1MiB" in panel.answer.text() and bytes_text(lowest.peak_bytes) in panel.answer.text()
    assert page.scope.view.plan == lowest.plan.segments


def test_a_click_on_a_point_tries_that_plan(page: Any, qtbot: QtBot) -> None:
    chart, frontier = page.views["what_if"].chart, page.scope.what_if.frontier
    assert len(chart.points) == len(frontier) > 3
    assert [p.peak_bytes for p in chart.points] == [o.peak_bytes for o in frontier]
    number = len(frontier) // 2
    place = chart.place_of(chart.points[number]).toPoint()
    assert chart.point_at(chart.place_of(chart.points[number])) == number
    qtbot.mouseClick(chart, Qt.MouseButton.LeftButton, pos=place)
    assert page.scope.view.plan == frontier[number].plan.segments
    assert chart.shown == chart.points[number]
    chart.setFocus()
    qtbot.keyClick(chart, Qt.Key.Key_Right)
    assert page.scope.view.plan == frontier[number + 1].plan.segments
    for _ in frontier:
        qtbot.keyClick(chart, Qt.Key.Key_Left)
    assert page.scope.view.plan is None  # the leftmost point is the step as it was recorded


def test_the_plan_can_be_copied_as_code(page: Any, qtbot: QtBot) -> None:
    panel = page.views["what_if"]
    assert "No checkpoints" in panel.code.toPlainText() and not panel.copy.isEnabled()
    panel.slider.setValue(1)
    planner = Planner(page.scope.run)
    assert panel.code.toPlainText() == torch_code(planner, planner.every(1))
    panel.kind.setCurrentText("Hugging Face")
    panel.kind.activated.emit(panel.kind.currentIndex())
    qtbot.mouseClick(panel.copy, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text().startswith("model.gradient_checkpointing_enable(")
    panel.kind.setCurrentText("FSDP2")
    panel.kind.activated.emit(panel.kind.currentIndex())
    assert "fully_shard(model)" in panel.code.toPlainText()


def test_try_in_the_headline_sets_the_plan_that_it_names(
    opened: Any, pair: tuple[str, str], qtbot: QtBot, window: Window
) -> None:
    page = opened(pair[0])
    assert not page.scope.what_if.is_busy and page.scope.what_if.planner is None  # nothing before it is asked for
    qtbot.mouseClick(page.tried, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: line(page).values is not None, timeout=20_000)
    planner = Planner(page.scope.run)
    outcome = planner.outcome(Plan(page.scope.view.plan))
    assert outcome.ranges == ((0, 4), (4, 8), (8, 12))
    assert f"peak {bytes_text(outcome.peak_bytes)}" in page.answer.lines[2].text
    assert page.docks.front == "what_if" and page.tried.isChecked()
    window.tabs.close_front()
    window.session.undo()  # the run comes back in a new page
    page = window.content.currentWidget()
    assert page.tried.isChecked()
    qtbot.waitUntil(lambda: line(page).values is not None, timeout=20_000)
    qtbot.mouseClick(page.tried, Qt.MouseButton.LeftButton)
    assert page.scope.view.plan is None and line(page).values is None and not page.tried.isChecked()


def test_a_run_with_checkpoints_says_why_not(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[1])
    panel = page.views["what_if"]
    page.bring_forward("what_if")
    assert panel.notice.isVisible() and "recorded with checkpoints in force" in panel.notice.text()
    assert not panel.content.isVisible() and not page.scope.what_if.is_busy
    assert not hasattr(page, "tried")


def test_where_only_lengths_can_be_chosen_a_budget_says_why(opened: Any, tmp_path: Path, qtbot: QtBot) -> None:
    record_layers_that_run_twice(tmp_path / "twice.mstrata")
    page = opened(str(tmp_path / "twice.mstrata"))
    panel = page.views["what_if"]
    page.bring_forward("what_if")
    qtbot.waitUntil(lambda: bool(panel.stage.text()) and not page.scope.what_if.is_busy, timeout=20_000)
    assert panel.stage.text() == TWICE and panel.stage.isVisible() and not panel.bar.isVisible()
    assert not panel.budget.isEnabled() and panel.budget.toolTip() == TWICE and panel.answer.text() == ""
    assert panel.chart.points == () and panel.chart.shown is None
    picture = panel.chart.grab().toImage()
    seen = {picture.pixel(x, y) for x in range(picture.width()) for y in range(picture.height())}
    assert len(seen) == 1  # no axes with values that nothing has
    panel.slider.setValue(2)
    assert line(page).values is not None


def record_layers_that_run_twice(path: Path) -> None:
    torch = pytest.importorskip("torch")
    from memstrata.capture import Recorder

    class Twice(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))

        def forward(self, x: Any) -> Any:
            for layer in (*self.layers, *self.layers):
                x = torch.nn.functional.gelu(layer(x))
            return x

    model, rows = Twice(), torch.randn(256, 64)
    with Recorder(path, model=model):
        model(rows).sum().backward()


def test_a_file_without_layers_has_no_such_tab(opened: Any, snapshots: Path) -> None:
    page = opened(str(snapshots / "torch23-train.pickle"))
    assert "what_if" not in page.views and "prediction" not in page.views and not hasattr(page, "tried")


def test_a_window_closed_while_plans_are_worked_out_leaves_nothing(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[0])
    page.bring_forward("what_if")
    assert page.scope.what_if.is_busy  # the fixture around every test looks for threads left behind


def test_a_run_closed_while_plans_are_worked_out(opened: Any, pair: tuple[str, str], window: Window) -> None:
    page = opened(pair[0])
    page.bring_forward("what_if")
    page.scope.look(plan=(("layers.0", "layers.1"),))
    window.tabs.close_front()
    assert not window.session.state.runs
    QApplication.processEvents()


def test_a_line_above_the_measured_peak_has_room(page: Any) -> None:
    """A plan of one segment over everything makes all of it again at once, beside its own input."""
    timeline = page.views["timeline"].timeline
    for length in range(1, 13):
        page.views["what_if"].slider.setValue(length)
        assert line(page).values.max() < timeline.top == timeline.what_if_line.boundingRect().bottom()


def test_moving_the_slider_looks_at_no_segment_again(page: Any) -> None:
    """All that a move needs was prepared; how long one takes is measured in benchmarks/view.py."""
    panel, planner = page.views["what_if"], page.scope.what_if.planner
    held = dict(planner._effects)
    assert {(a, b) for length in range(1, 13) for a, b in planner.every(length)} <= set(held)
    for length in (1, 2, 3, 4, 6, 12, 5, 4, 3, 2):
        panel.slider.setValue(length)
        assert np.array_equal(line(page).values, drawn(planner, planner.every(length)))
    assert planner._effects == held


def test_operators_can_be_kept(page: Any, qtbot: QtBot, window: Window) -> None:
    panel, run = page.views["what_if"], page.scope.run
    panel.slider.setValue(1)
    plain = line(page).values.copy()
    assert [panel.kept.itemText(i) for i in range(panel.kept.count())] == [
        "nothing", "matmul", "attention", "matmul and attention"]  # fmt: skip
    panel.kept.setCurrentIndex(3)
    panel.kept.activated.emit(3)
    qtbot.waitUntil(lambda: bool(page.scope.what_if.frontier), timeout=20_000)
    base = Planner(run)
    planner = base.keeping(parse_keep("matmul,attention", base.operators))
    outcome = planner.outcome(planner.every(1))
    assert page.scope.view.keep == "matmul,attention" and panel.slider.value() == 1
    assert np.array_equal(line(page).values, drawn(planner, planner.every(1)))
    assert f"{bytes_text(outcome.cached_bytes)} of outputs kept" in panel.sentence.text()
    assert panel.code.toPlainText() == torch_code(planner, planner.every(1))
    assert "create_selective_checkpoint_contexts" in panel.code.toPlainText()
    assert page.scope.what_if.frontier[-1].peak_bytes == Search(planner).lowest().peak_bytes
    window.session.undo()
    assert page.scope.view.keep == "" and panel.kept.currentText() == "nothing"
    assert np.array_equal(line(page).values, plain)


def test_lanes_draw_the_plan_that_is_tried(page: Any, qtbot: QtBot) -> None:
    tree, note = page.views["lanes"].tree, page.views["lanes"].note
    assert tree.delegate.painter.plan is None and "dotted" not in note.text()
    page.views["what_if"].slider.setValue(4)
    qtbot.waitUntil(lambda: tree.delegate.painter.plan == page.scope.view.plan, timeout=5_000)
    assert note.text().endswith("dotted: with the plan tried")
    tried = tree.grab().toImage()
    page.views["what_if"].slider.setValue(0)
    plain = tree.grab().toImage()
    accent = sum(
        tried.pixel(x, y) != plain.pixel(x, y) for x in range(0, tried.width(), 2) for y in range(tried.height())
    )
    assert accent > 200  # pixels of the dotted outlines
    page.views["what_if"].slider.setValue(4)
    page.scope.look(keep="matmul")
    qtbot.wait(200)
    assert tree.delegate.painter.plan is None  # shapes do not know what operators put out
