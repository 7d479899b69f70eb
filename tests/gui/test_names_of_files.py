"""Files whose names are alike, open together: they can be told apart wherever they are named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from memstrata.viewer.window import Window


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
