"""Files whose names are alike, open together: they can be told apart wherever they are named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QStyleOptionTab, QStyleOptionViewItem, QTableView

from memstrata.viewer.panels.content import fair_share
from memstrata.viewer.window import LEAST, Window


@pytest.fixture
def namesakes(tapes: tuple[str, str], tmp_path: Path) -> tuple[str, str]:
    """The same name in two folders."""
    paths = [tmp_path / folder / "run.mstrata" for folder in "ab"]
    for path, tape in zip(paths, tapes, strict=True):
        path.parent.mkdir()
        shutil.copy(tape, path)
    return str(paths[0]), str(paths[1])


def test_files_of_one_name_are_shown_with_their_folders(
    opened: Any, window: Window, namesakes: tuple[str, str]
) -> None:
    opened(namesakes[0])
    assert window.tabs.tabText(0) == "run.mstrata" and window.windowTitle().startswith("run.mstrata")
    page = opened(namesakes[1])
    assert [window.tabs.tabText(n) for n in (0, 1)] == ["a/run.mstrata", "b/run.mstrata"]
    assert window.windowTitle().startswith("a/run.mstrata and b/run.mstrata")
    assert "a/run.mstrata: " in window.status.text() and "b/run.mstrata: " in window.status.text()
    assert [name.text() for name in page.bar.names] == ["a/run.mstrata", "b/run.mstrata"]
    assert [Path(path).name for path in window.recent.settings.texts("files/recent")] == ["run.mstrata"] * 2
    page = opened(namesakes[0])
    runs = page.bring_forward("runs").table
    names = ["a/run.mstrata", "b/run.mstrata", "a/run.mstrata (same file again)"]
    assert [runs.index(row, 1).data() for row in range(3)] == names
    assert window.exporter._stem().count("/") == 0


def painted(view: QTableView, row: int) -> str:
    """The name of a run as it is painted in little room."""
    option, delegate = QStyleOptionViewItem(), view.itemDelegateForColumn(1)
    delegate.room = 140
    delegate.initStyleOption(option, view.model().index(row, 1))
    delegate.room = None
    return option.text


def test_long_names_that_differ_in_their_middle_are_cut_around_it(
    opened: Any, window: Window, tapes: tuple[str, str], tmp_path: Path
) -> None:
    """In tabs, in the bar over the curves, on the waterfall and in the list of runs."""
    names = [f"llama-3-8b-zero3-{n}ockpt-bs4-seq4096-seed1234-run1.mstrata" for n in "nt"]
    paths = [shutil.copy(tape, tmp_path / name) for tape, name in zip(tapes, names, strict=True)]
    window.resize(LEAST)
    page = opened(*map(str, paths))
    said = []
    for tab in (0, 1, 2):
        option = QStyleOptionTab()
        window.tabs.initStyleOption(option, tab)
        said.append(option.text)
    assert "…nockpt…" in said[0] and "…tockpt…" in said[1] and said[2] == "Compare"
    assert window.tabs.count() == 3 and window.tabs.tabText(0) == names[0]
    shown = [label._cut(label.text(), 160) for label in page.bar.names]
    assert "nockpt" in shown[0] and "tockpt" in shown[1]
    runs = page.bring_forward("runs")
    assert ["nockpt" in painted(runs, 0), "tockpt" in painted(runs, 1)] == [True, True]


def test_short_names_keep_their_room() -> None:
    assert fair_share(100, [10, 20]) >= 20
    assert fair_share(100, [10, 80, 90]) == 45
    assert fair_share(90, [40, 40, 40]) == 30
