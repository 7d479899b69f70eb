"""The script that makes the README's pictures, on the real window."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest
from PySide6.QtGui import QImage


@pytest.fixture
def script(samples: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_screenshots", samples / "make_screenshots.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_screenshots", module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_a_picture_is_small_and_shows_the_window(script: ModuleType, tmp_path: Path) -> None:
    picture = next(p for p in script.PICTURES if p.name == "what-changed")
    path = script.make(picture, tmp_path)
    image = QImage(str(path))
    assert (image.width(), image.height()) == script.SIZE
    assert 20_000 < path.stat().st_size <= script.MOST_BYTES
    colours = {image.pixelColor(x, y).name() for x in range(0, 1280, 2) for y in range(0, 800, 2)}
    assert {"#cc8016", "#2f6fc0"} <= colours  # an activation's swatch and the line of the run after


def test_what_is_missing_is_said(script: ModuleType, tmp_path: Path) -> None:
    picture = script.PICTURES[0]
    with pytest.raises(RuntimeError, match="there is no view called Nowhere"):
        script.make(replace(picture, view="Nowhere"), tmp_path)
    with pytest.raises(RuntimeError, match=r"gone\.mstrata"):
        script.make(replace(picture, files=("gone.mstrata",)), tmp_path)


def test_pictures_have_names_of_their_own_and_real_samples(script: ModuleType, samples: Path) -> None:
    assert len({picture.name for picture in script.PICTURES}) == len(script.PICTURES) >= 5
    assert all((samples / name).exists() for picture in script.PICTURES for name in picture.files)


def test_every_view_can_be_pictured(script: ModuleType, tmp_path: Path) -> None:
    """In both themes and sizes the script takes a minute; here it is two views of one page."""
    made = script._every_view(tmp_path, "run-light-1100", script.SIZES[0], ("uniform.mstrata",))
    paths = list(islice(made, 2))
    made.close()
    assert len({path.name for path in paths}) == 2
    images = [QImage(str(path)) for path in paths]
    assert all((image.width(), image.height()) == script.SIZES[0] for image in images)
