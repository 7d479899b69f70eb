"""A range, a filter and a selection restrict every table and tree of a run, on the real window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from memstrata.capture.format.schema import NONE
from memstrata.viewer.model.grouping import GROUPINGS, available
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.saved_lives import saved_lives
from memstrata.viewer.state.array_table import RawRole

from .gestures import brush

MIB = 1 << 20
LEFT, SHIFT, NO = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.NoModifier


@pytest.fixture
def page(opened: Any, samples: Path) -> Any:
    return opened(str(samples / "after.mstrata"))


def choose(qtbot: QtBot, page: Any, title: str) -> None:
    """With the keyboard, as a user who tabs to the switch and types the beginning of a line."""
    box = page.filter.within
    box.setFocus()
    while box.currentText() != title:
        before = box.currentIndex()
        qtbot.keyClick(box, Qt.Key.Key_Down)
        assert box.currentIndex() != before, title
    qtbot.wait(120)


def typed(qtbot: QtBot, page: Any, text: str) -> None:
    page.filter.line.setFocus()
    qtbot.keyClicks(page.filter.line, text)
    qtbot.keyClick(page.filter.line, Qt.Key.Key_Return)
    qtbot.wait(120)


def shown(view: Any) -> list[int]:
    return [view.table.index(row, 0).data(RawRole) for row in range(view.table.rowCount())]


def check_all(page: Any, query: AllocationQuery) -> None:
    """The allocations, the stacks, the groups and the saved tensors are those of the query."""
    run = page.scope.run
    rows = query.select(run)
    assert len(rows)
    assert shown(page.views["alive"].view) == run.allocations.bytes[rows].tolist()
    page.views["stacks"].fill()
    assert page.views["stacks"].model.tree.total_bytes == query.bytes(run)
    legend = page.views["legend"].view.table
    assert legend.headerData(1, Qt.Orientation.Horizontal) == "in range"
    assert sum(legend.index(row, 1).data(RawRole) for row in range(legend.rowCount())) == query.bytes(run)
    found, saved = saved_lives(run).allocation, run.recording.saved_tensors
    kept = np.flatnonzero((found != NONE) & query.mask(run)[found])
    assert sorted(shown(page.views["saved"].view)) == sorted(saved.storage_bytes[kept].tolist())


def test_a_brushed_range_restricts_everything_and_a_switch_says_how(page: Any, qtbot: QtBot) -> None:
    everything = len(shown(page.views["saved"].view))
    span = brush(qtbot, page, 0.2, 0.5)
    alive = AllocationQuery(alive_in=span)
    check_all(page, alive)
    choose(qtbot, page, "made from mark to cursor")
    made = AllocationQuery(born=span)
    check_all(page, made)
    assert made.bytes(page.scope.run) < alive.bytes(page.scope.run)
    choose(qtbot, page, "made from mark to cursor and still alive at its end")
    check_all(page, AllocationQuery(born=span, position=span[1]))
    typed(qtbot, page, "stack:forward >64KiB")
    check_all(page, AllocationQuery(born=span, position=span[1], filter="stack:forward >64KiB"))
    page.views["timeline"].timeline.setFocus()
    qtbot.keyClick(page.views["timeline"].timeline, Qt.Key.Key_Escape)
    qtbot.keyClick(page.filter.line, Qt.Key.Key_Escape)
    qtbot.wait(120)
    assert len(shown(page.views["saved"].view)) == everything


def test_undo_brings_the_range_back_and_redo_takes_it_away(page: Any, window: Any, qtbot: QtBot) -> None:
    span = brush(qtbot, page, 0.2, 0.5)
    qtbot.wait(800)  # changes in quick succession are one step
    typed(qtbot, page, ">1MiB")
    check_all(page, AllocationQuery(alive_in=span, filter=">1MiB"))
    timeline = page.views["timeline"].timeline
    timeline.setFocus()
    qtbot.keyClick(timeline, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    qtbot.wait(120)
    assert page.filter.line.text() == ""
    check_all(page, AllocationQuery(alive_in=span))
    qtbot.keyClick(timeline, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert page.scope.view.mark is None
    for _ in range(2):
        qtbot.keyClick(timeline, Qt.Key.Key_Y, Qt.KeyboardModifier.ControlModifier)
    qtbot.wait(120)
    check_all(page, AllocationQuery(alive_in=span, filter=">1MiB"))


@pytest.mark.parametrize("words", ["silu", "layer:1", "op:mm", "category:activation", ">1MiB", "stack:forward -silu"])
def test_the_filter_says_how_many_bytes_match(page: Any, qtbot: QtBot, words: str) -> None:
    """The groups show what matches, and the numbers beside the box are those of the query, exact on hover."""
    run, cursor = page.scope.run, page.scope.view.cursor
    typed(qtbot, page, words)
    every, here = AllocationQuery(filter=words), AllocationQuery(position=cursor, filter=words)
    assert 0 < len(every.select(run)) < len(run.allocations)
    assert f"{len(every.select(run)):,} match, " in page.filter.said.text()
    assert page.filter.said.toolTip().startswith(f"{every.bytes(run):,} byte")
    assert f"{here.bytes(run):,} byte" in page.filter.said.toolTip()
    legend = page.views["legend"].view.table
    assert sum(legend.index(row, 1).data(RawRole) for row in range(legend.rowCount())) == here.bytes(run)


def test_saved_tensors_say_how_long_they_were_kept(opened: Any, tapes: tuple[str, str]) -> None:
    """The step is written down event by event, a millisecond each: packed at 3 + 3 i, freed in backward."""
    page = opened(tapes[0])
    run, saved = page.scope.run, page.views["saved"].view.table
    titles = [saved.headerData(c, Qt.Orientation.Horizontal) for c in range(saved.columnCount())]
    assert {"storage", "fate", "module", "made by", "shape", "dtype", "kept for"} <= set(titles)
    row = saved.row_of(0)
    lives = saved_lives(run)
    packed, held = run.recording.saved_tensors.time[0], run.allocations
    free = run.recording.events.time[held.end[lives.allocation[0]] - 1]
    assert lives.kept[0] == pytest.approx((free - packed) / 1e9)
    assert saved.index(row, titles.index("kept for")).data() == f"{(free - packed) / 1e6:.1f} ms"


def test_the_table_of_saved_tensors_follows_the_selection(page: Any, qtbot: QtBot) -> None:
    run = page.scope.run
    page.scope.look(query=AllocationQuery(layer=2))
    qtbot.wait(120)
    lives, query = saved_lives(run), AllocationQuery(layer=2)
    wanted = np.flatnonzero((lives.allocation != NONE) & query.mask(run)[lives.allocation])
    assert sorted(page.views["saved"].view.table.rows.tolist()) == wanted.tolist()
    assert f"{len(wanted):,} saved tensors of " in page.views["saved"].caption.text()


@pytest.mark.parametrize("grouping", sorted(GROUPINGS))
def test_what_two_cursors_leave_between_them_in_every_grouping(page: Any, qtbot: QtBot, grouping: str) -> None:
    """M at the start of the step, P to the peak: what was made in between and is still alive, group by group, and what
    each group gained; both add up to the whole."""
    run, timeline = page.scope.run, page.views["timeline"].timeline
    assert {"category", "layer", "frame"} <= set(available(run))
    if grouping not in available(run):
        pytest.skip("this run cannot be grouped so")
    page.scope.look(grouping=grouping)
    timeline.setFocus()
    for key in (Qt.Key.Key_Home, Qt.Key.Key_M, Qt.Key.Key_P):
        qtbot.keyClick(timeline, key)
    choose(qtbot, page, "made from mark to cursor and still alive at its end")
    query = AllocationQuery(born=(0, run.peak_position), position=run.peak_position)
    check_all(page, query)
    legend, bands = page.views["legend"].view.table, page.scope.bands
    labels, alive = bands.grouping.labels, query.mask(run)
    for row in range(legend.rowCount()):
        group = legend.source_row(row)
        assert legend.index(row, 1).data(RawRole) == run.allocations.bytes[alive & (labels == group)].sum()
        before, after = bands.bytes_at(np.array([0, run.peak_position]))[group]
        assert legend.index(row, 2).data(RawRole) == after - before
    gained = sum(legend.index(row, 2).data(RawRole) for row in range(legend.rowCount()))
    assert gained == run.peak_bytes - run.baseline_bytes
