"""Findings and coverage in the window: what is listed is what the analysis says, and a row leads to its allocations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Category, MarkKind, Phase
from memstrata.viewer.analysis.findings import findings
from memstrata.viewer.analysis.steps import Remainder, StepFigures, steps_of
from memstrata.viewer.look.units import bytes_text, exact_bytes_text
from memstrata.viewer.model.run import Run
from memstrata.viewer.panels.status import status_lines, status_parts
from memstrata.viewer.state.array_table import RawRole
from memstrata.viewer.state.coverage_text import coverage_lines, outside_exactly, outside_sentence, step_columns
from memstrata.viewer.state.finding_tables import device_times, layer_columns
from memstrata.viewer.state.loading import open_run


def click(view: Any, row: int, qtbot: QtBot, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    place = view.visualRect(view.model().index(row, 1)).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, modifier, place)


@pytest.fixture
def kept(opened: Any, with_findings: Path) -> Any:
    """A step that kept 15 MiB that no backward asked for."""
    return opened(str(with_findings))


def test_findings_are_listed_with_bytes_what_and_advice(kept: Any) -> None:
    found = findings(kept.scope.run)
    assert list(kept.docks.tabs().values())[:4] == ["Groups", "Lanes", "Alive here", "Findings"]
    panel = kept.views["findings"]
    kept.bring_forward("findings")
    table = panel.view.table
    rows = [[table.index(row, column).data() for column in range(3)] for row in range(table.rowCount())]
    assert rows == [[bytes_text(one.bytes), one.text, one.suggestion] for one in found]
    assert {one.code: one.bytes for one in found} == {"saved_never_used": 15 << 20, "alive_after_step": 15 << 20}
    assert table.index(0, 0).data(Qt.ItemDataRole.ToolTipRole) == exact_bytes_text(15 << 20)
    said = f"15.0 MiB: {exact_bytes_text(15 << 20)}"
    assert said in table.index(0, 1).data(Qt.ItemDataRole.ToolTipRole) and said in panel.whole.toolTip()
    assert panel.whole.isVisible() and panel.whole.text() == f"{found[0].text} {found[0].suggestion}"


def test_a_click_on_a_finding_goes_to_its_allocations(kept: Any, window: Any, qtbot: QtBot) -> None:
    one = findings(kept.scope.run)[1]
    panel = kept.views["findings"]
    kept.bring_forward("findings")
    kept.scope.look(cursor=3)
    click(panel.view, 1, qtbot)
    view = kept.scope.view
    assert view.cursor == one.query.position and view.query == replace(one.query, position=None)
    assert kept.docks.front == "alive"
    qtbot.waitUntil(lambda: kept.views["alive"].view.table.rowCount() == len(one.query.rows or ()), timeout=2_000)
    shown = kept.views["alive"].view.table
    assert sum(shown.index(row, 0).data(RawRole) for row in range(shown.rowCount())) == one.bytes
    window.session.undo()
    assert kept.scope.view.cursor == 3 and kept.scope.view.query is None


def test_arrows_go_through_findings_and_enter_follows(kept: Any, qtbot: QtBot) -> None:
    panel = kept.views["findings"]
    kept.bring_forward("findings")
    before = kept.scope.view
    panel.view.setFocus()
    panel.view.setCurrentIndex(panel.view.table.index(0, 0))
    qtbot.keyClick(panel.view, Qt.Key.Key_Down)
    found = findings(kept.scope.run)
    assert panel.whole.text() == f"{found[1].text} {found[1].suggestion}"
    assert kept.scope.view == before and kept.docks.front == "findings"
    click(panel.view, 0, qtbot, Qt.KeyboardModifier.ControlModifier)  # rows chosen to be copied lead nowhere
    assert kept.scope.view == before and kept.docks.front == "findings"
    panel.view.setCurrentIndex(panel.view.table.index(1, 0))
    qtbot.keyClick(panel.view, Qt.Key.Key_Return)
    assert kept.scope.view.cursor == found[1].query.position


def test_without_findings_the_tab_says_so(opened: Any, samples: Path) -> None:
    page = opened(str(samples / "uniform.mstrata"))
    assert not findings(page.scope.run)
    panel = page.views["findings"]
    page.bring_forward("findings")
    assert "Nothing stands out" in panel.caption.text() and not panel.view.isVisible()


def test_a_file_without_history_has_no_findings_tab(opened: Any, snapshots: Path) -> None:
    page = opened(str(snapshots / "torch20-state-after-oom.pickle"))
    assert "findings" not in page.views and "what_if" not in page.views and "prediction" not in page.views
    assert page.views["problems"].text.text().startswith("Coverage: ")


def test_the_coverage_line_follows_the_cursor(opened: Any, tapes: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(tapes[0])
    run, label = page.scope.run, page.views["problems"].text
    page.bring_forward("problems")
    assert label.text().splitlines()[0] == "\n".join(coverage_lines(run, run.peak_position)).splitlines()[0]
    assert "Step: 40.0 ms unrecorded, 50.0 ms recorded, 25.0% more." in label.text()
    page.scope.look(cursor=0)
    qtbot.waitUntil(lambda: label.text() == "\n".join(coverage_lines(run, 0)), timeout=2_000)


def two_steps(recording: Recording) -> Recording:
    """The recording with its one step told as two: its forward, and the rest."""
    spans, steps = recording.spans, recording.steps
    start, end = int(spans.start_time.min()), int(spans.end_time.max())
    middle = int(spans.start_time[(spans.module == NONE) & (spans.phase == Phase.backward)][0])
    made = type(steps)(
        **{
            name: np.array(values, getattr(steps, name).dtype)
            for name, values in {
                "index": [3, 4], "start_time": [start, middle], "end_time": [middle, end], "recorded": [True, True],
                "tokens": [100, 100], "loss": [1.0, 2.0],
            }.items()
        }
    )  # fmt: skip
    return replace(recording, steps=made)


def test_several_steps_are_a_table_of_their_own(tapes: tuple[str, str]) -> None:
    run = Run(two_steps(open_run(tapes[0]).recording))
    steps = steps_of(run)
    columns = {column.title: column for column in step_columns(steps)}
    assert [columns["step"].text(row) for row in (0, 1)] == ["3 recorded", "4 recorded"]
    # forward: 16 MiB of weights, 8 kept, 20 for the head; backward: a gradient of 1 is made before 2 are given back
    assert [columns["peak"].text(row) for row in (0, 1)] == ["44.0 MiB", "25.0 MiB"]
    assert [columns["alive at its end"].text(row) for row in (0, 1)] == ["24.0 MiB", "20.0 MiB"]
    assert [columns["growth"].text(row) for row in (0, 1)] == ["-", "-4.00 MiB"]


def test_a_step_in_the_window_leads_to_its_peak(
    opened: Any, tapes: tuple[str, str], tmp_path: Path, qtbot: QtBot
) -> None:
    files.write(two_steps(open_run(tapes[0]).recording), tmp_path / "steps.mstrata")
    page = opened(str(tmp_path / "steps.mstrata"))
    panel = page.views["problems"]
    page.bring_forward("problems")
    click(panel.steps, 1, qtbot)
    assert page.scope.run.curve[page.scope.view.cursor] == 25 << 20
    assert page.docks.front == "alive"


def test_device_time_of_layers_and_phases_is_shown_where_it_was_measured(tapes: tuple[str, str]) -> None:
    plain = open_run(tapes[0])
    assert device_times(plain) is None and "device time" not in [c.title for c in layer_columns(plain)]
    spans = plain.recording.spans
    forward = (spans.module == NONE) & (spans.phase == Phase.forward)
    time = np.where(forward, 7_000_000, np.where(spans.module >= 0, 1_000_000, NONE)).astype(np.int64)
    run = Run(replace(plain.recording, spans=replace(spans, device_time=time)))
    assert device_times(run).tolist() == [2_000_000] * 4  # forward and backward, a millisecond each
    column = next(c for c in layer_columns(run) if c.title == "device time")
    assert [column.text(row) for row in range(5)] == ["2.00 ms"] * 4 + ["-"]
    assert "Time on the device: forward 7.00 ms." in coverage_lines(run, 0)
    several = Run(two_steps(run.recording))  # the first one, the forward, has the peak
    assert device_times(several).tolist() == [1_000_000] * 4
    assert "Time on the device: forward 7.00 ms." in coverage_lines(several, 0)
    backward = (spans.module == NONE) & (spans.phase == Phase.backward)
    later = np.where(backward, 5_000_000, NONE).astype(np.int64)
    several = Run(two_steps(replace(plain.recording, spans=replace(spans, device_time=later))))
    assert not any("Time on the device" in line for line in coverage_lines(several, 0))


def test_memory_outside_the_allocator_is_said_where_the_device_was_asked(tapes: tuple[str, str]) -> None:
    plain = open_run(tapes[0]).recording
    row = next(i for i in range(len(plain.strings)) if plain.strings[i] == "Model")
    named = replace(plain.meta, has_reserved=True, devices=(replace(plain.meta.devices[0], name="Model"),))
    times = plain.events.time[[2, 5]]
    marks = type(plain.marks)(
        kind=np.full(2, MarkKind.device_memory, np.uint8), time=times, event=np.full(2, NONE, np.int64),
        text=np.full(2, row, np.int32), value=np.array([96 << 20, 80 << 20], np.float64),
    )  # fmt: skip
    run = Run(replace(plain, meta=named, marks=marks))
    assert run.reserved is not None and not run.reserved.any()  # so all of it is outside
    assert outside_sentence(run).endswith(": up to 96.0 MiB, 80.0 MiB last.")
    assert outside_exactly(run) == "96.0 MiB: 100,663,296 bytes\n80.0 MiB: 83,886,080 bytes"
    assert not outside_exactly(Run(plain))
    assert "outside the allocator up to 96.0 MiB" in status_parts(run, 0)
    assert "outside the allocator up to 96.0 MiB: 100,663,296 bytes" in status_lines(run)
    assert not outside_sentence(Run(plain)) and not any("outside" in part for part in status_parts(Run(plain), 0))


def test_what_a_step_left_behind_is_exact_on_hover() -> None:
    left = (
        Remainder(Category.activation, "train.py:6 forward", (6 << 10) + 7),
        Remainder(Category.input, "a.py:1", -8),
    )
    step = StepFigures(1, True, 1.0, None, None, growth_bytes=6143, remainders=left)
    column = next(column for column in step_columns([step]) if column.title == "left behind")
    assert column.text(0) == "activation +6.01 KiB at train.py:6 forward"
    assert column.hint is not None and column.hint(0) == "activation 6,151 bytes at train.py:6 forward"
