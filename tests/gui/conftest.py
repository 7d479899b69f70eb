"""The real window on real files, and nothing left of it after a test."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QTimer
from PySide6.QtGui import QColor, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from memstrata.capture.format import files, schema
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.recording import Device, Meta, Recording, build
from memstrata.capture.format.schema import NONE, Action, Fate, Phase, StorageKind
from memstrata.viewer.panels.compare_page import ComparePage
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.window import Window, application

MIB = 1 << 20
LAYERS, HIDDEN, TOKENS = 4, 1024, 256
WEIGHT, KEPT, HEAD = 4 * MIB, 2 * MIB, 20 * MIB


class Tape:
    """One training step of four layers written down event by event, a millisecond each.

    A layer holds a 1024 x 1024 weight (4 MiB) and keeps 2 MiB for backward; the head takes 20 MiB between forward and
    backward, which sets the peak of the plain step: 16 + 8 + 20 = 44 MiB.
    """

    def __init__(self, checkpointed: bool) -> None:
        self.strings, self.checkpointed, self.now = StringTable(), checkpointed, 0
        self.stacks = StackTable(self.strings)
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in schema.TABLES}
        self.storages = 0
        self._model()
        self._phase(Phase.forward, self._forward)
        self._phase(Phase.backward, self._backward)
        self._phase(Phase.optimizer, lambda: self._passing(3 * MIB, "step"))

    def _model(self) -> None:
        word = self.strings.intern
        self.rows["modules"] += [(NONE, word(""), word("Model"), False), (0, word("layers"), word("ModuleList"), False)]
        for i in range(LAYERS):
            row = len(self.rows["modules"])
            cls = word(("Even", "Odd")[i % 2])
            self.rows["modules"] += [
                (1, word(f"layers.{i}"), cls, True),
                (row, word(f"layers.{i}.fc"), word("Linear"), False),
            ]
            self.rows["layers"].append((0, i, row, word(f"{('Even', 'Odd')[i % 2]}(Linear)")))
            shape = word(f"{HIDDEN},{HIDDEN}")
            self.rows["module_parameters"].append((row + 1, word("weight"), shape, word("float32"), WEIGHT, True))
            name = word(f"layers.{i}.fc.weight")
            self.rows["known_storages"].append((StorageKind.parameter, 0, 0x1000 + i, WEIGHT, name, row + 1, 0, NONE))

    def _tick(self) -> int:
        self.now += 1_000_000
        return self.now

    def _stack(self, function: str) -> int:
        frames = [("main", "/home/user/train.py", 9), ("forward", "torch/nn/modules/linear.py", 134), (function, "", 0)]
        return self.stacks.stack([self.stacks.frame(*frame) for frame in frames])

    def alloc(self, address: int, size: int, function: str) -> None:
        stack = self._stack(function)
        self.rows["events"].append((Action.alloc, 0, address, size, self._tick(), stack, 0, NONE, NONE, NONE))

    def free(self, address: int, size: int) -> None:
        self.rows["events"].append((Action.free_completed, 0, address, size, self._tick(), NONE, 0, NONE, NONE, NONE))

    def _span(self, phase: Phase, module: int, work: Callable[[], None]) -> None:
        start = self._tick()
        place = len(self.rows["spans"])
        work()
        self.rows["spans"].insert(place, (module, phase, 0, start, self._tick(), NONE, NONE))

    def _phase(self, phase: Phase, work: Callable[[], None]) -> None:
        self._span(phase, NONE, work)

    def _passing(self, size: int, function: str) -> None:
        self.alloc(0x9000, size, function)
        self.free(0x9000, size)

    def _save(self, layer: int, phase: Phase, fate: Fate) -> None:
        word, address = self.strings.intern, 0x2000 + layer
        self.alloc(address, KEPT, "aten::addmm")
        self.rows["saved_tensors"].append(
            (self._tick(), NONE, 3 + 2 * layer, phase, fate, NONE, self.storages, NONE, 0, address, KEPT, KEPT,
             word("512,1024"), word("float32"), word("AddmmBackward0"), NONE, NONE)
        )  # fmt: skip
        self.storages += 1

    def _forward(self) -> None:
        for i in range(LAYERS):
            fate = Fate.dropped if self.checkpointed else Fate.kept
            self._span(Phase.forward, 2 + 2 * i, lambda i=i, fate=fate: self._forward_layer(i, fate))
        self._passing(HEAD, "aten::log_softmax")

    def _forward_layer(self, layer: int, fate: Fate) -> None:
        self._save(layer, Phase.forward, fate)
        if fate == Fate.dropped:
            self.free(0x2000 + layer, KEPT)

    def _backward(self) -> None:
        for block in reversed(range(0, LAYERS, 2)):
            if self.checkpointed:
                for i in (block, block + 1):
                    work = lambda i=i: self._save(i, Phase.recompute, Fate.rematerialized)
                    self._span(Phase.recompute, 2 + 2 * i, work)
            for i in (block + 1, block):
                self._span(Phase.backward, 2 + 2 * i, lambda i=i: self._backward_layer(i))

    def _backward_layer(self, layer: int) -> None:
        name = self.strings.intern(f"grad of layers.{layer}.fc.weight")
        self.alloc(0x3000 + layer, MIB, "aten::mm")
        self.rows["known_storages"].append(
            (StorageKind.gradient, 0, 0x3000 + layer, MIB, name, 3 + 2 * layer, self.now, NONE)
        )
        self.free(0x2000 + layer, KEPT)

    def recording(self) -> Recording:
        frames, stacks = self.stacks.freeze()
        tables = {name: schema.from_rows(table, self.rows[name]) for name, table in schema.TABLES.items()}
        tables |= {"frames": frames, "stacks": stacks}
        segments = tuple((f"layers.{i}", f"layers.{i + 1}") for i in range(0, LAYERS, 2))
        meta = Meta(
            source="cpu", devices=(Device("cpu", 0),), torch_version="2.13.0", model="Model", batch=1, sequence=TOKENS,
            dtype="float32", loss=1.0, plan=segments if self.checkpointed else None, step_seconds_recorded=0.05,
            step_seconds_unrecorded=0.04,
        )  # fmt: skip
        return build(meta, self.strings, **tables)


@pytest.fixture(scope="session")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Files of a plain and of a checkpointed step of which every byte is known."""
    folder = tmp_path_factory.mktemp("tapes")
    paths = []
    for name, checkpointed in (("plain.mstrata", False), ("checkpointed.mstrata", True)):
        files.write(Tape(checkpointed).recording(), folder / name)
        paths.append(str(folder / name))
    return paths[0], paths[1]


@pytest.fixture(scope="session")
def pair(samples: Path) -> tuple[str, str]:
    """The two real recordings that come with the project."""
    found = samples / "before.mstrata", samples / "after.mstrata"
    if not all(path.is_file() for path in found):
        pytest.skip("no sample recordings yet")
    return str(found[0]), str(found[1])


def settle() -> None:
    """Let posted events and deferred deletions happen."""
    for _ in range(2):
        QApplication.processEvents()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()


@pytest.fixture(scope="package", autouse=True)
def modules_apart() -> Iterator[None]:
    """What the modules hold is not looked through at each collection: `settle` collects several times in a test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_left(qapp: QApplication) -> Iterator[None]:
    """After each test: no window, no thread of ours, no timer that runs, and the palette as it was."""
    palette = qapp.palette()
    yield
    settle()
    left = [widget for widget in qapp.topLevelWidgets() if widget.objectName() != "qtooltip_label"]
    timers = [timer for timer in qapp.findChildren(QTimer) if timer.isActive()]
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("memstrata")]
    qapp.setPalette(palette)
    assert not left
    assert not timers
    assert not threads


@pytest.fixture
def window(qapp: QApplication, nothing_left: None) -> Iterator[Window]:
    """An empty window, closed at the end."""
    application()
    made = Window()
    made.resize(1600, 1000)
    made.show()
    if qapp.platformName() != "offscreen":  # there no window manager gives it the keyboard
        made.activateWindow()
        assert QTest.qWaitForWindowActive(made, 10_000)
    yield made
    made.close()
    made.deleteLater()
    del made
    settle()


def ready(page: RunPage | ComparePage, qtbot: QtBot) -> None:
    """Wait until a page has made all that it shows: it is made in steps."""
    qtbot.waitUntil(lambda: page.stages.is_done, timeout=10_000)
    settle()


def make_all(page: RunPage | ComparePage) -> None:
    """Make the views too that nobody has looked at yet."""
    assert all(page.views[key] is not None for key in page.views)


def worked(view: Any, qtbot: QtBot) -> Any:
    """A view once it knows what it works out in the background."""
    qtbot.waitUntil(lambda: view.isVisible() and not view.work.is_busy, timeout=20_000)
    assert not view.work.is_stopped
    return view


Opener = Callable[..., Any]


@pytest.fixture
def opened(window: Window, qtbot: QtBot) -> Opener:
    """Open files as a user does, in a job, and give back the page that is in front."""

    def open_them(*paths: str) -> RunPage | ComparePage:
        before = len(window.session.state.runs)
        window.open_paths(list(paths))
        qtbot.waitUntil(lambda: len(window.session.state.runs) == before + len(paths), timeout=20_000)
        settle()
        page = window.content.currentWidget()
        assert isinstance(page, RunPage | ComparePage)
        ready(page, qtbot)
        return page

    return open_them


@pytest.fixture
def dark() -> QPalette:
    """A dark palette, as a system in dark mode gives one."""
    palette = QPalette()
    for role in (QPalette.ColorRole.Window, QPalette.ColorRole.Base, QPalette.ColorRole.Button):
        palette.setColor(role, QColor("#202124"))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        palette.setColor(role, QColor("#e8e8e8"))
    return palette
