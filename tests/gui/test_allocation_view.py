"""The picture of every allocation on the real window: hover, click, keys, filter, layouts, room."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtWidgets import QApplication, QToolButton

from memstrata.capture.format import files, schema
from memstrata.capture.format.schema import Category
from memstrata.viewer.charts.allocation_address import AddressPainter
from memstrata.viewer.charts.allocation_chart import ADDRESS, STACKED
from memstrata.viewer.charts.allocation_colours import allocation_colours
from memstrata.viewer.model.paints import group_paints
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.panels import allocation_view
from memstrata.viewer.state import ahead, scope

from .conftest import MIB, Tape

LAYOUTS = (STACKED, ADDRESS)


@pytest.fixture
def page(opened, samples):
    found = opened(str(samples / "before.mstrata"))
    found.bring_forward("allocations")
    QApplication.processEvents()
    return found


def shown(page, layout: str):
    panel = page.views["allocations"]
    panel.show_layout(layout)
    QApplication.processEvents()
    panel.chart.grab()
    panel.chart.item.finish()
    return panel.chart


def place_of(chart, row: int, share: float = 0.5):
    """A point inside an allocation: in the middle of its life, `share` of the way up."""
    a, axis = chart.run.allocations, chart.scope.axis
    position = int((a.start[row] + a.end[row]) // 2)
    x = float(axis.x_of(position + 0.5))
    if chart.layout_key == ADDRESS:
        low, high = chart.painter.layout.low[row], chart.painter.layout.low[row] + a.bytes[row]
    else:
        position = chart.painter.position_at(x)
        low, high = chart.painter.stacked.span(position, row)
    return x, float(low + (high - low) * share)


def pixel(chart, x: float, y: float) -> QPoint:
    """The pixel that covers the point."""
    at = chart.view.mapViewToScene(QPointF(x, y))
    return QPoint(int(at.x()), int(at.y()))


def large(chart) -> list[int]:
    """Allocations of 2 MiB and more that live for several events."""
    a = chart.run.allocations
    return np.flatnonzero((a.bytes >= 2 * MIB) & (a.end - a.start > 400)).tolist()[:40]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_hover_finds_every_large_allocation_and_says_what_it_is(page, layout) -> None:
    chart = shown(page, layout)
    assert len(large(chart)) >= 8
    for row in large(chart):
        for share in (0.1, 0.5, 0.9):
            point = place_of(chart, row, share)
            assert chart.allocation_at(*point)[1] == row
    category = chart.run.attribution.category
    row = next(r for r in large(chart) if category[r] == Category.activation)
    text = chart.hover_text(*place_of(chart, row))
    a = chart.run.allocations
    assert f"{int(a.bytes[row]):,} bytes" in text and f"address 0x{int(a.address[row]):x}" in text
    assert "activation" in text and "layers." in text and "made in hybrid.py:" in text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_click_selects_and_the_stack_panel_shows_its_stack(page, qtbot, layout) -> None:
    chart = shown(page, layout)
    row = large(chart)[-1]
    point = place_of(chart, row)
    qtbot.mouseClick(chart.viewport(), Qt.MouseButton.LeftButton, pos=pixel(chart, *point))
    view, a = page.scope.view, chart.run.allocations
    assert view.allocation == row and a.start[row] <= view.cursor < a.end[row]
    assert chart.item.selected == row and chart.hasFocus()
    facts = page.views["stack"].facts.text()
    assert f"{int(a.bytes[row]):,} bytes" in facts


def test_a_click_beside_everything_moves_the_cursor_and_selects_nothing(page, qtbot) -> None:
    chart = shown(page, STACKED)
    x = float(chart.scope.axis.x_of(0.5))
    qtbot.mouseClick(chart.viewport(), Qt.MouseButton.LeftButton, pos=pixel(chart, x, chart.top * 0.95))
    assert page.scope.view.allocation is None and page.scope.view.cursor <= 1


def test_free_memory_says_that_it_is_free(page) -> None:
    chart = shown(page, ADDRESS)
    end = float(chart.scope.axis.x_of(chart.run.n_events + 0.5))
    said = []
    for row in large(chart):
        y = place_of(chart, row)[1]
        chart.view.setYRange(y - MIB, y + MIB, padding=0)
        said.append(chart.hover_text(end, y))
    assert sum("nothing allocated here at this moment" in text for text in said) > len(said) / 2
    layout = chart.painter.layout
    assert len(layout.address) > 1
    gap = float(layout.y[0] + layout.bytes[0] + layout.y[1]) / 2
    x = float(chart.scope.axis.x_of(0.5))
    chart.view.setYRange(gap - MIB, gap + MIB, padding=0)
    assert "closed up" in chart.hover_text(x, gap)


def test_keys_are_those_of_the_timeline(page, qtbot) -> None:
    chart = shown(page, STACKED)
    chart.setFocus()
    before = page.scope.view.cursor
    qtbot.keyClick(chart, Qt.Key.Key_Left)
    assert page.scope.view.cursor == before - 1
    qtbot.keyClick(chart, Qt.Key.Key_Plus)
    low, high = page.scope.view.visible
    assert high - low < chart.run.n_events
    assert chart.view.viewRange()[0] == pytest.approx(list(page.scope.visible))
    qtbot.keyClick(chart, Qt.Key.Key_Up, Qt.KeyboardModifier.ShiftModifier)
    bottom, top = chart.view.viewRange()[1]
    assert top - bottom == pytest.approx(chart.top / 2)
    qtbot.keyClick(chart, Qt.Key.Key_0)
    assert page.scope.view.visible is None
    assert chart.view.viewRange()[1] == pytest.approx([0, chart.top])


def turned(chart, modifiers) -> None:
    where = QPointF(chart.viewport().rect().center())
    event = QWheelEvent(
        where, chart.viewport().mapToGlobal(where), QPoint(), QPoint(0, 240), Qt.MouseButton.NoButton, modifiers,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(chart.viewport(), event)


def test_the_wheel_zooms_time_and_with_control_the_height(page) -> None:
    chart = shown(page, ADDRESS)
    (x0, x1), (y0, y1) = chart.view.viewRange()
    turned(chart, Qt.KeyboardModifier.NoModifier)
    (a0, a1), (b0, b1) = chart.view.viewRange()
    assert a1 - a0 < x1 - x0 and (b0, b1) == (y0, y1)
    turned(chart, Qt.KeyboardModifier.ControlModifier)
    assert chart.view.viewRange()[0] == [a0, a1] and chart.view.viewRange()[1][1] - chart.view.viewRange()[1][0] < y1
    timeline = page.views["timeline"].timeline
    assert timeline.view.viewRange()[0] == pytest.approx([a0, a1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_filter_and_a_group_pale_the_rest(page, layout) -> None:
    chart = shown(page, layout)
    plain = _kinds(chart)
    page.scope.look(filter=">4MiB")
    chart.grab()
    matches = chart.run.allocations.bytes > 4 * MIB
    count = len(chart.scope.bands)
    assert 0 < matches.sum() < len(matches)
    assert (_kinds(chart) == np.where(matches, plain, plain + count)).all()
    page.scope.look(filter="", query=chart.scope.bands.query(4))
    chosen = chart.scope.bands.grouping.labels == 4
    assert (_kinds(chart) == np.where(chosen, plain, plain + count)).all()


def _kinds(chart):
    """Which colour each allocation has, in whatever way the painter keeps it."""
    if isinstance(chart.painter, AddressPainter):
        return chart.painter.colours.kind.copy()
    view, bands = chart.scope.view, chart.scope.bands
    mask = None
    if view.filter or view.query:
        mask = replace(view.query or AllocationQuery(), filter=view.filter).mask(chart.run)
    paints = group_paints(bands.grouping, chart.theme.dark)
    wanted = allocation_colours(bands.grouping.labels, paints, mask, chart.theme)
    assert np.array_equal(chart.painter._rgb[:-1], wanted.rgb[wanted.kind])
    return wanted.kind.copy()


def test_another_grouping_and_another_axis_show_at_once(page) -> None:
    chart = shown(page, ADDRESS)
    before = chart.grab().toImage()
    page.scope.look(grouping="layer")
    after = chart.grab().toImage()
    assert before != after and chart.painter.colours.kind.max() == len(chart.run.layers)
    page.scope.look(axis="events")
    chart.grab()
    assert chart.painter.axis.key == "events" and chart.x_axis.unit == "events"
    assert chart.view.viewRange()[0] == pytest.approx(list(page.scope.visible))


def test_the_cursor_and_the_mark_are_drawn(page) -> None:
    chart = shown(page, STACKED)
    page.scope.look(cursor=3000, mark=None)
    alone = chart.grab().toImage()
    page.scope.look(mark=1000)
    both = chart.grab().toImage()
    axis = chart.scope.axis
    assert chart.lines.cursor == (axis.x_of(3000), axis.x_of(3001)) and chart.lines.mark == axis.x_of(1000)
    x = pixel(chart, float(axis.x_of(1000)), 0).x()
    column = lambda image: [image.pixelColor(x + side, y).name() for side in (0, 1) for y in range(4, 60)]
    assert column(alone) != column(both)


def test_enlarged_it_takes_the_place_of_the_charts_until_another_tab_is_chosen(page) -> None:
    panel = page.views["allocations"]
    height = panel.height()
    panel.large.click()
    QApplication.processEvents()
    assert not page.views["timeline"].isVisible() and panel.height() > height + 200
    panel.large.click()
    assert page.views["timeline"].isVisible()
    panel.large.click()
    page.bring_forward("alive")
    assert page.views["timeline"].isVisible() and not panel.large.isChecked()


def test_nothing_is_laid_out_before_it_is_looked_at(opened, tapes) -> None:
    panel = opened(tapes[0]).views["allocations"]
    assert "chart" not in vars(panel)


def test_while_hidden_it_does_no_work_and_is_right_when_seen_again(page) -> None:
    chart = shown(page, STACKED)
    page.bring_forward("alive")
    page.scope.look(cursor=5, grouping="layer", allocation=3, visible=(2.0, 20.0))
    assert chart.lines.cursor[0] != chart.scope.axis.x_of(5)
    page.bring_forward("allocations")
    QApplication.processEvents()
    assert chart.lines.cursor[0] == chart.scope.axis.x_of(5) and chart.item.selected == 3
    assert chart.view.viewRange()[0] == pytest.approx(list(page.scope.visible))


def test_many_allocations_are_laid_out_in_a_job(opened, tapes, qtbot, monkeypatch) -> None:
    monkeypatch.setattr(allocation_view, "MANY", 1)
    found = opened(tapes[0])
    panel = found.views["allocations"]
    found.bring_forward("allocations")
    assert panel.work.text.text() == "Placing allocations" and panel.work.is_busy and panel.chart.painter is None
    assert panel.chart.hover_text(0.0, 0.0) == ""
    qtbot.waitUntil(lambda: panel.chart.painter is not None, timeout=5000)
    assert "allocations: each lies on" in panel.caption.text()


def test_what_is_likely_to_be_asked_for_is_worked_out_ahead(opened, tapes, qtbot, monkeypatch) -> None:
    monkeypatch.setattr(scope, "MANY", 1)
    found = opened(tapes[0])
    run = found.scope.run
    qtbot.waitUntil(lambda: "live" in vars(run) and not found.scope.ahead.running, timeout=5000)
    assert (ahead.first_frames,) in run._once
    assert {"category", "layer", "phase", "frame"} <= {key[1] for key in run._once if len(key) == 2}


def test_what_is_made_ready_is_said_at_the_foot_and_can_be_stopped(opened, tapes, qtbot, window, monkeypatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(scope, "MANY", 1)
    monkeypatch.setattr(ahead, "first_frames", lambda run: gate.wait(10))
    found = opened(tapes[0])
    note = window.background
    said = re.compile(r"Making other views ready: [1-9]\d?%")
    qtbot.waitUntil(lambda: note.isVisible() and bool(said.fullmatch(note.text.text())), timeout=5000)
    assert found.scope.ahead.running
    qtbot.mouseClick(note.findChild(QToolButton), Qt.MouseButton.LeftButton)
    assert not note.isVisible() and not found.scope.ahead.running
    gate.set()
    found.scope.ahead.shutdown()
    assert "live" not in vars(found.scope.run)  # the rest was called off


def test_a_file_whose_allocations_have_no_address_says_so(opened, tmp_path) -> None:
    tape = Tape(checkpointed=False)
    tape.rows = {name: [] for name in schema.TABLES}
    for number in range(4):
        tape.alloc(64 * (number + 1), 0, "nothing")
    files.write(tape.recording(), tmp_path / "empty.mstrata")
    found = opened(str(tmp_path / "empty.mstrata"))
    panel = found.views["allocations"]
    found.bring_forward("allocations")
    panel.show_layout(ADDRESS)
    assert panel.notice.isVisible() and "no address" in panel.notice.text() and not panel.chart.isVisible()
    panel.show_layout(STACKED)
    assert panel.chart.isVisible() and not panel.notice.isVisible()


def test_a_run_without_history_has_no_such_view(opened, snapshots) -> None:
    assert "allocations" not in opened(str(snapshots / "torch20-state-after-oom.pickle")).views


def test_dark_and_light_both_show_it(page, qapp, dark) -> None:
    chart = shown(page, ADDRESS)
    light = chart.grab().toImage()
    qapp.setPalette(dark)
    QApplication.processEvents()
    assert chart.theme.dark
    night = chart.grab().toImage()
    assert isinstance(night, QImage) and night.pixelColor(3, 3).lightness() < 80 < light.pixelColor(3, 3).lightness()
