"""What keeps the window alive while a file opens: pages shown in steps, a bar that moves rarely, work done ahead."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from memstrata.viewer.charts import band_item
from memstrata.viewer.model.peaks import reserved_peaks
from memstrata.viewer.panels.stages import Stages
from memstrata.viewer.window import Window

from .conftest import ready

MIB = 1 << 20


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """A snapshot in which the allocator asks for 20 MiB, then for as much again."""
    heap, events, time = 0x7000_0000, [], 1_000
    for number in range(6):
        place = heap + number * 6 * MIB
        if number in (0, 3):
            events.append(("segment_alloc", heap + number // 3 * 32 * MIB, 20 * MIB))
        events += [("alloc", place, 5 * MIB), ("free_requested", place, 5 * MIB), ("free_completed", place, 5 * MIB)]
    rows = [{"action": action, "addr": at, "size": size, "stream": 0, "time_us": time + 9 * i, "frames": []}
            for i, (action, at, size) in enumerate(events)]  # fmt: skip
    segments = [
        {"device": 0, "address": heap + 32 * MIB * number, "total_size": 20 * MIB, "stream": 0, "blocks": [],
         "allocated_size": 0, "active_size": 0, "requested_size": 0, "segment_type": "large", "is_expandable": False}
        for number in (0, 1)
    ]  # fmt: skip
    path = tmp_path / "reserving.pickle"
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [rows]}, 4))
    return str(path)


def test_what_the_first_frame_draws_was_searched_through_in_the_job(
    opened: Any, snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(band_item, "Peaks", None)  # nothing is left for the window to prepare
    page = opened(snapshot)
    run, line = page.scope.run, page.views["timeline"].timeline.reserved_line
    assert run.reserved is not None and run.reserved.tolist()[:2] == [0, 20 * MIB] and run.reserved[-1] == 40 * MIB
    assert line.values is run.reserved and run.once(reserved_peaks).curve is run.reserved
    assert not page.views["timeline"].grab().isNull()


def test_the_docks_are_shown_in_a_step_of_their_own_and_their_room_is_kept(
    window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    seen: list[tuple[bool, bool, int, int]] = []

    def look() -> None:
        page = window.content.page
        if page is not None:
            page.layout().activate()
            seen.append((page.answer.isVisible(), page.docks.isVisible(), page.answer.height(), page.filter.y()))

    window.session.changed.connect(look)
    window.open_paths([tapes[0]])
    qtbot.waitUntil(lambda: bool(seen), timeout=20_000)
    page = window.content.page
    assert page is not None
    ready(page, qtbot)
    look()
    assert seen[0][:2] == (True, False) and seen[-1][:2] == (True, True)
    assert seen[0][2:] == seen[-1][2:]  # nothing jumps
    assert page.docks.geometry().bottom() == page.rect().bottom()


def test_a_step_that_fails_does_not_keep_the_others_waiting(window: Window, qtbot: QtBot) -> None:
    stages, done = Stages(window), list[str]()
    stages.add(lambda: done.append("first"))
    stages.add(lambda: 1 // 0)
    stages.add(lambda: done.append("last"))
    with qtbot.captureExceptions() as failed:
        qtbot.waitUntil(lambda: stages.is_done, timeout=5_000)
    assert done == ["first", "last"] and [kind for kind, _, _ in failed] == [ZeroDivisionError]


def test_the_bar_moves_now_and_then_to_what_was_said_last(window: Window, qtbot: QtBot) -> None:
    gate, moves = threading.Event(), list[int]()
    bar, jobs = window.loading, window.jobs
    number = jobs.start("Opening", lambda job: gate.wait(10), lambda answer: None, lambda sentence: None)
    bar.bar.valueChanged.connect(moves.append)
    for hundredth in range(60):
        jobs.progressed.emit(number, hundredth / 100, "Reading a.pickle")
    assert bar.text.text() == "Reading a.pickle" and len(moves) <= 1
    qtbot.waitUntil(lambda: bar.bar.value() == 590, timeout=5_000)
    assert len(moves) <= 3
    jobs.progressed.emit(number, 0.6, "Pairing allocations of a.pickle")  # a new stage is said at once
    assert bar.text.text() == "Pairing allocations of a.pickle" and bar.bar.value() == 600
    jobs.progressed.emit(number, 0.7, "Pairing allocations of a.pickle")
    jobs.cancel(number)
    gate.set()
    qtbot.wait(150)
    assert not bar.isVisible() and bar.bar.value() == 600  # what was said before it ended comes too late


def test_a_view_is_made_in_one_step_and_painted_in_the_next(
    window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    made: list[tuple[str, bool]] = []

    def look() -> None:
        page = window.content.page
        if page is not None:
            page.made.connect(lambda key, view: made.append((key, page.views.slots[key].updatesEnabled())))

    window.session.changed.connect(look)
    window.open_paths([tapes[0]])
    qtbot.waitUntil(lambda: window.content.page is not None, timeout=20_000)
    page = window.content.page
    assert page is not None
    ready(page, qtbot)
    assert ("timeline", False) in made and not any(enabled for _, enabled in made)
    assert all(slot.updatesEnabled() for slot in page.views.slots.values())
