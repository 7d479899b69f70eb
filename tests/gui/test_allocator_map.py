"""The allocator's map in the real window: it is the replay at the cursor, and follows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from memstrata.capture.format.schema import Action


def shown(page: Any, qtbot: QtBot) -> Any:
    """The panel, in front."""
    panel = page.views["allocator"]
    for parent in (panel.parentWidget(), panel.parentWidget().parentWidget()):
        if hasattr(parent, "setCurrentWidget"):
            parent.setCurrentWidget(panel)
    qtbot.waitUntil(lambda: panel.isVisible() and panel.caption.text() != "")
    return panel


def test_the_map_steps_through_time(opened: Any, snapshots: Any, qtbot: QtBot) -> None:
    page = opened(str(snapshots / "torch26-train-from-start.pickle"))
    panel = shown(page, qtbot)
    run = page.scope.run
    assert "4,404 of 4,404 addresses as recorded" in panel.caption.text()
    for position in (0, run.n_events // 3, run.peak_position, run.n_events):
        page.scope.look(cursor=position)
        qtbot.waitUntil(lambda p=position: panel.map.layout_shown.reserved_bytes == int(run.reserved[p]))
        layout = panel.map.layout_shown
        alive = run.allocations.alive(position)
        assert set(layout.number.tolist()) == set(alive.tolist())
        assert {bar.row for bar in panel.map.bars} == set(range(len(layout.bytes)))
    last = int(np.flatnonzero(run.events.action == Action.alloc)[-1])
    row = int(np.flatnonzero(run.allocations.start == last + 1)[0])
    assert int(panel.map.layout_shown.block_address[panel.map.layout_shown.number == row].sum()) in (
        0,
        int(run.allocations.address[row]),
    )


def test_a_click_selects_the_block_and_says_what_it_is(opened: Any, snapshots: Any, qtbot: QtBot) -> None:
    page = opened(str(snapshots / "torch26-train-from-start.pickle"))
    panel = shown(page, qtbot)
    layout = panel.map.layout_shown
    block = int(np.argmax(layout.block_bytes))
    point = panel.map.boxes_of(block)[0].center()
    QTest.mouseClick(panel.map, Qt.MouseButton.LeftButton, pos=QPoint(round(point.x()), round(point.y())))
    assert page.scope.view.allocation == int(layout.number[block])
    text = panel.map.range_text(point)
    assert "Allocator segment of" in text and "free" in text
    QTest.keyClick(panel.map, Qt.Key.Key_Right)
    assert page.scope.view.allocation == int(layout.number[min(block + 1, len(layout.number) - 1)])


def test_without_an_allocator_it_is_an_estimate(opened: Any, samples: Any, qtbot: QtBot) -> None:
    panel = shown(opened(str(samples / "uniform.mstrata")), qtbot)
    assert "Estimate, kernels: cpu" in panel.caption.text()
    assert panel.map.layout_shown.reserved_bytes > 0


@pytest.mark.parametrize("name", ["npu26-two-devices", "torch25-empty", "torch26-three-pools-no-trace"])
def test_odd_files_say_what_they_are(opened: Any, snapshots: Any, qtbot: QtBot, name: str) -> None:
    panel = shown(opened(str(snapshots / f"{name}.pickle")), qtbot)
    expected = {
        "npu26-two-devices": "allocator of its own",
        "torch25-empty": "no device",
        "torch26-three-pools-no-trace": "As the file ends",
    }
    assert expected[name] in panel.caption.text()
