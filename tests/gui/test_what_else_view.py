"""What else: changes on top of the plan that is tried, pipeline stages, and how the step grows with open recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from memstrata.viewer.analysis.parallel import Parallel
from memstrata.viewer.analysis.planner import Planner
from memstrata.viewer.analysis.scaling import scaling
from memstrata.viewer.analysis.what_else import stages, under_plan, without
from memstrata.viewer.look.units import bytes_text
from memstrata.viewer.window import Window


def cells(table: Any, column: int) -> list[str]:
    model = table.model()
    return [model.index(row, column).data() for row in range(model.rowCount())]


@pytest.fixture
def page(opened: Any, pair: tuple[str, str], window: Window) -> Any:
    page = opened(pair[0])
    page.bring_forward("what_else")
    return page


def test_the_changes_are_those_of_the_analysis(page: Any) -> None:
    panel, found = page.views["what_else"], without(page.scope.run)
    assert cells(panel.changes, 0) == [change.name for change in found] and len(found) == 3
    assert cells(panel.changes, 1) == [bytes_text(change.peak_bytes) for change in found]
    assert "step as recorded, peak 751 MiB" in panel.caption.text()
    panel.changes.clicked.emit(panel.changes.model().index(0, 0))
    assert page.scope.view.query is not None and page.scope.view.query.rows == found[0].query.rows


def test_they_stand_on_the_plan_that_is_tried(page: Any, qtbot: QtBot) -> None:
    panel, planner = page.views["what_else"], Planner(page.scope.run)
    outcome = planner.outcome(planner.every(1))
    page.scope.look(plan=outcome.plan.segments)
    qtbot.waitUntil(lambda: "boundaries offloaded" in cells(panel.changes, 0), timeout=20_000)
    found = without(page.scope.run, under_plan(planner, outcome))
    assert cells(panel.changes, 1) == [bytes_text(change.peak_bytes) for change in found]
    assert f"the plan that is tried, peak {bytes_text(outcome.peak_bytes)}" in panel.caption.text()


def test_stages_follow_their_two_numbers(page: Any) -> None:
    panel = page.views["what_else"]
    assert cells(panel.stages, 0) == ["0"]
    panel.pipeline.setValue(4)
    panel.microbatches.setValue(3)
    found = stages(page.scope.run, Parallel(pipeline=4, microbatches=3))
    assert cells(panel.stages, 2) == ["3", "3", "2", "1"]
    assert cells(panel.stages, 4) == [bytes_text(stage.peak_bytes) for stage in found]
    assert panel.pipeline.maximum() == 12


def test_one_recording_says_what_it_needs(page: Any) -> None:
    panel = page.views["what_else"]
    assert "two recordings of different batch size or sequence length are needed" in panel.grows.text()
    assert not panel.budget.isEnabled()


def test_open_recordings_of_other_sizes_say_how_the_step_grows(
    opened: Any, tmp_path: Path, qtbot: QtBot, window: Window
) -> None:
    paths = record_sizes(tmp_path)
    page = opened(paths[0])
    panel = page.views["what_else"]
    page.bring_forward("what_else")
    assert panel.fit is None
    opened(*paths)
    runs = window.session.state.runs
    window.session.set(window.session.state.__class__(runs, window.session.state.views, page=0))
    page = window.content.currentWidget()
    panel = page.views["what_else"]
    page.bring_forward("what_else")
    fit = scaling(runs)
    assert panel.fit is not None and panel.fit.parts == fit.parts
    assert cells(panel.parts, 0) == [part.name for part in fit.parts] and cells(panel.curve, 0)[-1] == "262,144"
    assert cells(panel.curve, 1)[0] == bytes_text(fit.bytes(2, 128))
    qtbot.keyClicks(panel.budget, "1GiB")
    qtbot.keyClick(panel.budget, Qt.Key.Key_Return)
    assert f"fit sequences of {fit.longest(2**30, 2):,} tokens with batch 2" in panel.grows.text()
    panel.budget.setText("lots")
    qtbot.keyClick(panel.budget, Qt.Key.Key_Return)
    assert panel.grows.text() == "'lots' is not a size such as 30GiB or 512MiB."


def record_sizes(folder: Path) -> list[str]:
    torch = pytest.importorskip("torch")
    from memstrata.capture import Recorder

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(3))

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = torch.softmax(layer(x) @ x.transpose(1, 2), -1) @ x
            return x

    paths = []
    for length in (64, 128):
        model, rows = Net(), torch.randn(2, length, 32)
        model(rows).sum().backward()
        paths.append(str(folder / f"{length}.mstrata"))
        with Recorder(paths[-1], model=model):
            model(rows).sum().backward()
    return paths
