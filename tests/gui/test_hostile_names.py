"""Names that come from files are shown as they are: nothing in the window takes them for HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtGui import Qt as GuiQt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QWidget
from pytestqt.qtbot import QtBot

from memstrata.viewer.look.tips import MOST_LINES, tip
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


def test_a_bad_file_with_a_bad_name(window: Window, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "<h1>x<img src=y>.pickle"
    path.write_bytes(b"nothing")
    window.open_paths([str(path)])
    qtbot.waitUntil(window.message.isVisible)
    assert window.message.text.text().startswith(path.name) and window.message.text.isVisible()
    assert window.message.text.textFormat() == Qt.TextFormat.PlainText


def test_tooltips() -> None:
    assert tip("layers.0\n5 bytes") == "layers.0\n5 bytes"
    assert tip("<module>") == '<span style="white-space: pre-wrap">&lt;module&gt;</span>'
    assert len(tip("W" * 10_000)) < 300 and tip("W" * 10_000).startswith("WWW")
    lines = tip("\n".join(map(str, range(1000)))).splitlines()
    assert len(lines) == MOST_LINES + 1 and lines[-1] == "... and 960 more lines"
