"""The allocator's map in the real window: it is the replay at the cursor, and follows it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from memstrata.capture.format.schema import Action
from memstrata.viewer.analysis.allocator import fast
from memstrata.viewer.state.jobs import Job
from memstrata.viewer.window import Window

from .conftest import settle


def shown(page: Any, qtbot: QtBot) -> Any:
    """The panel, in front."""
    panel = page.bring_forward("allocator")
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


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Makes a replay say how far it is every 100 operations, and wait at half until the event is set."""
    gate, progress = threading.Event(), Job.progress

    def waiting(job: Job, fraction: float, stage: str) -> None:
        progress(job, fraction, stage)
        while stage == "Replaying the allocator" and fraction >= 0.5 and not gate.wait(0.01):
            job.check()

    monkeypatch.setattr(fast, "_AT_ONCE", 100)
    monkeypatch.setattr(Job, "progress", waiting)
    return gate


def test_a_replay_says_how_far_it_is_and_the_window_goes_on(
    opened: Any, snapshots: Any, qtbot: QtBot, slow: threading.Event
) -> None:
    page = opened(str(snapshots / "torch26-train-from-start.pickle"))
    panel = page.bring_forward("allocator")
    qtbot.waitUntil(lambda: panel.work.isVisible() and panel.work.bar.value() >= 500, timeout=5_000)
    assert panel.work.text.text() == "Replaying the allocator" and panel.work.bar.value() < 520
    assert panel.history is None and panel.caption.text() == ""
    place = page.scope.run.n_events // 3
    page.scope.look(cursor=place)  # to move meanwhile does not begin it anew
    slow.set()
    qtbot.waitUntil(lambda: "4,404 of 4,404 addresses as recorded" in panel.caption.text(), timeout=20_000)
    assert not panel.work.isVisible()
    assert panel.map.layout_shown.reserved_bytes == int(page.scope.run.reserved[place])


def test_a_replay_can_be_stopped_and_begun_again(
    opened: Any, snapshots: Any, qtbot: QtBot, slow: threading.Event
) -> None:
    page = opened(str(snapshots / "torch26-train-from-start.pickle"))
    panel = page.bring_forward("allocator")
    qtbot.waitUntil(lambda: panel.work.isVisible() and panel.work.bar.value() >= 500, timeout=5_000)
    qtbot.mouseClick(panel.work.cancel, Qt.MouseButton.LeftButton)
    assert panel.work.text.text() == "Replaying the allocator: stopped" and not panel.work.bar.isVisible()
    qtbot.waitUntil(lambda: not any("Replaying" in thread.name for thread in threading.enumerate()), timeout=5_000)
    page.bring_forward("alive")
    page.bring_forward("allocator")
    page.scope.look(cursor=3)
    qtbot.wait(60)
    assert not panel.work.is_busy and panel.history is None and panel.work.isVisible()
    slow.set()
    assert panel.work.cancel.text() == "Begin again"
    qtbot.mouseClick(panel.work.cancel, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.history is not None, timeout=20_000)
    assert "4,404 of 4,404 addresses as recorded" in panel.caption.text()


def test_closing_the_window_does_not_wait_for_a_replay(
    opened: Any, window: Window, snapshots: Any, qtbot: QtBot, slow: threading.Event
) -> None:
    panel = opened(str(snapshots / "torch26-train-from-start.pickle")).bring_forward("allocator")
    qtbot.waitUntil(lambda: panel.work.bar.value() >= 500, timeout=5_000)
    window.close()
    window.tabs.close_front()
    settle()  # the panel is gone, and waited for its thread: it would wait for ever if that did not stop
    assert not any("Replaying" in thread.name for thread in threading.enumerate())
    assert not slow.is_set()
