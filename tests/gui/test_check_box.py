"""A check box that is on has a tick: a colour alone does not tell everybody."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication, QStyle, QStyleOptionButton
from pytestqt.qtbot import QtBot

from memstrata.viewer.charts.theme import current

from .conftest import settle


def luminance(colour: QColor) -> float:
    parts = (colour.redF(), colour.greenF(), colour.blueF())
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: QColor, b: QColor) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("is_dark", [False, True])
def test_a_check_box_that_is_on_has_a_tick(
    opened: Any, tapes: tuple[str, str], dark: QPalette, qapp: QApplication, qtbot: QtBot, is_dark: bool
) -> None:
    if is_dark:
        qapp.setPalette(dark)
        settle()
    box = opened(tapes[0]).bring_forward("stacks").own_code
    qtbot.wait(100)
    assert box.isVisible() and box.isChecked() and current().dark == is_dark
    option = QStyleOptionButton()
    box.initStyleOption(option)
    place = box.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, box)
    image, accent = box.grab().toImage(), QColor(current().accent)
    inside = place.adjusted(2, 2, -2, -2)
    spots = [
        image.pixelColor(x, y)
        for x in range(inside.left(), inside.right() + 1)
        for y in range(inside.top(), inside.bottom() + 1)
    ]
    ticked = [spot for spot in spots if contrast(spot, accent) > 3]
    filled = [spot for spot in spots if spot == accent]
    assert len(ticked) >= 5 and len(filled) >= 20
