"""A comparison opened and closed many times: nothing grows, nothing that is gone is spoken to. Three runs at once."""

from __future__ import annotations

import gc
import os
import resource
from pathlib import Path
from weakref import ref

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from memstrata.capture.format import files
from memstrata.viewer.model.grouping import preferred
from memstrata.viewer.panels.compare_page import ComparePage
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.state.loading import open_run
from memstrata.viewer.state.view_state import ViewState
from memstrata.viewer.state.view_state import opened as with_run
from memstrata.viewer.window import Window

from .conftest import Opener, ready, settle
from .test_settings import Start, file, start

__all__ = ["file", "start"]  # fixtures
TIMES, WARM = 50, 2
MIB = 1 << 20


def resident() -> int:
    """Bytes of this process in memory; where the system does not say, the most there ever were."""
    try:
        with open("/proc/self/statm") as told:
            return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def living(window: Window) -> tuple[int, int, int]:
    """(widgets of the process, Qt objects of the window, comparisons that Python knows)."""
    pages = sum(isinstance(thing, ComparePage) for thing in gc.get_objects())
    return len(QApplication.allWidgets()), len(window.findChildren(QObject)), pages


def test_a_comparison_opened_and_closed_fifty_times_leaves_nothing(
    window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    runs = [open_run(path) for path in tapes]
    both = ViewState()
    for run in runs:
        both = with_run(both, run, preferred(run))
    counts, sizes = [], []
    with qtbot.capture_exceptions() as said:
        for turn in range(TIMES):
            window.session.set(both)
            page = window.content.page
            assert isinstance(page, ComparePage) and page.pair == tuple(runs)
            if turn % 5 == 4:  # else it is closed before it is whole
                page.bring_forward(("changes", "by_stack", "runs")[turn // 5 % 3])
                page.stages.finish()
                QApplication.processEvents()
            window.session.set(ViewState())
            assert not window.content.pages
            del page
            if turn % 5 == 4:
                settle()
                counts.append(living(window))
                sizes.append(resident())
    assert not said
    assert len(counts) == 10 and len(set(counts[WARM:])) == 1 and counts[-1][2] == 0
    assert sizes[-1] - sizes[WARM] < 16 * MIB, [size // MIB for size in sizes]


def test_of_the_runs_that_were_closed_only_the_last_is_kept_to_come_back(
    window: Window, opened: Opener, tapes: tuple[str, str]
) -> None:
    runs = []
    for path in (*tapes, *tapes):
        opened(path)
        runs.append(ref(window.session.state.runs[0]))
        window.tabs.close_front()
        settle()
    assert [run() is not None for run in runs] == [False, False, False, True]


def ranks(samples: Path, folder: Path, which: tuple[int, ...] = (0, 1, 0)) -> list[str]:
    """So many ranks, each with the memory of one of the two real ones, of which the second needs more."""
    folder.mkdir()
    paths = []
    for rank, like in enumerate(which):
        recording = files.read(samples / "ranks" / f"rank-0{like}.mstrata").replace_meta(
            rank=rank, world_size=len(which), run_id="a"
        )
        paths.append(str(folder / f"rank-{rank:02d}.mstrata"))
        files.write(recording, paths[-1])
    return paths


def page_of(window: Window, paths: list[str], runs: int, qtbot: QtBot) -> ComparePage:
    window.open_paths(paths)
    qtbot.waitUntil(lambda: len(window.session.state.runs) == runs, timeout=20_000)
    page = window.content.page
    assert isinstance(page, ComparePage)
    ready(page, qtbot)
    qtbot.wait(30)
    return page


def test_the_arrangement_of_three_ranks_comes_back(start: Start, samples: Path, tmp_path: Path, qtbot: QtBot) -> None:
    ranks(samples, tmp_path / "ranks")
    window = start()
    page = page_of(window, [str(tmp_path / "ranks")], 3, qtbot)
    page.docks.move_to("runs", "right")
    window.arrangement.show_view("changes", False)
    ready(page, qtbot)
    qtbot.wait(30)
    kept = {key: (page.docks.area(key), dock.isHidden()) for key, dock in page.docks.docks.items()}
    assert kept["runs"] == ("right", False) and kept["changes"][1]
    window.close()

    page = page_of(start(), [str(tmp_path / "ranks")], 3, qtbot)
    assert {key: (page.docks.area(key), dock.isHidden()) for key, dock in page.docks.docks.items()} == kept
    table = page.views["runs"].table
    assert page.views["runs"].isVisible() and table.rowCount() == 3
    assert [run.recording.meta.rank for run in page.pair] == [0, 1]


def test_another_pair_of_three_keeps_the_arrangement(start: Start, samples: Path, tmp_path: Path, qtbot: QtBot) -> None:
    window = start()
    page = page_of(window, ranks(samples, tmp_path / "ranks"), 3, qtbot)
    page.docks.move_to("runs", "right")
    ready(page, qtbot)
    qtbot.wait(30)
    old = page.pair
    page.bar.sides[0].setCurrentIndex(2)
    page.bar.sides[0].activated.emit(2)
    other = window.content.page
    assert isinstance(other, ComparePage) and other is not page and other.pair != old
    ready(other, qtbot)
    qtbot.wait(30)
    assert other.docks.area("runs") == "right" and other.views["runs"].isVisible()


def test_curves_of_more_than_two_ranks_are_drawn(window: Window, samples: Path, tmp_path: Path, qtbot: QtBot) -> None:
    page = page_of(window, ranks(samples, tmp_path / "ranks", (0, 1, 0, 1)), 4, qtbot)
    others = [run for run in window.session.state.runs if run not in page.pair]
    assert page.bar.others.isVisible() and page.bar.others.isChecked() and len(others) == 2
    assert [run for run, _ in page.chart.others.lines] == others
    drawn = page.chart.grab().toImage()
    page.bar.others.setChecked(False)
    settle()
    assert not page.chart.others.lines and page.chart.grab().toImage() != drawn
    page.bar.others.setChecked(True)
    settle()
    assert page.chart.grab().toImage() == drawn


class Shown(QObject):
    """Notes each page that is shown although its run is closed."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self.window, self.stale = window, list[str]()
        for page in window.content.pages.values():
            page.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Show and isinstance(watched, RunPage) and not watched.scope.is_open:
            self.stale.append(watched.scope.run.name)
        return False


def test_files_closed_together_are_not_shown_one_after_the_other(
    opened: Opener, window: Window, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    """A view that is shown asks the session about its run: an exception in it ends the program."""
    opened(*tapes)
    for tab in (0, 1):
        window.tabs.setCurrentIndex(tab)
        page = window.content.page
        assert isinstance(page, RunPage)
        ready(page, qtbot)
        page.bring_forward("stacks")
        qtbot.wait(50)
    window.tabs.setCurrentIndex(2)
    shown = Shown(window)
    while window.session.can_undo:
        window.undo_action.trigger()
    assert not window.session.state.runs and window.content.currentWidget() is window.start and not shown.stale
