"""The filter box, the second cursor and what lies between the two, on the real window."""

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest

from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.state.array_table import RawRole

MIB = 1024**2


def pixel_of(timeline, x, y):
    return timeline.mapFromScene(timeline.view.mapViewToScene(QPointF(x, y)))


def sizes(table):
    return [table.index(row, 0).data(RawRole) for row in range(table.rowCount())]


@pytest.fixture
def page(opened, samples):
    return opened(str(samples / "after.mstrata"))


def typed(qtbot, page, text):
    line = page.filter.line
    line.setFocus()
    line.clear()
    qtbot.keyClicks(line, text)
    qtbot.keyClick(line, Qt.Key.Key_Return)


def test_words_typed_restrict_table_stacks_and_chart_and_say_how_many_bytes(qtbot, page):
    typed(qtbot, page, "category:rematerialized >1MiB")
    run, cursor = page.scope.run, page.scope.view.cursor
    wanted = AllocationQuery(cursor, filter="category:rematerialized >1MiB")
    alive = page.views["alive"]
    alive.fill()
    assert sizes(alive.view.table) == run.allocations.bytes[wanted.select(run)].tolist()
    assert 'matching "category:rematerialized >1MiB"' in alive.caption.text()
    page.views["stacks"].fill()
    assert page.views["stacks"].model.tree.total_bytes == wanted.bytes(run)
    line = page.views["timeline"].timeline.matching_line.values
    assert int(line[cursor]) == wanted.bytes(run) and len(line) == run.n_events + 1
    assert "match" in page.filter.said.text() and "at the cursor" in page.filter.said.text()


def test_escape_empties_the_filter_and_undo_brings_it_back(qtbot, page):
    typed(qtbot, page, "silu")
    assert page.scope.view.filter == "silu"
    qtbot.wait(800)  # changes in quick succession are one step of undo
    qtbot.keyClick(page.filter.line, Qt.Key.Key_Escape)
    assert page.scope.view.filter == "" and page.views["timeline"].timeline.matching_line.values is None
    page.scope.session.undo()
    assert page.scope.view.filter == "silu" and page.filter.line.text() == "silu"


def test_words_that_make_no_sense_change_nothing_and_say_why(qtbot, page):
    typed(qtbot, page, "layer:1")
    typed(qtbot, page, ">lots")
    assert "is not a size" in page.filter.said.text()
    assert page.scope.view.filter in ("layer:1", "")  # what was typed before it is kept or was emptied by hand


def test_m_sets_the_mark_and_the_legend_shows_what_was_gained(qtbot, page):
    timeline, scope = page.views["timeline"].timeline, page.scope
    scope.look(cursor=0)
    timeline.setFocus()
    qtbot.keyClick(timeline, Qt.Key.Key_M)
    qtbot.keyClick(timeline, Qt.Key.Key_P)
    assert (scope.view.mark, scope.view.cursor) == (0, scope.run.peak_position)
    table = page.views["legend"].view.table
    titles = [table.headerData(c, Qt.Orientation.Horizontal) for c in range(table.columnCount())]
    assert titles[-1] == "since mark"
    gained = [table.index(row, len(titles) - 1).data(RawRole) for row in range(table.rowCount())]
    assert sum(gained) == scope.run.peak_bytes - scope.run.baseline_bytes
    assert page.filter.between.text().startswith("Mark to cursor: +")
    qtbot.keyClick(timeline, Qt.Key.Key_M)  # moves it here
    qtbot.keyClick(timeline, Qt.Key.Key_M)  # and takes it away
    assert scope.view.mark is None and not page.filter.within.isVisibleTo(page)


def test_what_was_made_between_and_is_still_alive(qtbot, page):
    scope = page.scope
    scope.look(mark=0, cursor=scope.run.peak_position)
    row = page.filter.within.findData("survived")
    page.filter.within.setCurrentIndex(row)
    page.filter.within.activated.emit(row)
    alive = page.views["alive"]
    alive.fill()
    allocations = scope.run.allocations
    first, last = 0, scope.run.peak_position
    made = ~allocations.before & (allocations.start - 1 >= first) & (allocations.start - 1 < last)
    expected = allocations.bytes[made & (allocations.end > last)]
    assert sizes(alive.view.table) == np.sort(expected)[::-1].tolist()
    assert "made from mark to cursor and still alive" in alive.caption.text()


def test_a_drag_with_shift_brushes_a_stretch(qtbot, page):
    timeline, scope = page.views["timeline"].timeline, page.scope
    a = pixel_of(timeline, float(scope.axis.x_of(scope.run.n_events * 0.2)), 20 * MIB)
    b = pixel_of(timeline, float(scope.axis.x_of(scope.run.n_events * 0.4)), 20 * MIB)
    viewport = timeline.viewport()
    before = scope.view.visible
    QTest.mousePress(viewport, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier, a)
    for step in range(1, 6):
        place = QPoint(a.x() + (b.x() - a.x()) * step // 5, a.y())
        move(viewport, place)
        qtbot.wait(15)
    QTest.mouseRelease(viewport, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier, b)
    assert scope.view.visible == before
    assert scope.view.mark is not None and scope.view.mark < scope.view.cursor
    assert scope.view.within == "alive"
    alive = page.views["alive"]
    alive.fill()
    query = AllocationQuery(alive_in=(scope.view.mark, scope.view.cursor))
    assert sizes(alive.view.table) == scope.run.allocations.bytes[query.select(scope.run)].tolist()


def move(viewport, place):
    from PySide6.QtGui import QMouseEvent
    from PySide6.QtWidgets import QApplication

    event = QMouseEvent(
        QMouseEvent.Type.MouseMove, QPointF(place), QPointF(viewport.mapToGlobal(place)), Qt.MouseButton.NoButton,
        Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier,
    )  # fmt: skip
    QApplication.sendEvent(viewport, event)


def test_keys_go_from_phase_to_phase_and_from_peak_to_peak(qtbot, page):
    timeline, scope = page.views["timeline"].timeline, page.scope
    timeline.setFocus()
    starts = [first for _, first, _ in scope.run.spans.phases()]
    scope.look(cursor=0)
    seen = []
    for _ in range(3):
        qtbot.keyClick(timeline, Qt.Key.Key_BracketRight)
        seen.append(scope.view.cursor)
    assert seen == [start for start in starts if start > 0][:3]
    qtbot.keyClick(timeline, Qt.Key.Key_BracketLeft)
    assert scope.view.cursor == seen[1]
    peaks = scope.local_peaks.tolist()
    assert scope.run.peak_position in peaks and len(peaks) > 1
    scope.look(cursor=0)
    peaks = [peak for peak in peaks if peak > 0]
    for expected in peaks:
        qtbot.keyClick(timeline, Qt.Key.Key_Period)
        assert scope.view.cursor == expected
    qtbot.keyClick(timeline, Qt.Key.Key_Comma)
    assert scope.view.cursor == peaks[-2]
