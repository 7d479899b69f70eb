"""The files opened lately, and the samples that are at hand."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..look.tips import one_line
from ..model.called import is_same_file
from .settings import Settings

MOST = 12
_RECENT, _FOLDER, _EXPORTS = "files/recent", "files/folder", "files/export_folder"


@dataclass(frozen=True)
class RecentFile:
    """A file or run directory that was opened once."""

    path: str
    why_not: str
    """Why it cannot be opened now; empty if it can."""

    @property
    def name(self) -> str:
        """What the file is called."""
        return os.path.basename(self.path)

    @property
    def folder(self) -> str:
        """The folder it lies in, the user's own as `~`."""
        folder, home = os.path.dirname(self.path), os.path.expanduser("~")
        return "~" + folder[len(home) :] if folder == home or folder.startswith(home + os.sep) else folder


class RecentFiles:
    """Newest first, each once, kept in the settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def files(self) -> list[RecentFile]:
        """All of them, those that are gone too."""
        return [RecentFile(path, _why_not(path)) for path in self.settings.texts(_RECENT)[:MOST]]

    def add(self, paths: Iterable[str]) -> None:
        """These were opened just now, the last of them last."""
        new = list(dict.fromkeys(os.path.abspath(path) for path in reversed(list(paths))))
        if new:
            old = [path for path in self.settings.texts(_RECENT) if path not in new]
            self.settings.set(_RECENT, [*new, *old][:MOST])
            self.folder = os.path.dirname(new[0])

    def add_opened(self, paths: Iterable[str], names: set[str]) -> None:
        """Of these, the ones whose runs, known by their files' names, opened; a folder counts if any did."""
        self.add(p for p in paths if one_line(os.path.basename(p)) in names or (names and os.path.isdir(p)))

    def holds(self, path: str) -> bool:
        """Whether this is one of them, by whatever name."""
        return any(is_same_file(path, known) for known in self.settings.texts(_RECENT))

    def forget(self, path: str) -> None:
        """Leave one out of the list; the file itself is not touched."""
        self.settings.set(_RECENT, [known for known in self.settings.texts(_RECENT) if known != path])

    def clear(self) -> None:
        """Empty the list."""
        self.settings.set(_RECENT, [])

    @property
    def folder(self) -> str:
        """Where the last file was opened or written, or the folder the program was started in."""
        folder = self.settings.text(_FOLDER)
        return folder if os.path.isdir(folder) else os.getcwd()

    @folder.setter
    def folder(self, folder: str) -> None:
        self.settings.set(_FOLDER, folder)

    @property
    def export_folder(self) -> str:
        """Where the last export was written, or else where files are opened from."""
        folder = self.settings.text(_EXPORTS)
        return folder if os.path.isdir(folder) else self.folder

    @export_folder.setter
    def export_folder(self, folder: str) -> None:
        self.settings.set(_EXPORTS, folder)


def _why_not(path: str) -> str:
    try:
        os.stat(path)
    except FileNotFoundError:
        return "not there any more" if os.path.isdir(os.path.dirname(path)) else "its folder is not there"
    except (OSError, ValueError):
        return "cannot be read"
    return "" if os.access(path, os.R_OK) else "cannot be read"


@dataclass(frozen=True)
class Sample:
    """Files to look at without a recording of one's own."""

    title: str
    paths: tuple[str, ...]


_SAMPLES = (
    ("A step before and after checkpointing, compared", ("before.mstrata", "after.mstrata")),
    ("A uniform model", ("uniform.mstrata",)),
    ("An encoder and a decoder", ("encoder-decoder.mstrata",)),
    ("Layers that are not alike", ("irregular.mstrata",)),
    ("A step that raised an error", ("raised.mstrata",)),
    ("Two ranks of one run", ("ranks",)),
)


SAMPLES = Path(__file__).resolve().parents[2] / "samples"


def samples(folder: Path = SAMPLES) -> list[Sample]:
    """The samples beside the packages: those of the project's folder, and none where only the packages are."""
    found = [Sample(title, tuple(str(folder / name) for name in names)) for title, names in _SAMPLES]
    return [sample for sample in found if all(os.path.exists(path) for path in sample.paths)]
