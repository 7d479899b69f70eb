"""What gives way where there is little room: words before numbers, and nothing lies over anything else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QScrollArea, QStyle, QTableView
from pytestqt.qtbot import QtBot

from memstrata.capture.format.schema import Severity
from memstrata.viewer.look.tips import one_line
from memstrata.viewer.panels.caption import Caption, Paragraph
from memstrata.viewer.panels.chart_panel import ChartPanel
from memstrata.viewer.panels.compare_cut import CutPanel
from memstrata.viewer.panels.coverage_view import ProblemsPanel
from memstrata.viewer.panels.place import room_for
from memstrata.viewer.state.stack_model import BYTES, COUNT, OWN, SHARE
from memstrata.viewer.state.view_state import COMPARE
from memstrata.viewer.window import LEAST, Window

from ..report.hostile_names import hostile

_MARGIN = QStyle.PixelMetric.PM_FocusFrameHMargin


@pytest.fixture
def page(window: Window, opened: Any, samples: Path) -> Any:
    window.resize(1100, 700)
    return opened(str(samples / "before.mstrata"))


def test_a_caption_is_cut_and_keeps_its_text(qtbot: QtBot) -> None:
    caption = Caption()
    qtbot.addWidget(caption)
    caption.setText("one line\nand another")
    caption.resize(400, 20)
    assert not caption.is_cut and caption.minimumSizeHint().width() == 1
    one = caption.sizeHint().height()
    caption.resize(60, 20)
    assert caption.is_cut and caption.text() == "one line\nand another"
    caption.setWordWrap(True)
    assert not caption.is_cut and caption.sizeHint().height() > one


def test_names_give_way_to_numbers_in_a_narrow_stack_tree(page: Any, qtbot: QtBot) -> None:
    panel = page.bring_forward("stacks")
    page.docks.move_to("stacks", "window")
    seen = {}
    for width in (720, 420, 360):
        page.docks.docks["stacks"].resize(width, 300)
        qtbot.waitUntil(lambda width=width: abs(panel.width() - width) < 30)
        shown = [column for column in (0, BYTES, SHARE, OWN, COUNT) if not panel.tree.isColumnHidden(column)]
        qtbot.waitUntil(lambda: panel.tree.header().length() <= panel.tree.viewport().width())
        seen[width] = shown[1:], panel.icicle.isVisible()
    assert seen[720] == seen[420][:1] + (True,) and seen[420] == ([BYTES, SHARE, OWN, COUNT], False)
    assert seen[360][0][0] == BYTES and OWN not in seen[360][0]


def test_what_else_shows_one_section_where_it_is_low(page: Any, qtbot: QtBot) -> None:
    panel = page.bring_forward("what_else")
    qtbot.waitUntil(panel.isVisible)
    assert panel.choice.isVisible() and panel.changes.isVisible() and not panel.stages.isVisible()
    panel.section.setCurrentIndex(1)
    assert panel.stages.isVisible() and panel.degrees.isVisible() and not panel.changes.isVisible()
    panel.section.setCurrentIndex(2)
    assert panel.grows.isVisible() and not panel.stages.isVisible()


def test_the_bar_of_a_narrow_timeline_keeps_its_boxes_whole(page: Any, qtbot: QtBot) -> None:
    panel = ChartPanel(page.scope)
    qtbot.addWidget(panel)
    panel.show()
    panel.resize(900, 300)
    assert all(word.isVisible() for word in panel.words) and panel.key.isVisible()
    panel.resize(460, 300)
    assert not any(word.isVisible() for word in panel.words)
    for part in (panel.group, panel.axis, panel.peak, panel.fit):
        assert part.width() >= part.sizeHint().width()


def test_nothing_lies_over_the_waterfall_while_its_table_is_nowhere(opened: Any, samples: Path, qtbot: QtBot) -> None:
    page = opened(*map(str, sorted((samples / "ranks").glob("*.mstrata"))))
    panel = CutPanel(page.diff)
    qtbot.addWidget(panel)
    panel.show()
    assert panel.chart.isVisible() and not panel.table.isVisible()


def test_one_line_turns_nothing_around() -> None:
    assert one_line("mlp.gate") == "mlp.gate"
    assert one_line("a\nb\u202ec\u2066d\0") == "a b c d "
    assert len(one_line("W" * 10_000)) < 300


def test_a_paragraph_is_cut_at_the_height_it_has(qtbot: QtBot) -> None:
    label = Paragraph()
    qtbot.addWidget(label)
    words = " ".join(f"word{number}" for number in range(40))
    label.setText(words)
    label.resize(200, 400)
    assert not label.is_cut and not label.hasHeightForWidth()
    line = label.fontMetrics().lineSpacing()
    label.resize(200, 3 * line + 2)
    lines = label._lines(200, 3 * line + 2)
    assert label.is_cut and len(lines) == 3 and lines[-1].endswith("…")
    assert words.startswith("".join(lines)[:-1]) and label.text() == words
    assert all(label.fontMetrics().horizontalAdvance(text.strip()) <= 200 for text in lines)


def test_what_if_needs_no_scrolling_where_it_is_low(page: Any, qtbot: QtBot) -> None:
    panel = page.bring_forward("what_if")
    qtbot.waitUntil(lambda: bool(page.scope.what_if.frontier), timeout=20_000)
    area = panel.findChild(QScrollArea)
    for length in range(panel.slider.maximum() + 1):
        panel.slider.setValue(length)
        qtbot.wait(1)
        assert not area.verticalScrollBar().isVisible() and not panel.sentence.is_cut, panel.sentence.text()
    panel.budget.setText("10MiB")
    qtbot.keyClick(panel.budget, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: panel.answer.isVisible() and not panel.bar.isVisible(), timeout=20_000)
    qtbot.wait(1)
    assert not area.verticalScrollBar().isVisible()  # with the answer over it the sentence is cut, and says so
    assert panel.sentence.height() >= 2 * panel.sentence.fontMetrics().lineSpacing()


def test_the_table_of_ranks_fits(window: Window, opened: Any, samples: Path, qtbot: QtBot) -> None:
    window.resize(1100, 700)
    page = opened(*map(str, sorted((samples / "ranks").glob("*.mstrata"))))
    view = page.bring_forward("runs")
    qtbot.waitUntil(view.isVisible)
    assert sum(map(view.columnWidth, range(view.table.columnCount()))) <= view.viewport().width()
    assert not view.horizontalScrollBar().isVisible()
    whole = [view.columnWidth(column) for column in range(view.table.columnCount())]
    view.setMaximumWidth(view.width() - 40)  # speeds go before a name cannot be read
    narrower = [view.columnWidth(column) for column in range(view.table.columnCount())]
    assert narrower == [*whole[:-1], 0] and not view.horizontalScrollBar().isVisible()


@pytest.mark.parametrize("size", [(1100, 700), (1280, 800), (1600, 1000)])
def test_the_first_line_of_the_answer_is_one_line(
    window: Window, opened: Any, samples: Path, pair: tuple[str, str], size: tuple[int, int], qtbot: QtBot
) -> None:
    window.resize(*size)
    opened(*map(str, sorted((samples / "ranks").glob("*.mstrata"))))
    opened(*pair)
    for page in (COMPARE, 0, 2):
        window.session.set(replace(window.session.state, page=page))
        shown = window.session.state.compared if page == COMPARE else window.session.state.run
        qtbot.waitUntil(lambda shown=shown: window.content.page is window.content.pages.get(shown))
        answer = window.content.page.answer
        first, second = answer.labels[:2]
        qtbot.waitUntil(lambda answer=answer: answer.isVisible() and answer.width() > 1000)
        qtbot.waitUntil(lambda first=first: first.height() < 2 * first.fontMetrics().height())
        assert first.font().bold() and first.font().pointSizeF() >= 1.1 * second.font().pointSizeF()


@pytest.mark.parametrize(("name", "longest"), [("before", "kept"), ("after", "rematerialized")])
def test_columns_of_few_words_are_no_wider_than_those(
    window: Window, opened: Any, samples: Path, name: str, longest: str, qtbot: QtBot
) -> None:
    window.resize(1100, 700)
    view = opened(str(samples / f"{name}.mstrata")).bring_forward("saved").view
    qtbot.waitUntil(view.isVisible)
    fate, shape, advance = 1, 4, view.fontMetrics().horizontalAdvance
    assert advance(longest) + 12 <= view.columnWidth(fate) <= advance("0") * len(longest) + 14
    whole = view.columnWidth(shape) >= advance(view.model().index(0, shape).data()) + 12
    assert whole or longest != "kept"


def test_the_gravest_problem_stands_first_and_a_row_of_it_is_whole(
    opened: Any, samples: Path, tmp_path: Path, qtbot: QtBot
) -> None:
    page = opened(str(hostile(samples / "before.mstrata", tmp_path / "hostile.mstrata", keep_paths=True)))
    panel = ProblemsPanel(page.scope)
    qtbot.addWidget(panel)
    panel.show()
    severities = [Severity[panel.view.model().index(row, 0).data()] for row in range(panel.view.model().rowCount())]
    assert severities == sorted(severities, reverse=True) and severities[0] == Severity.error
    for height in (700, 150):
        panel.resize(700, height)
        qtbot.waitUntil(lambda height=height: panel.text.wordWrap() == (height == 700))
        assert panel.view.viewport().height() >= panel.view.verticalHeader().defaultSectionSize()


def test_an_empty_filter_has_the_whole_width(page: Any, qtbot: QtBot) -> None:
    bar = page.filter
    assert not bar.said.isVisible() and bar.width() - bar.line.geometry().right() < 12
    bar.line.setText("kind of nothing")
    bar.apply()
    qtbot.waitUntil(bar.said.isVisible)
    bar.line.clear()
    qtbot.waitUntil(lambda: not bar.said.isVisible())


def test_no_window_is_smaller_than_the_least_and_that_fits_a_small_screen(window: Window, qtbot: QtBot) -> None:
    least = LEAST.boundedTo(room_for(window))  # of which the screen here may have room for a part
    window.resize(1, 1)
    qtbot.waitUntil(lambda: window.size() == least)
    title = window.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight)
    framed = LEAST + QSize(title // 2, title * 3 // 2)
    assert framed.width() <= 1024 and framed.height() <= 600


@pytest.mark.parametrize("key", ["differences", "changes", "slots", "runs"])
def test_in_the_least_window_compared_numbers_are_whole(
    window: Window, opened: Any, pair: tuple[str, str], key: str, qtbot: QtBot
) -> None:
    window.resize(LEAST)
    opened(*pair)
    window.session.set(replace(window.session.state, page=COMPARE))
    qtbot.waitUntil(lambda: window.content.page is window.content.pages.get(window.session.state.compared))
    panel: Any = window.content.page.bring_forward(key)
    view = panel if isinstance(panel, QTableView) else panel.findChild(QTableView)
    qtbot.waitUntil(lambda: view.isVisible() and view.model() is not None and view.model().rowCount() > 1)
    qtbot.wait(50)
    right, margins = Qt.AlignmentFlag.AlignRight.value, 2 * view.style().pixelMetric(_MARGIN) + 2
    for row in range(min(view.model().rowCount(), 12)):
        for column in range(1, view.model().columnCount()):
            index = view.model().index(row, column)
            is_number = int(index.data(Qt.ItemDataRole.TextAlignmentRole) or 0) & right
            if is_number and not view.isColumnHidden(column):
                text = str(index.data())
                assert view.fontMetrics().horizontalAdvance(text) + margins <= view.columnWidth(column), text
    assert not view.horizontalScrollBar().isVisible()
