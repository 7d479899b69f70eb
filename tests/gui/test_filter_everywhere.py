"""One filter and one range for all views, typed and brushed in the real window: what follows, and what says it does
not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from memstrata.capture.format.schema import Category
from memstrata.viewer.look.units import bytes_text
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.panels.whole_step import WholeStepNote
from memstrata.viewer.state.array_table import RawRole
from memstrata.viewer.state.lane_model import MEASURED

from .gestures import brush, typed

MIB = 1 << 20
LEFT, SHIFT = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier
WHOLE_STEP = ("findings", "prediction", "what_if", "what_else", "problems")


@pytest.fixture
def page(opened: Any, samples: Path) -> Any:
    return opened(str(samples / "before.mstrata"))


def lane_bytes(page: Any) -> list[int]:
    model = page.views["lanes"].tree.lane_model
    return [model.index(row, MEASURED).data(RawRole) for row in range(model.rowCount())]


def test_the_lanes_show_only_what_matches_and_grey_behind_it(page: Any, qtbot: QtBot) -> None:
    tree, run, cursor = page.views["lanes"].tree, page.scope.run, page.scope.view.cursor
    activations = frozenset((Category.activation, Category.rematerialized))
    picture = tree.grab().toImage()
    assert sum(lane_bytes(page)) == AllocationQuery(position=cursor, categories=activations).bytes(run)
    typed(qtbot, page, "mlp")
    wanted = AllocationQuery(position=cursor, categories=activations, filter="mlp")
    assert sum(lane_bytes(page)) == wanted.bytes(run) > 0
    assert page.views["lanes"].note.text().startswith('in colour: matching "mlp"; grey: the rest; ')
    filtered = tree.grab().toImage()
    typed(qtbot, page, "nonsense_zz")
    assert set(lane_bytes(page)) == {0}
    nothing = tree.grab().toImage()
    rect = tree.visualRect(tree.lane_model.index(0, 3))
    x, y = tree.span[0] + (tree.span[1] - tree.span[0]) // 3, rect.bottom() - 9
    place = tree.viewport().mapTo(tree, QPoint(x, y))
    colours = [image.pixelColor(place * image.devicePixelRatio()).name() for image in (picture, filtered, nothing)]
    assert colours[0] == colours[1] != colours[2] == tree.theme.rest
    qtbot.keyClick(page.filter.line, Qt.Key.Key_Escape)
    qtbot.wait(150)
    assert sum(lane_bytes(page)) == AllocationQuery(position=cursor, categories=activations).bytes(run)
    assert page.views["lanes"].note.text().startswith("full height")


def test_the_timeline_says_under_the_pointer_what_matches(page: Any, qtbot: QtBot) -> None:
    timeline, run = page.views["timeline"].timeline, page.scope.run
    x = float(page.scope.axis.x_of(run.peak_position + 0.5))
    assert "matching" not in timeline.hover_text(x, 0)
    typed(qtbot, page, "mlp")
    size = AllocationQuery(position=run.peak_position, filter="mlp").bytes(run)
    assert f"\nmatching: {size:,} bytes\n" in timeline.hover_text(x, 0)


def test_a_brushed_range_restricts_the_lanes_and_undo_gives_them_back(page: Any, window: Any, qtbot: QtBot) -> None:
    tree, run = page.views["lanes"].tree, page.scope.run
    before = lane_bytes(page)
    span = brush(qtbot, page, 0.03, 0.1)
    activations = frozenset((Category.activation, Category.rematerialized))
    inside = AllocationQuery(alive_in=span, categories=activations)
    assert sum(lane_bytes(page)) == inside.bytes(run)
    assert tree.lane_model.headerData(MEASURED, Qt.Orientation.Horizontal) == "in range"
    assert "alive anywhere from mark to cursor" in page.views["lanes"].note.text()
    page.scope.look(("within",), within="made")
    qtbot.wait(150)
    made = AllocationQuery(born=span, categories=activations)
    assert sum(lane_bytes(page)) == made.bytes(run) < inside.bytes(run)
    lanes = tree.lane_model.lanes
    starts = np.concatenate([lanes.shown(lane).rows.start for lane in lanes.outer])
    assert len(starts) and span[0] < starts.min() and starts.max() <= span[1]
    assert "made from mark to cursor" in page.views["lanes"].note.text()
    window.undo_action.trigger()
    window.undo_action.trigger()
    qtbot.wait(150)
    assert lane_bytes(page) == before


def test_the_allocators_map_dims_what_does_not_match_and_says_how_many_bytes_do(page: Any, qtbot: QtBot) -> None:
    panel, run = page.bring_forward("allocator"), page.scope.run
    qtbot.waitUntil(lambda: panel.map.layout_shown is not None, timeout=20_000)
    whole = panel.map.grab().toImage()
    typed(qtbot, page, "mlp")
    layout, mask = panel.map.layout_shown, run.filtered("mlp")
    held = int(layout.block_bytes[mask[layout.number]].sum())
    assert 0 < held < int(layout.block_bytes.sum())
    assert f'In full colour: {bytes_text(held)} in blocks matching "mlp".' in panel.caption.text()
    assert f"{held:,} bytes in blocks in full colour" in panel.caption.toolTip()
    picture = panel.map.grab().toImage()
    others = np.where(layout.number == page.scope.view.allocation, 0, layout.block_bytes)
    for block in (int((others * mask[layout.number]).argmax()), int((others * ~mask[layout.number]).argmax())):
        place = panel.map.boxes_of(block)[0].center().toPoint() + QPoint(0, 5)
        same = whole.pixelColor(place) == picture.pixelColor(place)
        assert same == bool(mask[layout.number[block]])
    typed(qtbot, page, "nonsense_zz")
    assert "In full colour: 0 B in blocks" in panel.caption.text()


def test_the_map_follows_the_range_too(page: Any, qtbot: QtBot) -> None:
    panel, run = page.bring_forward("allocator"), page.scope.run
    qtbot.waitUntil(lambda: panel.map.layout_shown is not None, timeout=20_000)
    span = brush(qtbot, page, 0.1, 0.3)
    page.scope.look(within="made")
    qtbot.waitUntil(lambda: "made from mark to cursor" in panel.caption.text())
    mask = AllocationQuery(born=span).mask(run)
    held = int(panel.map.layout_shown.block_bytes[mask[panel.map.layout_shown.number]].sum())
    assert held > 0 and f"{held:,} bytes in blocks in full colour" in panel.caption.toolTip()


def test_the_picture_of_allocations_says_how_many_match(page: Any, qtbot: QtBot) -> None:
    view, run = page.bring_forward("allocations"), page.scope.run
    qtbot.waitUntil(lambda: view.caption.text() != "")
    assert view.caption.text().startswith(f"{len(run.allocations):,} allocations: each lies on")
    typed(qtbot, page, "mlp")
    query = AllocationQuery(filter="mlp")
    count, size = int(query.mask(run).sum()), query.bytes(run)
    said = f'{len(run.allocations):,} allocations, {count:,} of them ({bytes_text(size)}) matching "mlp" in colour'
    assert view.caption.text().startswith(f"{said}: each") and view.caption.toolTip().startswith(
        f"{size:,} bytes in colour"
    )
    span = brush(qtbot, page, 0.2, 0.4)
    both = replace(query, alive_in=span)
    qtbot.waitUntil(lambda: f" {int(both.mask(run).sum()):,} of them" in view.caption.text())
    colours = view.chart.painter.colours if hasattr(view.chart.painter, "colours") else None
    if colours is not None:
        strong = len(colours.fills) // 2
        assert np.array_equal(colours.kind < strong, both.mask(run))


@pytest.mark.parametrize("key", WHOLE_STEP)
def test_what_is_of_the_whole_step_says_so_while_a_filter_or_a_range_is_in_force(
    page: Any, qtbot: QtBot, key: str
) -> None:
    view = page.bring_forward(key)
    note = view.findChild(WholeStepNote)
    assert not note.isVisible()
    typed(qtbot, page, "mlp")
    assert note.isVisible() and note.y() == 0 and note.height() == note.sizeHint().height()
    assert note.text() == 'For the whole step: the filter "mlp" does not apply here.'
    brush(qtbot, page, 0.2, 0.4)
    assert "and the range from mark to cursor do not apply here" in note.text()
    qtbot.keyClick(page.filter.line, Qt.Key.Key_Escape)
    page.scope.look(mark=None)
    assert not note.isVisible()
