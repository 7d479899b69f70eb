"""The prediction tab: layers and items are those of the analysis, sum as they should, and lead to allocations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from memstrata.capture.format import files
from memstrata.capture.format.schema import Fate
from memstrata.viewer.analysis.residual import residual
from memstrata.viewer.analysis.shape import plan_in_force, shape_of
from memstrata.viewer.model.query import ACTIVATIONS, AllocationQuery
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.report.residual_text import facts_text, parts_text
from memstrata.viewer.state.array_table import RawRole
from memstrata.viewer.state.loading import open_run
from memstrata.viewer.window import Window

MIB = 1 << 20


def shown(view: Any, role: int = Qt.ItemDataRole.DisplayRole) -> dict[str, list[Any]]:
    model = view.model()
    titles = [model.headerData(c, Qt.Orientation.Horizontal) for c in range(model.columnCount())]
    return {t: [model.index(r, c).data(role) for r in range(model.rowCount())] for c, t in enumerate(titles)}


def click(view: Any, row: int, qtbot: QtBot) -> None:
    view.scrollTo(view.model().index(row, 0))
    qtbot.mouseClick(
        view.viewport(), Qt.MouseButton.LeftButton, pos=view.visualRect(view.model().index(row, 0)).center()
    )


def test_every_layer_stands_beside_what_shapes_say(opened: Any, tapes: tuple[str, str]) -> None:
    """A layer of the tape is one Linear over 512 rows of 1024 values of 4 bytes: it keeps its input, 2 MiB."""
    page = opened(tapes[0])
    shape = shape_of(page.scope.run)
    assert shape is not None
    said = [layer.bytes(shape.tokens) for layer in shape.layers]
    rows = shown(page.views["prediction"].layers, RawRole)
    assert shown(page.views["prediction"].layers)["layer"] == [f"layers.{i}" for i in range(4)] + ["outside layers"]
    assert rows["measured"] == [2 * MIB] * 4 + [0] and said == [2 * MIB] * 4
    assert rows["shapes say"] == [*said, 0]
    assert rows["difference"] == [0] * 5
    assert shown(page.views["prediction"].layers)["super-block"] == ["0", "0", "1", "1", "-"]
    assert shown(page.views["prediction"].layers)["kind"] == ["Even", "Odd", "Even", "Odd", ""]


def test_the_items_close_on_the_difference(opened: Any, pair: tuple[str, str], window: Window) -> None:
    for path in pair:
        page = opened(path)
        if not isinstance(page, RunPage):  # with the second file the comparison comes to the front
            window.tabs.setCurrentIndex(1)
            page = window.content.currentWidget()
        run = page.scope.run
        shape = shape_of(run)
        assert shape is not None
        missed = residual(run, shape, plan_in_force(run))
        rows = shown(page.views["prediction"].items, RawRole)
        assert sum(rows["bytes"]) == missed.measured_bytes - missed.predicted_bytes == missed.bytes != 0
        assert shown(page.views["prediction"].items)["item of the difference"] == [i.label for i in missed.items]
        saved = run.saved_bytes_by_layer(Fate.kept, Fate.rematerialized)
        assert sum(shown(page.views["prediction"].layers, RawRole)["measured"]) == sum(saved.values())


def test_a_click_on_an_item_goes_to_its_allocations(opened: Any, pair: tuple[str, str], qtbot: QtBot) -> None:
    page = opened(pair[0])
    panel = page.views["prediction"]
    page.bring_forward("prediction")
    item = panel.missed.items[1]
    click(panel.items, 1, qtbot)
    view = page.scope.view
    assert view.cursor == panel.missed.position and view.query == replace(item.query, position=None)
    assert page.docks.front == "alive"
    assert item.bytes == int(page.scope.run.allocations.bytes[page.scope.shown_query().select(page.scope.run)].sum())


def test_a_click_on_a_layer_goes_to_its_activations_at_their_peak(
    opened: Any, tapes: tuple[str, str], qtbot: QtBot
) -> None:
    page = opened(tapes[0])
    panel = page.views["prediction"]
    page.bring_forward("prediction")
    click(panel.layers, 2, qtbot)
    assert page.scope.view.query == AllocationQuery(categories=ACTIVATIONS, layer=2)
    rows = page.scope.shown_query().select(page.scope.run)
    assert page.scope.run.allocations.bytes[rows].tolist() == [2 * MIB]


def test_the_current_item_is_said_in_plain_words(opened: Any, pair: tuple[str, str]) -> None:
    page = opened(pair[0])
    panel = page.views["prediction"]
    page.bring_forward("prediction")
    first, second = panel.missed.items[:2]
    assert panel.whole.isVisible() and panel.whole.text().startswith(f"{first.text or first.label}\n")
    panel.items.setCurrentIndex(panel.items.table.index(1, 0))
    assert panel.whole.text().split("\n") == [second.text, facts_text(second), *parts_text(second).split("\n")]


def test_where_shapes_say_nothing_the_tab_says_why(opened: Any, tapes: tuple[str, str], tmp_path: Path) -> None:
    recording = open_run(tapes[0]).recording
    files.write(replace(recording, meta=replace(recording.meta, batch=None)), tmp_path / "unknown.mstrata")
    panel = opened(str(tmp_path / "unknown.mstrata")).views["prediction"]
    assert panel.caption.text() == "No prediction: batch and sequence length are unknown."
    assert not panel.items.isVisibleTo(panel)
    assert list(shown(panel.layers)) == ["layer", "measured", "kind", "super-block"]
    assert shown(panel.layers, RawRole)["measured"] == [2 * MIB] * 4 + [0]
