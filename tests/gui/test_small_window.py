"""What gives way where there is little room: words before numbers, and nothing lies over anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from memstrata.viewer.look.tips import one_line
from memstrata.viewer.panels.caption import Caption
from memstrata.viewer.panels.chart_panel import ChartPanel
from memstrata.viewer.panels.compare_cut import CutPanel
from memstrata.viewer.state.stack_model import BYTES, COUNT, OWN, SHARE
from memstrata.viewer.window import Window


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
