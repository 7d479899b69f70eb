"""Each room imports without what it must not need: checked in a fresh interpreter, module by module.

An import contract sees the import statements of one module; this sees what really gets imported, by the packages
around a module as well.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from . import tree
from .fresh import Rules, broken_rules

QT = ("PySide6", "shiboken6", "pyqtgraph")
FORMAT = ("memstrata.capture.format",)
CORE = ("numpy", "memstrata")

format_only = Rules(never=(*QT, "torch", "memstrata.viewer", "memstrata.capture"), only=CORE, exceptions=FORMAT)
recorder = Rules(never=(*QT, "memstrata.viewer"))
core = Rules(never=(*QT, "torch", "memstrata.capture"), only=CORE, exceptions=FORMAT)
desktop = Rules(never=("torch", "memstrata.capture"), exceptions=FORMAT)

ROOMS = {
    "memstrata.capture.format": format_only,
    "memstrata.capture": recorder,
    "memstrata.viewer.look": core,
    "memstrata.viewer.sources": core,
    "memstrata.viewer.model": core,
    "memstrata.viewer.analysis": core,
    "memstrata.viewer.report": core,
    "memstrata.viewer.cli": core,
    "memstrata.viewer.arguments": core,
    "memstrata.viewer.estimates": core,
    "memstrata.viewer.saying": core,
    "memstrata.viewer.pages": core,
    "memstrata.viewer.__main__": core,
    "memstrata.viewer.state": desktop,
    "memstrata.viewer.charts": desktop,
    "memstrata.viewer.panels": desktop,
    "memstrata.viewer.window": desktop,
}


def room_of(module: str) -> str | None:
    """The room with the longest name that the module lies in."""
    rooms = (room for room in ROOMS if module == room or module.startswith(room + "."))
    return max(rooms, key=len, default=None)


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_only_what_it_may(room: str) -> None:
    modules = [m for m in tree.modules() if room_of(m) == room]
    assert modules, f"{room} has no modules"
    assert broken_rules(modules, ROOMS[room]) == []


def test_every_module_lies_in_a_room() -> None:
    assert [m for m in tree.modules() if room_of(m) is None] == ["memstrata.viewer"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch", "impolite.module imports torch"),
        ("import torch.nn as nn", "impolite.module imports torch"),
        ("try:\n    import PySide6.QtCore\nexcept ImportError:\n    pass", "impolite.module imports PySide6"),
        ("import importlib\nimportlib.import_module('torch')", "impolite.module imports torch"),
        ("import packaging", "impolite.module imports packaging"),
        ("from memstrata.capture import layers", "impolite.module imports memstrata.capture.layers"),
        ("import memstrata.viewer.model.no_such_module", "impolite.module: ModuleNotFoundError: "),
    ],
)
def test_a_violation_is_found(tmp_path: Path, source: str, found: str) -> None:
    (tmp_path / "impolite").mkdir()
    (tmp_path / "impolite" / "module.py").write_text(source)
    lines = broken_rules(["impolite.module"], core, tmp_path)
    assert any(line.startswith(found) for line in lines), lines


def test_a_violation_of_the_package_around_is_found(tmp_path: Path) -> None:
    (tmp_path / "impolite").mkdir()
    (tmp_path / "impolite" / "__init__.py").write_text("from . import helper")
    (tmp_path / "impolite" / "helper.py").write_text("import torch")
    (tmp_path / "impolite" / "module.py").write_text("")
    assert "impolite.helper imports torch" in broken_rules(["impolite.module"], core, tmp_path)


def test_an_import_inside_a_function_is_no_violation(tmp_path: Path) -> None:
    (tmp_path / "polite.py").write_text("import json, numpy\ndef run():\n    import torch\n")
    assert broken_rules(["polite"], core, tmp_path) == []
