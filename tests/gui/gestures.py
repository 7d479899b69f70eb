"""What a user does with keys and mouse, and how many steps of undo it makes."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from memstrata.viewer.window import Window

from .conftest import MIB

LEFT, SHIFT = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier
NONE = Qt.KeyboardModifier.NoModifier


def brush(qtbot: QtBot, page: Any, first: float, last: float) -> tuple[int, int]:
    """Drag with Shift from one share of the events to another; returns the positions of the range."""
    timeline, scope = page.views["timeline"].timeline, page.scope
    pixel = lambda share: timeline.mapFromScene(
        timeline.view.mapViewToScene(QPointF(float(scope.axis.x_of(scope.run.n_events * share)), 20 * MIB))
    )
    start, end, target = pixel(first), pixel(last), timeline.viewport()
    QTest.mousePress(target, LEFT, SHIFT, start)
    for step in range(1, 7):
        QTest.mouseMove(target, start + QPoint((end - start).x() * step // 6, 0), 20)
    QTest.mouseRelease(target, LEFT, SHIFT, end)
    qtbot.wait(150)
    assert scope.view.mark is not None and scope.view.mark < scope.view.cursor
    return scope.view.mark, scope.view.cursor


def focus() -> QWidget:
    found = QApplication.focusWidget()
    assert found is not None
    return found


def press(qtbot: QtBot, key: Any, modifiers: Any = NONE) -> None:
    qtbot.keyClick(focus(), key, modifiers)


def steps(window: Window) -> int:
    """How many steps of undo there are."""
    return len(window.session._undo)


def drag(widget: QWidget, start: QPoint, end: QPoint, modifiers: Any = NONE, over: QPoint | None = None) -> None:
    """Press, move in steps, by way of `over` where one is given, and let go."""
    QTest.mousePress(widget, LEFT, modifiers, start)
    stops = [start, *([over] if over is not None else []), end]
    for way, part in product(pairwise(stops), range(1, 6)):
        place = QPointF(way[0] + (way[1] - way[0]) * part / 5)
        event = QMouseEvent(
            QMouseEvent.Type.MouseMove, place, QPointF(widget.mapToGlobal(place.toPoint())), Qt.MouseButton.NoButton,
            LEFT, modifiers,
        )  # fmt: skip
        QApplication.sendEvent(widget, event)
        QTest.qWait(25)
    QTest.mouseRelease(widget, LEFT, modifiers, end)


def typed(qtbot: QtBot, page: Any, text: str) -> None:
    """Give a page this filter."""
    line = page.filter.line
    line.setFocus()
    line.selectAll()
    qtbot.keyClicks(line, text)
    qtbot.keyClick(line, Qt.Key.Key_Return)
    qtbot.wait(150)
