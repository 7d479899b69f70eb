"""What files are called: by their name alone, or where two of one name are open together by their folders too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..look.tips import harmless


@dataclass
class Called:
    """The name of one file. All devices of the file share it."""

    file: str
    """Its name in its folder."""
    path: str = ""
    """Where it lies; empty where nothing was read from a file."""
    shown: str = ""
    """What it is called now, `b/run.mstrata`."""

    def __post_init__(self) -> None:
        self.shown = self.shown or self.file

    def is_same(self, other: Called) -> bool:
        """Whether both are one file; where nothing was read from a file, whether they are called the same."""
        if self.path and other.path:
            return _real(self) == _real(other)
        return self.file == other.file


def is_same_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether both are there and are one file, by whatever names."""
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


class _Named(Protocol):
    @property
    def called(self) -> Called: ...


def tell_apart(runs: Iterable[_Named]) -> None:
    """Give runs that are open together names that differ: as much of the folders as it takes, and a file that is
    there twice is told as such."""
    names = list({id(run.called): run.called for run in runs if run.called.path}.values())
    for file in {one.file for one in names}:
        alike = [one for one in names if one.file == file]
        folders = _folders({_real(one) for one in alike})
        seen: dict[str, int] = {}
        for one in alike:
            path = _real(one)
            times = seen[path] = seen.get(path, 0) + 1
            one.shown = (
                folders[path] + file + ("" if times == 1 else f" (same file again{f', {times}' if times > 2 else ''})")
            )


def _real(one: Called) -> str:
    return os.path.realpath(one.path)


def _folders(paths: set[str]) -> dict[str, str]:
    """In front of the name of each path: its last folders, as many as make all of them differ, printable."""
    parts = {path: path.split(os.sep)[:-1] for path in paths}
    for count in range(max(map(len, parts.values())) + 1):
        found = {path: "/".join([*folders[len(folders) - min(count, len(folders)) :], ""])
                 for path, folders in parts.items()}  # fmt: skip
        if len({*found.values()}) == len(paths):
            break
    return {path: harmless(text) for path, text in found.items()}
