"""Pictures of charts held to pictures that were looked at, with room for what differs between machines.

Only the inside of a chart is compared, without its axes, brought to one size and cut into blocks; words are a pixel
high, so that the fonts of another machine do not matter. The pictures are made again, after a look at them, with
`MEMSTRATA_REFERENCE=write .venv/bin/pytest tests/gui/test_reference.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter, QPalette
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from memstrata.viewer.window import Window

FOLDER = Path(__file__).with_name("reference")
WIDTH, HEIGHT, BLOCK = 480, 240, 12
MOST_MEAN, MOST_OF_A_BLOCK = 2.0, 50.0
"""Of 255: mean difference of all blocks, and the largest of one block."""
MOST_BYTES = 60_000


@dataclass(frozen=True)
class Reference:
    """A chart of a step of which every byte is known: its files, and the view whose plot is compared."""

    name: str
    files: tuple[int, ...]
    plot: Callable[[Any], tuple[QWidget, Any]]
    """(the graphics view, its view box)."""
    dark: bool = False


def _timeline(page: Any) -> tuple[QWidget, Any]:
    chart = page.views["timeline"].timeline
    return chart, chart.view


def _allocations(page: Any) -> tuple[QWidget, Any]:
    page.bring_forward("allocations")
    chart = page.views["allocations"].chart
    return chart, chart.view


def _comparison(page: Any) -> tuple[QWidget, Any]:
    return page.chart, page.chart.view


REFERENCES = (
    Reference("timeline", (0,), _timeline),
    Reference("timeline-checkpointed-dark", (1,), _timeline, dark=True),
    Reference("allocations-stacked", (1,), _allocations),
    Reference("comparison", (0, 1), _comparison),
)


@pytest.fixture
def draw(
    opened: Any, window: Window, tapes: tuple[str, str], qapp: QApplication, dark: QPalette, qtbot: QtBot
) -> Iterator[Any]:
    """Draw the plot of a reference as an image of the one size."""

    def drawn(reference: Reference, change: Callable[[Any], None] = lambda page: None, family: str = "") -> QImage:
        if reference.dark:
            qapp.setPalette(dark)
        words = QFont(family) if family else qapp.font()
        words.setPixelSize(1)
        qapp.setFont(words)
        page = opened(*(tapes[number] for number in reference.files))
        chart, view = reference.plot(page)
        qtbot.waitUntil(lambda: chart.isVisible() and chart.height() > 60, timeout=10_000)
        change(page)
        qtbot.wait(150)
        inside = chart.mapFromScene(view.sceneBoundingRect()).boundingRect()
        image = chart.viewport().grab(inside).toImage()
        smooth = Qt.TransformationMode.SmoothTransformation
        return image.scaled(WIDTH, HEIGHT, Qt.AspectRatioMode.IgnoreAspectRatio, smooth)

    before = qapp.font()
    yield drawn
    qapp.setFont(before)


def blocks(image: QImage) -> NDArray[np.float64]:
    """Mean red, green and blue of each block; shape [rows, columns, 3]."""
    image = image.convertToFormat(QImage.Format.Format_RGB888)
    line = np.frombuffer(image.constBits(), np.uint8).reshape(HEIGHT, image.bytesPerLine())
    pixels = line[:, : WIDTH * 3].reshape(HEIGHT // BLOCK, BLOCK, WIDTH // BLOCK, BLOCK, 3)
    return pixels.astype(np.float64).mean(axis=(1, 3))


def difference(image: QImage, name: str) -> tuple[float, float]:
    """(mean, largest) difference of blocks to the reference of this name."""
    known = QImage(str(FOLDER / f"{name}.png"))
    assert (known.width(), known.height()) == (WIDTH, HEIGHT), f"there is no reference {name}"
    apart = np.abs(blocks(image) - blocks(known)).max(axis=2)
    return float(apart.mean()), float(apart.max())


def is_alike(image: QImage, name: str) -> bool:
    mean, largest = difference(image, name)
    return mean <= MOST_MEAN and largest <= MOST_OF_A_BLOCK


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
def test_a_chart_looks_like_its_reference(draw: Any, reference: Reference, tmp_path: Path) -> None:
    image, path = draw(reference), FOLDER / f"{reference.name}.png"
    if os.environ.get("MEMSTRATA_REFERENCE") == "write":
        FOLDER.mkdir(exist_ok=True)
        image.save(str(path))
    image.save(str(tmp_path / path.name))
    mean, largest = difference(image, reference.name)
    said = f"{tmp_path / path.name} against {path}: {mean:.1f} on the whole, {largest:.0f} in one block"
    assert mean <= MOST_MEAN, said
    assert largest <= MOST_OF_A_BLOCK, said
    assert path.stat().st_size <= MOST_BYTES


@pytest.mark.parametrize("family", ["DejaVu Sans", "DejaVu Sans Mono", "DejaVu Serif"])
def test_another_font_is_no_difference(draw: Any, family: str) -> None:
    mean, largest = difference(draw(REFERENCES[0], family=family), "timeline")
    assert mean <= MOST_MEAN / 2, (mean, largest)
    assert largest <= MOST_OF_A_BLOCK / 2, (mean, largest)


def _by_layer(page: Any) -> None:
    page.scope.look(grouping="layer")


def _zoomed(page: Any) -> None:
    page.scope.look(visible=(0.0, page.scope.run.n_events * 0.8))


@pytest.mark.parametrize("change", [_by_layer, _zoomed])
def test_other_bands_and_other_bytes_are_a_difference(draw: Any, change: Callable[[Any], None]) -> None:
    assert not is_alike(draw(REFERENCES[0], change), "timeline")


def test_another_step_another_theme_and_another_colour_are_differences(draw: Any, qapp: QApplication) -> None:
    image = draw(REFERENCES[0])
    assert not is_alike(image, "timeline-checkpointed-dark")
    assert not is_alike(image, "allocations-stacked")
    orange, blue = (204, 128, 22), 0xFF3060C0
    changed = image.convertToFormat(QImage.Format.Format_RGB32)
    for x in range(WIDTH):
        for y in range(HEIGHT):
            colour = changed.pixelColor(x, y)
            if max(abs(a - b) for a, b in zip((colour.red(), colour.green(), colour.blue()), orange)) < 24:
                changed.setPixel(x, y, blue)
    assert is_alike(image, "timeline")
    assert not is_alike(changed, "timeline")


def test_a_hidden_band_is_a_difference(draw: Any) -> None:
    """The narrow one at the peak: 20 of 44 MiB, two of 60 events wide."""
    image = draw(REFERENCES[0])
    assert is_alike(image, "timeline")
    painter = QPainter(image)
    painter.fillRect(int(WIDTH * 0.38), int(HEIGHT * 0.1), int(WIDTH * 0.04), int(HEIGHT * 0.4), QColor("white"))
    painter.end()
    assert not is_alike(image, "timeline")
