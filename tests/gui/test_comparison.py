"""Two files in the window: aligned by structure, with differences that close."""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip

from memstrata.capture.format.schema import Phase
from memstrata.viewer.analysis.diff import Diff
from memstrata.viewer.look.units import bytes_text
from memstrata.viewer.panels.compare_page import ComparePage
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.state.array_table import RawRole
from memstrata.viewer.state.view_state import COMPARE
from memstrata.viewer.window import Window

MIB = 1 << 20


def rows(table: Any) -> dict[str, tuple[int, ...]]:
    return {
        table.index(r, 0).data(): tuple(table.index(r, c).data(RawRole) for c in (1, 2, 3))
        for r in range(table.rowCount())
    }


def cut_by(page: ComparePage, title: str) -> None:
    """Choose a grouping in the box, as the keyboard does."""
    box = page.cut.box
    row = box.findText(title)
    assert row >= 0
    box.setFocus()
    while box.currentIndex() != row:
        QTest.keyClick(box, Qt.Key.Key_Down if box.currentIndex() < row else Qt.Key.Key_Up)


def test_two_files_open_straight_in_the_comparison(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    page = opened(*tapes)
    assert isinstance(page, ComparePage) and window.session.state.page == COMPARE
    assert [window.tabs.tabText(i) for i in range(window.tabs.count())] == [
        "plain.mstrata",
        "checkpointed.mstrata",
        "Compare",
    ]


def test_known_differences(opened: Any, tapes: tuple[str, str]) -> None:
    """Plain: 16 weights + 8 kept + 20 head. Checkpointed: nothing kept at the head, so 36."""
    page = opened(*tapes)
    assert page.answer.lines[0].text.startswith("Peak 44.0 MiB to 36.0 MiB: 8.00 MiB less")
    table = rows(page.views["differences"].table)
    assert table["activation"] == (8 * MIB, 0, -8 * MIB)
    assert table["parameter"] == (16 * MIB, 16 * MIB, 0)
    assert table["all"] == (44 * MIB, 36 * MIB, -8 * MIB)
    cut_by(page, "super-block")
    blocks = rows(page.views["differences"].table)
    assert blocks["super-block 0 (layers 0-1)"] == (12 * MIB, 8 * MIB, -4 * MIB)
    assert blocks["all"] == (44 * MIB, 36 * MIB, -8 * MIB)


def test_the_tables_are_the_analysis_and_close(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(*pair)
    diff: Diff = page.diff
    for title, wanted in (("category", diff.by_category), ("super-block", diff.by_super_block)):
        cut_by(page, title)
        shown = rows(page.views["differences"].table)
        assert shown.pop("all") == (diff.a.peak_bytes, diff.b.peak_bytes, diff.peak_difference_bytes)
        assert shown == {row.label: (row.a_bytes, row.b_bytes, row.difference_bytes) for row in wanted}
    slots = rows(page.views["slots"].table)
    assert slots["forward of super-block 0 (layers 0-3)"][2] < 0
    saved = {title: value for title, value, _ in page.views["saving"].rows}
    assert page.views["saving"].heading == "Saved"
    assert saved["Activations"] == diff.achieved_saving_bytes
    assert saved["Activations by shapes"] == diff.predicted_saving_bytes
    assert bytes_text(diff.achieved_saving_bytes) in page.views["saving"].accessibleName()


def test_both_curves_share_one_axis_of_phases_and_layers(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(*pair)
    structure, (a, b) = page.structure, page.pair
    for cell in structure.cells:
        for axis, (first, last) in ((structure.a, cell.a), (structure.b, cell.b)):
            inside = axis.x_of(np.arange(first + 1, last + 1))
            assert ((inside > cell.x0) & (inside < cell.x1)).all()
    kept = [(cell.phase, cell.layer) for cell in structure.cells if cell.layer >= 0]
    assert kept.count((Phase.forward, 5)) == kept.count((Phase.recompute, 5)) == kept.count((Phase.backward, 5)) == 1
    recompute = next(cell for cell in structure.cells if cell.phase == Phase.recompute)
    assert recompute.a[0] == recompute.a[1] and recompute.b[0] < recompute.b[1]
    assert structure.cells[-1].a[1] == a.n_events and structure.cells[-1].b[1] == b.n_events


def test_a_click_on_a_place_moves_both_cursors_there(opened: Any, window: Window, pair: tuple[str, str]) -> None:
    page = opened(*pair)
    number = next(i for i, cell in enumerate(page.structure.cells) if cell.label == "backward of layers.4")
    cell = page.structure.cells[number]
    where = page.chart.view.mapViewToScene(QPointF((cell.x0 + cell.x1) / 2, MIB))
    QTest.mouseClick(page.chart.viewport(), Qt.MouseButton.LeftButton, pos=page.chart.mapFromScene(where))
    state = window.session.state
    assert state.slot == number == page.chart.pair.cell
    for view, run, (first, last) in zip(state.views, page.pair, (cell.a, cell.b)):
        assert first <= view.cursor <= last
        assert run.curve[view.cursor] == run.curve[first : last + 1].max()
    window.undo_action.trigger()
    assert page.chart.pair.cell is None


def test_the_selection_goes_along_to_the_single_runs(opened: Any, window: Window, pair: tuple[str, str]) -> None:
    page = opened(*pair)
    table = page.views["differences"]
    row = next(r for r in range(table.table.rowCount()) if table.table.index(r, 0).data() == "gradient")
    table.setCurrentIndex(table.table.index(row, 0))
    for tab in (0, 1):
        window.tabs.setCurrentIndex(tab)
        single = window.content.currentWidget()
        assert isinstance(single, RunPage)
        alive = single.views["alive"].view.table  # type: ignore[attr-defined]
        shown = sum(alive.index(r, 0).data(RawRole) for r in range(alive.rowCount()))
        assert shown == (page.diff.a, page.diff.b)[tab].categories_at(single.scope.view.cursor)[2]


def test_warnings_stand_at_the_top(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[1], pair[0])
    wanted = [problem.text for problem in page.diff.warnings]
    assert any("never checkpointed" in text for text in wanted)
    assert page.warnings.isVisible()
    assert all(text in page.warnings.text() for text in wanted)
    assert page.warnings.y() < page.chart.mapTo(page, page.chart.rect().topLeft()).y()


def test_what_a_note_rounds_is_exact_on_hover(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(*pair)
    (bought,) = [size for problem in page.diff.warnings for size in problem.sizes]
    assert bytes_text(bought) in page.warnings.text()
    caption, shown = page.warnings.caption, f"{bytes_text(bought)}: {bought:,} bytes"
    place = caption.rect().center()
    QApplication.sendEvent(caption, QHelpEvent(QHelpEvent.Type.ToolTip, place, caption.mapToGlobal(place)))
    assert QToolTip.isVisible() and QToolTip.text() == shown
    QToolTip.hideText()


def test_hover_says_exact_bytes_of_both(opened: Any, tapes: tuple[str, str]) -> None:
    page = opened(*tapes)
    cell = next(cell for cell in page.structure.cells if cell.label == "forward of layers.1")
    text = page.chart.hover_text((cell.x0 + cell.x1) / 2)
    assert "forward of layers.1" in text and "plain.mstrata: 20.0 MiB (20,971,520 bytes)" in text


def test_places_cut_short_still_differ(opened: Any, tapes: tuple[str, str]) -> None:
    page = opened(*tapes)
    table = page.views["slots"].table
    names = {table.index(row, 0).data() for row in range(table.rowCount())}
    cut = {
        page.views["slots"].fontMetrics().elidedText(name, page.views["slots"].textElideMode(), 120) for name in names
    }
    assert len(cut) == len(names) > 2


def test_files_without_layers_compare_too(opened: Any, snapshots: Any) -> None:
    page = opened(str(snapshots / "torch24-linear-grad.pickle"), str(snapshots / "torch24-linear-nograd.pickle"))
    assert isinstance(page, ComparePage)
    assert rows(page.views["differences"].table)["all"] == (
        page.diff.a.peak_bytes, page.diff.b.peak_bytes, page.diff.peak_difference_bytes,
    )  # fmt: skip
    assert list(page.docks.tabs().values()) == [
        "Savings",
        "Waterfall",
        "Differences",
        "Appeared, gone, grown",
        "By stack",
        "All open runs",
    ]


def test_opening_and_closing_a_comparison_leaves_nothing(opened: Any, window: Window, tapes: tuple[str, str]) -> None:
    counts = []
    for _ in range(4):
        opened(*tapes)
        window.tabs.setCurrentIndex(0)
        QApplication.processEvents()
        for run in window.session.state.runs:
            button = window.tabs.tabButton(0, window.tabs.ButtonPosition.RightSide)
            assert run.name in button.accessibleName()
            button.click()
        for _ in range(3):
            QApplication.processEvents()
        assert not window.content.pages and window.content.currentWidget() is window.content.empty
        counts.append(len(QApplication.allWidgets()))
    assert len(set(counts[2:])) == 1
