"""The allocator's map in the real window: it is the replay at the cursor, and follows it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from memstrata.capture.format.schema import Action
from memstrata.viewer.analysis.allocator import fast
from memstrata.viewer.panels.pictures import png_bytes, svg_bytes
from memstrata.viewer.state.jobs import Job
from memstrata.viewer.window import Window

from .conftest import settle


def shown(page: Any, qtbot: QtBot) -> Any:
    """The panel, in front."""
    panel = page.bring_forward("allocator")
    qtbot.waitUntil(lambda: panel.isVisible() and panel.caption.text() != "")
    return panel


def click(shown_map: Any, block: int) -> None:
    point = shown_map.boxes_of(block)[0].center()
    QTest.mouseClick(shown_map, Qt.MouseButton.LeftButton, pos=QPoint(round(point.x()), round(point.y())))


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
    click(panel.map, block)
    assert page.scope.view.allocation == int(layout.number[block])
    text = panel.map.range_text(point)
    assert "Allocator segment of" in text and "free" in text
    order = panel.map.rows.block_order.tolist()
    QTest.keyClick(panel.map, Qt.Key.Key_Right)
    assert page.scope.view.allocation == int(layout.number[order[min(order.index(block) + 1, len(order) - 1)]])


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
        "torch26-three-pools-no-trace": "As the file ends: it has no event history",
    }
    assert expected[name] in panel.caption.text()


def test_an_allocator_of_its_own_shows_what_was_recorded_at_the_end(opened: Any, snapshots: Any, qtbot: QtBot) -> None:
    page = opened(str(snapshots / "npu26-expandable-unmap.pickle"))
    panel, run = shown(page, qtbot), page.scope.run
    assert "As recorded at the end of the file. npu:0 has an allocator of its own" in panel.caption.text()
    assert "The map does not follow the cursor." in panel.caption.text()
    layout, segments = panel.map.layout_shown, run.recording.allocator_segments
    assert layout.reserved_bytes == int(segments.bytes.sum()) == run.end_state.reserved_bytes
    assert int(layout.free_bytes.sum()) == run.end_state.cached_bytes and layout.expandable.all()
    block = int(layout.block_bytes.argmax())
    text = panel.map.range_text(panel.map.boxes_of(block)[0].center())
    size = int(run.allocations.bytes[layout.number[block]])
    assert f"({size:,} bytes)" in text and "Expandable segment of 440 MiB" in text and "stream 0x614a0f60" in text
    assert panel.map.range_text(QPointF(40, 5)).startswith(
        f"default pool, large, stream 0x614a0f60: {int(layout.bytes.max()):,} bytes in 1 range, expandable, "
    )
    click(panel.map, block)
    assert page.scope.view.allocation == int(layout.number[block])


def test_pools_and_streams_stand_under_headings_of_their_own(opened: Any, snapshots: Any, qtbot: QtBot) -> None:
    panel = shown(opened(str(snapshots / "torch21-inference-ten-streams.pickle")), qtbot)
    qtbot.waitUntil(lambda: panel.map.layout_shown is not None, timeout=20_000)
    layout, rows = panel.map.layout_shown, panel.map.rows
    assert len(rows.heads) == len(layout.kinds) >= 4
    tops = [top for _, top in rows.heads]
    for number, (key, mine) in enumerate(layout.kinds):
        below = tops[number + 1] if number + 1 < len(tops) else float("inf")
        boxes = [bar.box for bar in panel.map.bars if bar.row in set(mine.tolist())]
        assert boxes and all(tops[number] < box.top() and box.bottom() < below for box in boxes)
        said = panel.map.range_text(QPointF(40, tops[number] + 5))
        stream = f"stream 0x{key[2]:x}" if key[2] else "default stream"
        pool = f"default pool, {'small' if key[1] else 'large'}, {stream}: {int(layout.bytes[mine].sum()):,} bytes"
        assert said.startswith(pool)
        assert panel.map.range_text(boxes[0].center()).endswith(pool.split(":")[0])


def test_colours_are_explained_where_there_is_no_timeline(opened: Any, snapshots: Any, qtbot: QtBot) -> None:
    page = opened(str(snapshots / "torch26-three-pools-no-trace.pickle"))
    panel = shown(page, qtbot)
    qtbot.waitUntil(lambda: panel.map.layout_shown is not None, timeout=20_000)
    key, layout, bands = panel.key, panel.map.layout_shown, page.scope.bands
    assert key.isVisible() and key.line.places()
    for name, paint, size in key.line.groups:
        group = bands.grouping.names.index(name)
        of = bands.grouping.labels[layout.number] == group
        assert size == int(layout.block_bytes[of].sum()) and paint == panel.map.paint_of(int(layout.number[of][0]))
    assert sum(size for _, _, size in key.line.groups) == int(layout.block_bytes.sum())
    assert f"{key.line.groups[0][2]:,} bytes" in key.line.text_at(20)
    before = [name for name, _, _ in key.line.groups]
    key.box.setFocus()
    QTest.keyClick(key.box, Qt.Key.Key_Down)
    assert page.scope.view.grouping == key.box.currentData() != "frame"
    assert [name for name, _, _ in key.line.groups] != before


def test_a_picture_of_the_map_is_drawn_and_not_a_copy_of_the_screen(opened: Any, samples: Any, qtbot: QtBot) -> None:
    panel = shown(opened(str(samples / "uniform.mstrata")), qtbot)
    qtbot.waitUntil(lambda: panel.map.layout_shown is not None, timeout=20_000)
    panel.map.grab()
    assert b"<image" not in svg_bytes(panel.map, "Allocator")
    sharp = QImage.fromData(png_bytes(panel.map))
    rough = panel.map.grab().toImage().scaled(sharp.size())
    assert sharp.size() == panel.map.size() * 2 and sharp.convertToFormat(rough.format()) != rough


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
