"""Names that come from files are shown as they are: nothing in the window takes them for HTML."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtGui import QHelpEvent, QTextDocumentFragment
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtWidgets import QAbstractItemView, QApplication, QLabel, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.schema import Severity
from memstrata.viewer.look.tips import MOST_LINES, tip
from memstrata.viewer.panels.notices import LoadingBar
from memstrata.viewer.panels.warning_bar import WarningBar
from memstrata.viewer.state.jobs import Jobs
from memstrata.viewer.window import Window

from ..report.hostile_names import hostile


def is_markup(text: str) -> bool:
    """Whether Qt would draw this text as HTML, and it is not ours."""
    return GuiQt.mightBeRichText(text) and not text.startswith('<span style="white-space: pre-wrap">')


def hovers(model: QAbstractItemModel) -> list[str]:
    found = []
    for row in range(min(model.rowCount(), 60)):
        for column in range(model.columnCount()):
            found.append(model.index(row, column).data(Qt.ItemDataRole.ToolTipRole))
    return [text for text in found if isinstance(text, str)]


def test_no_name_becomes_markup(window: Window, opened: Any, samples: Path, tmp_path: Path) -> None:
    path = hostile(samples / "before.mstrata", tmp_path / "<b>bold<img src=x>.mstrata", keep_paths=True)
    opened(str(path))
    labels = [label for label in window.findChildren(QLabel) if label.isVisible()]
    assert any("<b>" in label.text() for label in labels)
    for label in labels:
        assert (
            label.textFormat() == Qt.TextFormat.PlainText or not is_markup(label.text()) or "<img" not in label.text()
        )
    for widget in window.findChildren(QWidget):
        assert not is_markup(widget.toolTip())
    seen = [t for view in window.findChildren(QAbstractItemView) if view.isVisible() for t in hovers(view.model())]
    assert any("&lt;b&gt;" in text for text in seen)
    assert not any(is_markup(text) or max(map(len, text.splitlines()), default=0) > 2000 for text in seen)


ODD = "a\nb\u202e\x1b[31mc\u2028 & " + "long name " * 18
"""The name of a file, as long as a file system takes it."""


def test_each_problem_is_one_line_and_whole_when_asked(
    window: Window, opened: Any, samples: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    """Lines, signs and lengths of a problem's text are the file's, those of the bar are not."""
    window.resize(1100, 700)
    page = opened(str(hostile(samples / "before.mstrata", tmp_path / "hostile.mstrata", keep_paths=True)))
    bar, grave = page.warnings, [p.text for p in page.scope.run.problems if p.severity >= Severity.warning]
    assert len(grave) > 5 and any("\n" in text for text in grave) and max(map(len, grave)) > 10_000
    line = bar.fontMetrics().lineSpacing()
    assert bar.caption.text().count("\n") == 4 and bar.height() < 7 * line
    assert all(part.isprintable() for part in bar.caption.text().split("\n"))
    assert all(part in bar.text() for part in grave)  # nothing is lost to who reads the screen aloud or copies
    assert "second,line" in bar.caption.text()
    qtbot.mouseClick(bar.unfold, Qt.MouseButton.LeftButton)
    assert bar.caption.text().count("\n") == len(grave) - 1 and bar.unfold.isVisible()
    qtbot.keyClick(bar.unfold, Qt.Key.Key_Space)
    assert bar.height() < 7 * line
    problems = page.bring_forward("problems").view
    shown = {problems.model().index(row, 2).data() for row in range(problems.model().rowCount())}
    assert set(grave) <= shown


def test_what_the_bar_has_no_line_for_is_said_on_hover_and_is_no_markup(qtbot: QtBot) -> None:
    bar = WarningBar([Problem(f"p{n}", Severity.warning, f"<b>{n}</b> {'word ' * 40}", sizes=(n,)) for n in range(6)])
    qtbot.addWidget(bar)
    bar.show()
    for width, first in ((4000, 4), (300, 0)):  # all lines whole, all lines cut
        bar.resize(width, 90)
        QApplication.processEvents()
        assert bar.caption.is_cut == (width == 300)
        place = bar.caption.rect().center()
        QApplication.sendEvent(bar.caption, QHelpEvent(QHelpEvent.Type.ToolTip, place, bar.caption.mapToGlobal(place)))
        shown = QTextDocumentFragment.fromHtml(QToolTip.text()).toPlainText()
        QToolTip.hideText()
        assert [n for n in range(6) if f"Warning: <b>{n}</b>" in shown] == list(range(first, 6))
        assert shown.count("<span") == 0 and [f"{n} B: {n} byte" in shown for n in range(6)] == [True] * 6


def test_a_problem_that_fits_has_no_button(qtbot: QtBot) -> None:
    bar = WarningBar([Problem("lost", Severity.warning, " ".join(["several words"] * 8))])
    qtbot.addWidget(bar)
    bar.show()
    bar.resize(1600, 30)
    qtbot.waitUntil(lambda: not bar.unfold.isVisible() and not bar.caption.is_cut)
    bar.resize(300, 30)
    qtbot.waitUntil(lambda: bar.unfold.isVisible() and bar.caption.is_cut)


def test_the_name_of_a_file_breaks_nothing(window: Window, opened: Any, samples: Path, tmp_path: Path) -> None:
    window.resize(1100, 700)
    files = [tmp_path / f"{ODD[:-number]}.mstrata" for number in (2, 1)]
    for file, sample in zip(files, ("before.mstrata", "after.mstrata")):
        shutil.copy(samples / sample, file)
    page = opened(*map(str, files))
    assert (window.width(), window.height()) == (1100, 700) and page.kind == "compare"
    names = [run.name for run in window.session.state.runs]
    assert len(set(names)) == 2 and all(name.isprintable() for name in names)
    assert all(window.tabs.tabRect(tab).width() <= 340 for tab in range(3))
    assert [window.tabs.tabText(tab) for tab in (0, 1)] == [name.replace("&", "&&") for name in names]
    assert [window.tabs.tabToolTip(tab) for tab in (0, 1)] == names
    assert window.status.height() < 2 * window.status.fontMetrics().height()
    assert all(name.height() < 2 * name.fontMetrics().height() for name in page.bar.names)
    assert page.answer.height() < 120 and page.bar.swap.x() + page.bar.swap.width() < page.width()
    assert [file.path for file in window.recent.files()] == [str(file) for file in reversed(files)]
    pills = page.chart.pair.pills
    assert len(pills) == 2 and all(pill.width() < page.chart.width() / 2 for pill in pills)


def test_a_long_name_of_what_is_being_opened(qtbot: QtBot) -> None:
    jobs, gate = Jobs(), threading.Event()
    bar = LoadingBar(jobs)
    qtbot.addWidget(bar)
    bar.resize(600, 40)
    jobs.start(f"Opening {ODD}", lambda job: gate.wait(10), lambda answer: None, lambda said: None)
    assert bar.isVisible() and bar.minimumSizeHint().width() < 600 and bar.height() < 60
    assert bar.bar.width() >= 100 and bar.text.is_cut
    gate.set()
    jobs.shutdown()


def test_a_bad_file_with_a_bad_name(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "<h1>x<img src=y>.pickle"
    path.write_bytes(b"nothing")
    window.open_paths([str(path)])
    qtbot.waitUntil(window.message.isVisible)
    assert window.message.text.text().startswith(path.name) and window.message.text.isVisible()
    assert window.message.text.textFormat() == Qt.TextFormat.PlainText


def test_a_bad_file_with_a_name_of_many_lines(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    window.resize(1100, 700)
    path = tmp_path / ("a\n\n\nb\u202e" + "W" * 200 + ".pickle")
    path.write_bytes(b"nothing")
    window.open_paths([str(path)])
    qtbot.waitUntil(window.message.isVisible)
    said = window.message.text.text()
    assert said.isprintable() and said.startswith("a   b ") and "pickle" in said
    assert window.width() == 1100 and window.message.height() < 60


def test_tooltips() -> None:
    assert tip("layers.0\n5 bytes") == "layers.0\n5 bytes"
    assert tip("<module>") == '<span style="white-space: pre-wrap">&lt;module&gt;</span>'
    assert len(tip("W" * 10_000)) < 300 and tip("W" * 10_000).startswith("WWW")
    lines = tip("\n".join(map(str, range(1000)))).splitlines()
    assert len(lines) == MOST_LINES + 1 and lines[-1] == "... and 960 more lines"
