"""A run directory in the window: a tab for each rank, and the one that stands out against the one in the middle."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from memstrata.capture.format import files
from memstrata.viewer.panels.compare_page import ComparePage
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.sources import open_file
from memstrata.viewer.state.loading import MOST_RANKS, compared_ranks, open_paths
from memstrata.viewer.state.view_state import COMPARE, closed
from memstrata.viewer.window import Window, write_png


def opened(window: Window, qtbot: QtBot, folder: Path, count: int) -> None:
    window.open_paths([str(folder)])
    qtbot.waitUntil(lambda: len(window.session.state.runs) == count, timeout=20_000)
    QApplication.processEvents()


def spread(samples: Path, folder: Path, which: list[int]) -> Path:
    """A run directory of so many ranks, each with the memory of one of the two real ones."""
    real = [open_file(samples / "ranks" / f"rank-0{i}.mstrata") for i in range(2)]
    for rank, number in enumerate(which):
        recording = real[number].replace_meta(rank=rank, world_size=len(which), run_id="a")
        files.write(recording, folder / f"rank-{rank:02d}.mstrata")
    return folder


def test_two_ranks_open_in_compare_with_the_answer(window: Window, qtbot: QtBot, samples: Path) -> None:
    opened(window, qtbot, samples / "ranks", 2)
    state = window.session.state
    assert state.page == COMPARE
    assert [run.name for run in state.compared or ()] == ["rank-00.mstrata", "rank-01.mstrata"]
    page = window.content.currentWidget()
    assert isinstance(page, ComparePage)
    assert "never checkpointed" not in page.warnings.text()
    said = page.warnings.text()
    assert said.startswith("Warning: Rank 1 stands out: its peak is") and "Its input is 2 x 256 x 256" in said
    assert not window.message.isVisible()
    labels = [label for label in window.findChildren(QLabel) if "stands out" in label.text()]
    assert labels == [page.warnings.caption]  # once
    high, low = page.pair[1].peak_bytes, page.pair[0].peak_bytes
    exact = page.warnings.caption.toolTip()
    assert all(f": {size:,} bytes" in exact for size in (high, low, high - low)) and "stands out" not in exact
    assert [window.tabs.tabText(i) for i in range(window.tabs.count())] == [
        "rank-00.mstrata", "rank-01.mstrata", "Compare",
    ]  # fmt: skip


def test_the_pair_is_the_outlier_and_the_middle_and_not_the_last_two(
    window: Window, qtbot: QtBot, samples: Path, tmp_path: Path
) -> None:
    opened(window, qtbot, spread(samples, tmp_path, [0, 1, 0, 0]), 4)
    state = window.session.state
    assert [run.recording.meta.rank for run in state.runs] == [0, 1, 2, 3]
    assert [run.recording.meta.rank for run in state.compared or ()] == [0, 1]
    page = window.content.currentWidget()
    assert isinstance(page, ComparePage) and "than rank 0's" in page.warnings.text()
    after = closed(state, 1)
    assert [run.recording.meta.rank for run in after.compared or ()] == [2, 3]
    kept = closed(state, 3)
    assert [run.recording.meta.rank for run in kept.compared or ()] == [0, 1]
    window.session.set(after)
    page = window.content.currentWidget()  # of two that agree
    assert isinstance(page, ComparePage) and "stands out" not in page.warnings.text()


def test_ranks_that_agree_open_on_the_first(window: Window, qtbot: QtBot, samples: Path, tmp_path: Path) -> None:
    opened(window, qtbot, spread(samples, tmp_path, [0, 0, 0]), 3)
    assert window.session.state.page == 0
    assert isinstance(window.content.currentWidget(), RunPage)
    assert "The 3 ranks agree" in window.message.text.text()


def test_missing_and_damaged_ranks_are_said(window: Window, qtbot: QtBot, samples: Path, tmp_path: Path) -> None:
    spread(samples, tmp_path, [0, 1, 0, 0])
    (tmp_path / "rank-03.mstrata").write_bytes(b"PK\x03\x04half")
    opened(window, qtbot, tmp_path, 3)
    said = window.message.text.text()
    assert "rank-03.mstrata is damaged" in said
    assert "rank 3 is missing here" in said


def test_a_folder_without_recordings_is_one_sentence(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    window.open_paths([str(tmp_path)])
    qtbot.waitUntil(lambda: window.message.isVisible(), timeout=10_000)
    assert "without any .mstrata recording" in window.message.text.text()
    assert window.session.state.runs == ()


def test_more_ranks_than_tabs(samples: Path, tmp_path: Path) -> None:
    loaded = compared_ranks(open_paths([str(spread(samples, tmp_path, [0] * 9 + [1] + [0] * 2))]))
    ranks = [run.recording.meta.rank for run in loaded.runs]
    assert len(ranks) == MOST_RANKS
    assert 9 in ranks
    assert loaded.pair is not None and set(loaded.pair) <= set(loaded.runs)
    assert "8 of 12 ranks are open" in loaded.sentences[-1]


def test_three_files_and_a_picture(samples: Path, tmp_path: Path) -> None:
    loaded = open_paths([str(samples / f"{name}.mstrata") for name in ("uniform", "raised", "irregular")])
    assert len(compared_ranks(loaded).runs) == 3
    assert not loaded.ranks
    shutil.copytree(samples / "ranks", tmp_path / "ranks")
    write_png([str(tmp_path / "ranks")], str(tmp_path / "ranks.png"), (1100, 700))
    assert (tmp_path / "ranks.png").stat().st_size > 10_000


@pytest.mark.parametrize("back", [1, 2])
def test_undo_of_opening_a_run_directory(window: Window, qtbot: QtBot, samples: Path, back: int) -> None:
    opened(window, qtbot, samples / "ranks", 2)
    for _ in range(back):
        window.session.undo()
    assert window.session.state.runs == ()
    window.session.redo()
    assert window.session.state.page == COMPARE
