"""What is larger than it was when it was laid out is shared anew: as at the start, or as the user left it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.window import LEAST, Window

from .conftest import Opener, ready
from .test_settings import Start, file, open_in, start

__all__ = ["file", "start"]  # fixtures


def heights(page: RunPage) -> dict[str, int]:
    return {key: page.views.slots[key].height() for key in ("timeline", "legend", "lanes", "alive", "stack")}


def grown(window: Window, width: int, height: int, qtbot: QtBot) -> None:
    window.resize(width, height)
    page = window.content.page
    assert page is not None
    ready(page, qtbot)
    qtbot.wait(50)


@pytest.mark.parametrize("size", [(1366, 700), (1600, 1000)])
@pytest.mark.parametrize("small", [(700, 450), (1100, 640)])
def test_a_page_laid_out_small_is_shared_as_one_that_was_large_from_the_start(
    window: Window, opened: Opener, samples: Path, qtbot: QtBot, size: tuple[int, int], small: tuple[int, int]
) -> None:
    window.resize(*size)
    page = opened(str(samples / "before.mstrata"))
    qtbot.wait(50)
    assert isinstance(page, RunPage)
    wanted = heights(page)
    window.tabs.close_front()
    window.resize(*small)
    page = opened(str(samples / "before.mstrata"))
    assert isinstance(page, RunPage)
    grown(window, *size, qtbot)
    assert heights(page) == pytest.approx(wanted, abs=3)
    rows = page.views["alive"].view
    assert rows.viewport().height() >= 3 * rows.rowHeight(0)


def test_what_the_user_has_moved_keeps_its_share(window: Window, opened: Opener, samples: Path, qtbot: QtBot) -> None:
    window.resize(1200, 900)
    page = opened(str(samples / "before.mstrata"))
    assert isinstance(page, RunPage)
    qtbot.wait(50)
    before = page.docks.docks["alive"].height()
    top = page.docks.docks["alive"].mapTo(page.docks, QPoint(200, 0)).y()
    tabs = min(bar.height() for bar in page.docks.tab_bars() if bar.isVisible())
    places = [QPoint(200, y) for y in range(top - tabs - 8, top + 4)]
    between = next(place for place in places if page.docks.childAt(place) is None)
    qtbot.mouseMove(page.docks, between)
    qtbot.mousePress(page.docks, Qt.MouseButton.LeftButton, pos=between)
    for step in range(1, 7):
        qtbot.mouseMove(page.docks, between - QPoint(0, 20 * step))
        qtbot.wait(5)
    qtbot.mouseRelease(page.docks, Qt.MouseButton.LeftButton, pos=between - QPoint(0, 120))
    qtbot.wait(50)
    moved = page.docks.docks["alive"].height()
    assert moved > before + 60
    share = moved / page.docks.height()
    grown(window, 1200, 1100, qtbot)
    assert page.docks.docks["alive"].height() / page.docks.height() == pytest.approx(share, abs=0.01)
    grown(window, 1200, 900, qtbot)
    assert page.docks.docks["alive"].height() == pytest.approx(moved, abs=4)


def test_a_remembered_share_holds_in_a_window_of_another_size(start: Start, samples: Path, qtbot: QtBot) -> None:
    window = start()
    page = open_in(window, str(samples / "before.mstrata"), qtbot)
    page.docks.give_height("alive", 400)
    page.docks.shares.touch()
    qtbot.wait(50)
    share = page.docks.docks["alive"].height() / page.docks.height()
    window.close()

    window = start()
    window.resize(900, 560)
    page = open_in(window, str(samples / "before.mstrata"), qtbot)
    grown(window, 1400, 1000, qtbot)
    assert page.docks.docks["alive"].height() / page.docks.height() == pytest.approx(share, abs=0.02)


def shows_something(page: RunPage) -> None:
    """The lanes are folded, the curves have 80 pixels of height, and two rows of the table are whole."""
    assert page.charts is not None and page.charts.folded and page.charts.is_foldable
    assert page.views.slots["lanes"].height() == 0 and not page.views["lanes"].tree.isVisible()
    assert page.views["timeline"].timeline.view.height() >= 80
    rows = page.views["alive"].view
    assert rows.rowViewportPosition(1) + rows.rowHeight(1) <= rows.viewport().height()


@pytest.mark.parametrize("name", ["before", "encoder-decoder"])
@pytest.mark.parametrize("larger", [[], [(1600, 1000)], [(1600, 1000), (1100, 700), (1366, 900)]])
def test_in_the_least_window_a_run_has_a_plot_and_rows(
    window: Window, opened: Opener, samples: Path, qtbot: QtBot, larger: list[tuple[int, int]], name: str
) -> None:
    sizes = [*larger, (LEAST.width(), LEAST.height())]
    window.resize(*sizes[0])
    page = opened(str(samples / f"{name}.mstrata"))
    assert isinstance(page, RunPage)
    for size in sizes:
        grown(window, *size, qtbot)
    shows_something(page)
    grown(window, 1600, 1000, qtbot)
    assert page.charts is not None and not page.charts.folded and page.views["lanes"].tree.isVisible()
    grown(window, *sizes[-1], qtbot)
    shows_something(page)


def test_lanes_fold_in_a_page_that_squeezes_its_docks(
    window: Window, opened: Opener, samples: Path, qtbot: QtBot
) -> None:
    page = opened(str(samples / "before.mstrata"))
    assert isinstance(page, RunPage) and page.charts is not None and not page.charts.folded
    window.setMinimumSize(1, 1)  # as a screen can be too small for the window
    grown(window, 760, 480, qtbot)
    assert page.charts.is_foldable and page.views.slots["lanes"].height() == 0
    assert page.views["timeline"].timeline.view.height() > 0


def test_folded_by_the_user_stays_folded(window: Window, opened: Opener, samples: Path, qtbot: QtBot) -> None:
    window.resize(1200, 900)
    page = opened(str(samples / "before.mstrata"))
    assert isinstance(page, RunPage) and page.charts is not None and not page.charts.folded
    qtbot.mouseClick(page.views["lanes"].fold, Qt.MouseButton.LeftButton)
    grown(window, 1200, 1100, qtbot)
    assert page.charts.folded and page.views.slots["lanes"].height() == 0
