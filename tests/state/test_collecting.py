"""Qt objects in a cycle of garbage are destroyed in the window's thread, whatever jobs do meanwhile."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QPushButton, QWidget
from pytestqt.qtbot import QtBot

from memstrata.viewer.state.collecting import CollectHere
from memstrata.viewer.state.jobs import Job, Jobs


@pytest.fixture
def jobs(qtbot: QtBot) -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.shutdown()
    assert gc.isenabled() and CollectHere.at_work == 0


def _allocate(job: Job) -> None:
    """As reading a file does: so many objects that Python wants to collect every now and then."""
    kept = []
    while True:
        kept.append([{}])
        if len(kept) > 2_000:
            kept.clear()
            job.check()


def test_a_widget_in_a_cycle_dies_in_its_own_thread(jobs: Jobs, qtbot: QtBot) -> None:
    died_in: list[int] = []
    jobs.start("Reading", _allocate, lambda _: None, lambda _: None)
    for _ in range(30):
        widget = QWidget()
        QPushButton(widget)
        widget.itself = widget  # type: ignore[attr-defined]
        weakref.finalize(widget, lambda: died_in.append(threading.get_ident()))
        del widget
        qtbot.wait(5)
    qtbot.waitUntil(lambda: len(died_in) == 30, timeout=20_000)
    assert set(died_in) == {threading.get_ident()}


def test_collection_is_automatic_again_once_the_thread_is_gone(jobs: Jobs, qtbot: QtBot) -> None:
    go = threading.Event()
    number = jobs.start("Waiting", lambda job: go.wait(20), lambda _: None, lambda _: None)
    assert not gc.isenabled()
    jobs.cancel(number)  # nobody waits for the answer; the thread still runs
    qtbot.wait(120)
    assert not gc.isenabled() and CollectHere.at_work == 1
    go.set()
    qtbot.waitUntil(gc.isenabled, timeout=20_000)
    assert CollectHere.at_work == 0


def test_two_at_work_wait_for_each_other(jobs: Jobs, qtbot: QtBot) -> None:
    others, go = Jobs(), threading.Event()
    jobs.start("First", lambda job: go.wait(20), lambda _: None, lambda _: None)
    others.start("Second", lambda job: None, lambda _: None, lambda _: None)
    others.shutdown()
    assert not gc.isenabled() and CollectHere.at_work == 1
    go.set()
    qtbot.waitUntil(gc.isenabled, timeout=20_000)


def test_who_switched_collection_off_finds_it_off(jobs: Jobs, qtbot: QtBot) -> None:
    gc.disable()
    try:
        jobs.start("Reading", lambda job: None, lambda _: None, lambda _: None)
        jobs.shutdown()
        assert not gc.isenabled()
    finally:
        gc.enable()
