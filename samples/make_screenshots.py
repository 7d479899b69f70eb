"""Makes the pictures of the README from the samples: the real window, without a screen.

Each picture answers one question. They are made anew with the samples, so that they stay true; the colours are cut to
a palette, which keeps each below 150 kB. With --every it is every view of a run and of a comparison instead, in light
and dark and in two sizes, to look at before a release.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

os.environ["QT_QPA_PLATFORM"] = "offscreen"

import numpy as np
from PySide6.QtCore import QCoreApplication, QEvent, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QProgressBar

from memstrata.viewer.arguments import folder_to_write, script_parser
from memstrata.viewer.panels.appearance import choose
from memstrata.viewer.panels.compare_page import ComparePage
from memstrata.viewer.panels.run_page import RunPage
from memstrata.viewer.window import Window, application

SAMPLES = Path(__file__).resolve().parent
SIZE = (1280, 800)
SIZES = ((1100, 700), (1600, 1000))
PAGES = {"run": ("before.mstrata",), "comparison": ("before.mstrata", "after.mstrata")}
MOST_BYTES = 150_000
PATIENCE = 120.0  # seconds until a file must be open

Page = RunPage | ComparePage


@dataclass(frozen=True)
class Picture:
    """One picture: the question it answers is its name."""

    name: str
    files: tuple[str, ...]
    view: str = ""
    """Title of the view to bring to the front; empty for what is in front."""
    arrange: Callable[[Window], None] = lambda window: None


def _by_frame(window: Window) -> None:
    window.session.look(0, grouping="frame")


def _by_layer(window: Window) -> None:
    window.session.set(replace(window.session.state, cut="layer"))


def _try_the_plan(window: Window) -> None:
    run = window.session.state.runs[0]
    blocks = run.layers.super_blocks
    window.session.look(0, plan=tuple(run.layers.names[block.start : block.stop] for block in blocks))


def _between(window: Window) -> None:
    """From the start of the step to its peak: what was made there and is still alive."""
    run = window.session.state.runs[0]
    window.session.look(0, mark=0, cursor=run.peak_position, within="survived", grouping="layer")


def _without_selection(window: Window) -> None:
    window.session.look(0, allocation=None)


PICTURES = (
    Picture("where-did-it-go", ("before.mstrata",)),
    Picture("what-would-checkpointing-buy", ("before.mstrata",), "What if", _try_the_plan),
    Picture("what-did-it-buy", ("before.mstrata", "after.mstrata")),
    Picture("what-changed", ("before.mstrata", "after.mstrata"), "Appeared, gone, grown", _by_layer),
    Picture("which-line-allocates", ("before.mstrata",), "Stacks", _by_frame),
    Picture("which-allocations-make-the-peak", ("after.mstrata",), "Allocations", _without_selection),
    Picture("what-was-made-between-two-moments", ("before.mstrata",), "Alive here", _between),
    Picture("why-is-it-more-than-shapes-say", ("before.mstrata",), "Prediction"),
    Picture("which-rank-stands-out", ("ranks",), "All open runs"),
)


def make(picture: Picture, folder: Path) -> Path:
    """Write one picture. Raises RuntimeError where a file does not open or a tab is missing."""
    window = Window()
    try:
        window.resize(*SIZE)
        window.show()
        show(window, picture)
        image = with_palette(window.grab().toImage())
    finally:
        window.close()
        window.deleteLater()
        settle()
    path = folder / f"{picture.name}.png"
    if not image.save(str(path)) or path.stat().st_size > MOST_BYTES:
        raise RuntimeError(f"{path} could not be written within {MOST_BYTES:,} bytes")
    return path


def show(window: Window, picture: Picture) -> None:
    """Open the files of a picture and bring forward what it shows."""
    window.open_paths([str(SAMPLES / name) for name in picture.files])
    wait(lambda: bool(window.session.state.runs) or window.message.isVisible())
    if not window.session.state.runs:
        raise RuntimeError(f"{picture.name}: {window.message.text.text()}")
    page = window.content.currentWidget()
    assert isinstance(page, Page)
    picture.arrange(window)
    if picture.view:
        to_front(page, picture)
    rest(window)


def rest(window: Window) -> None:
    """Let everything be worked out; what is done may begin something else."""
    for _ in range(3):
        settle()
        wait(lambda: not any(bar.isVisible() for bar in window.findChildren(QProgressBar)))


def with_palette(image: QImage) -> QImage:
    """The image in its 256 most frequent colours; the others, of smoothed edges, go to the nearest of them."""
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), -1)[:, : image.width()]
    colours, counts = np.unique(pixels, return_counts=True)
    kept = colours[np.argsort(-counts, kind="stable")[:256]]
    flags = Qt.ImageConversionFlag.ThresholdDither | Qt.ImageConversionFlag.AvoidDither
    return image.convertToFormat(QImage.Format.Format_Indexed8, kept.tolist(), flags)


def to_front(page: Page, picture: Picture) -> None:
    """Bring the view of a picture to the front."""
    views = {title: key for key, title in page.hideable().items()}
    if picture.view not in views:
        raise RuntimeError(f"{picture.name}: there is no view called {picture.view}, only {', '.join(views)}")
    page.bring_forward(views[picture.view])


def wait(ready: Callable[[], bool]) -> None:
    """Let the window work until it is so far. Raises RuntimeError if that takes too long."""
    until = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > until:
            raise RuntimeError("a file did not open in time")
        QApplication.processEvents()
        time.sleep(0.01)


def settle(seconds: float = 0.3) -> None:
    """Let timers and posted events run out."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        QApplication.processEvents()
        time.sleep(0.01)
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def every_view(folder: Path) -> Iterator[Path]:
    """Write every view of a run and of a comparison, in light and dark, in both sizes."""
    for theme in ("light", "dark"):
        choose(theme)
        for size in SIZES:
            for kind, files in PAGES.items():
                yield from _every_view(folder, f"{kind}-{theme}-{size[0]}", size, files)


def _every_view(folder: Path, name: str, size: tuple[int, int], files: tuple[str, ...]) -> Iterator[Path]:
    window = Window()
    try:
        window.resize(*size)
        window.show()
        show(window, Picture(name, files))
        page = window.content.currentWidget()
        assert isinstance(page, Page)
        for key in page.hideable():
            page.bring_forward(key)
            rest(window)
            path = folder / f"{name}-{key}.png"
            if not window.grab().save(str(path)):
                raise RuntimeError(f"{path} could not be written")
            yield path
    finally:
        window.close()
        window.deleteLater()
        settle()


def main() -> None:
    """What the command line asks for."""
    parser = script_parser(__doc__)
    place = SAMPLES.parent / "docs" / "images"
    parser.add_argument("folder", nargs="?", type=folder_to_write, help="where to write them (default: docs/images)")
    parser.add_argument("--every", action="store_true", help="every view instead, into a folder that is named")
    asked = parser.parse_args()
    if asked.every and asked.folder is None:
        parser.error("--every needs a folder to write into")
    application()
    if asked.every:
        for path in every_view(asked.folder):
            print(path)
        return
    for picture in PICTURES:
        path = make(picture, asked.folder or place)
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
