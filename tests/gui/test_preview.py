"""A large file shows all of its bytes before it is known what they are; its page takes that place, step by step."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from memstrata.viewer.look import palette
from memstrata.viewer.panels.preview_page import PreviewPage
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.state import loading
from memstrata.viewer.window import Window

from .conftest import ready

MIB = 1 << 20
EVENTS, ALIVE = 60_000, 10
PEAK = (ALIVE + 1) * MIB


@pytest.fixture
def large(tmp_path: Path) -> str:
    """By turns 1 MiB is allocated and what was allocated ten times before is freed: the peak is 11 MiB."""
    rows = [("alloc", number) for number in range(ALIVE)]
    for number in range((EVENTS - ALIVE) // 2):
        rows += [("alloc", number + ALIVE), ("free_completed", number)]
    events = [
        {"action": action, "addr": (number + 1) * MIB, "size": MIB, "stream": 0, "time_us": time, "frames": []}
        for time, (action, number) in enumerate(rows)
    ]
    path = tmp_path / "large.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [events]}, 4))
    return str(path)


class Gate:
    """Holds the job after its preview, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        work_out = loading._work_out

        def held(*about: Any) -> None:
            assert self.open.wait(20)
            work_out(*about)

        monkeypatch.setattr(loading, "_work_out", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def previewed(window: Window, qtbot: QtBot) -> PreviewPage:
    qtbot.waitUntil(lambda: isinstance(window.content.currentWidget(), PreviewPage), timeout=20_000)
    page = window.content.currentWidget()
    assert isinstance(page, PreviewPage)
    return page


def test_all_bytes_are_seen_before_the_page_and_the_page_follows(
    window: Window, large: str, gate: Gate, qtbot: QtBot
) -> None:
    window.open_paths([large])
    shown = previewed(window, qtbot)
    assert "Peak 11.0 MiB" in shown.answer.labels[0].text() and f"{PEAK:,} bytes" in shown.answer.labels[0].toolTip()
    assert shown.preview.n_events == EVENTS and shown.preview.peak_bytes == PEAK
    assert window.loading.isVisible() and window.status.text() == "Opening large.pickle"
    assert window.content.page is None and not window.session.state.runs
    image = shown.chart.grab().toImage()
    column = [image.pixelColor(image.width() * 3 // 4, y) for y in range(image.height())]
    assert column.count(QColor(palette.neutral(False))) > shown.chart.height() // 2
    gate.open.set()
    qtbot.waitUntil(lambda: isinstance(window.content.currentWidget(), RunPage), timeout=20_000)
    page = window.content.page
    assert isinstance(page, RunPage)
    ready(page, qtbot)
    assert window.content.preview is None and not window.content.findChildren(PreviewPage)
    assert page.scope.run.peak_bytes == PEAK and page.docks.isVisible()


def test_the_page_of_a_large_run_is_made_in_one_step_and_shown_in_the_next(
    window: Window, large: str, qtbot: QtBot
) -> None:
    seen = list[tuple[int, bool, bool]]()

    def look(*_: object) -> None:
        pages = list(window.content.pages.values())
        seen.append((len(pages), window.content.page is not None, pages[0].stages.is_done))

    window.session.changed.connect(look)
    window.open_paths([large])
    qtbot.waitUntil(lambda: bool(seen), timeout=20_000)
    assert seen == [(1, False, False)]
    qtbot.waitUntil(lambda: window.content.page is not None, timeout=5_000)
    page = window.content.page
    assert isinstance(page, RunPage)
    ready(page, qtbot)
    timeline = page.views["timeline"]
    assert timeline is not None and timeline.isVisible() and timeline.width() > 400


def test_called_off_the_window_is_as_before(window: Window, large: str, gate: Gate, qtbot: QtBot) -> None:
    before = window.status.text()
    window.open_paths([large])
    previewed(window, qtbot)
    qtbot.mouseClick(window.loading.cancel, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.content.currentWidget() is window.start, timeout=5_000)
    gate.open.set()
    assert window.content.preview is None and window.status.text() == before and not window.session.state.runs


def test_called_off_beside_another_that_opens_it_is_not_shown_any_more(
    window: Window, large: str, gate: Gate, qtbot: QtBot
) -> None:
    other = Path(large).with_name("other.pickle")
    other.write_bytes(Path(large).read_bytes())
    window.open_paths([str(other)])
    assert previewed(window, qtbot).preview.name == "other.pickle"
    window.open_paths([large])
    qtbot.waitUntil(lambda: previewed(window, qtbot).preview.name == "large.pickle", timeout=20_000)
    qtbot.mouseClick(window.loading.cancel, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.content.currentWidget() is window.start, timeout=5_000)
    assert len(window.jobs.running) == 1 and window.loading.isVisible()
    gate.open.set()
    qtbot.waitUntil(lambda: window.content.page is not None, timeout=20_000)
    page = window.content.page
    assert isinstance(page, RunPage) and page.scope.run.name == "other.pickle" and window.content.preview is None
    ready(page, qtbot)


def test_what_fails_after_the_preview_leaves_a_sentence_and_the_start(
    window: Window, large: str, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(loading, "_work_out", fail)
    window.open_paths([large])
    qtbot.waitUntil(window.message.isVisible, timeout=20_000)
    qtbot.waitUntil(lambda: window.content.preview is None, timeout=5_000)
    assert window.content.currentWidget() is window.start
    assert "not enough memory" in window.message.text.text()


def test_whoever_looks_at_a_run_is_not_disturbed(
    window: Window, opened: Any, tapes: tuple[str, str], large: str, gate: Gate, qtbot: QtBot
) -> None:
    gate.open.set()
    first = opened(tapes[0])
    found = list[object]()
    window.jobs.found.connect(lambda number, part: found.append(part))
    window.open_paths([large])
    qtbot.waitUntil(lambda: bool(found), timeout=20_000)
    assert window.content.currentWidget() is first and window.content.preview is None
    qtbot.waitUntil(lambda: len(window.session.state.runs) == 2, timeout=20_000)
    qtbot.waitUntil(lambda: window.content.currentWidget() is not first, timeout=20_000)
    page = window.content.page
    assert page is not None
    ready(page, qtbot)


def test_the_preview_follows_the_theme(
    window: Window, large: str, gate: Gate, dark: QPalette, qapp: QApplication, qtbot: QtBot
) -> None:
    window.open_paths([large])
    shown = previewed(window, qtbot)
    light = shown.chart.backgroundBrush().color().lightness()
    qapp.setPalette(dark)
    qtbot.waitUntil(lambda: shown.chart.backgroundBrush().color().lightness() < light // 2, timeout=5_000)
    gate.open.set()
    qtbot.waitUntil(lambda: window.content.page is not None, timeout=20_000)
    page = window.content.page
    assert page is not None
    ready(page, qtbot)
