"""A run directory: one recording for each rank of a run, and whatever else has gathered in that folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Meta, Recording

ENDING = ".mstrata"


@dataclass(frozen=True)
class RankFile:
    """One rank's recording. `path` is the file's, `name` its name in the folder."""

    rank: int
    name: str
    path: str
    recording: Recording


@dataclass(frozen=True)
class RunDirectory:
    """The ranks of the run written last, in order of rank, and what else is to be said of the folder.

    `problems` are whole sentences: ranks without a file, damaged files (named), files of other runs (left out).
    """

    name: str
    world_size: int
    ranks: tuple[RankFile, ...]
    missing: tuple[int, ...]
    problems: tuple[str, ...]

    @property
    def incomplete(self) -> str:
        """Which ranks have no file that can be read, one of `problems`; empty where all have."""
        return "".join(_missing(self.missing, self.world_size))


RunKey = tuple[str | None, int]
"""What the files of one run have in common: the name the ranks agreed on, if they could, and the world size."""


def recordings_in(path: str | os.PathLike[str]) -> list[Path]:
    """The `.mstrata` files of a folder, in order of name. Raises FormatError where it has none or cannot be read."""
    folder = Path(path)
    try:
        found = sorted(file for file in folder.iterdir() if file.suffix == ENDING and not file.name.startswith("."))
    except OSError as error:
        raise FormatError(f"{folder.name} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    if not found:
        raise FormatError(f"{folder.name or folder} is a folder without any {ENDING} recording.")
    return found


def run_directory(folder: str | os.PathLike[str], files: Sequence[RankFile], damaged: Sequence[str]) -> RunDirectory:
    """What the files of a folder make up; `damaged` are the sentences of those that cannot be read.

    Raises FormatError where no file can be read, or where they are no ranks of one run.
    """
    name = Path(folder).absolute().name
    if not files:
        raise FormatError(f"{name} holds no recording that can be read: {damaged[0]}")
    if len(files) > 1 and all(file.recording.meta.world_size == 1 for file in files):
        raise FormatError(f"{name} holds {len(files)} recordings of single processes, not the ranks of one run.")
    key = _latest(files)
    mine, twice = _one_for_each_rank([file for file in files if _key(file.recording.meta) == key])
    others = [file for file in files if _key(file.recording.meta) != key]
    missing = tuple(sorted(set(range(key[1])) - {file.rank for file in mine}))
    said = [*damaged, *twice, *_other_runs(others), *_missing(missing, key[1]), *_steps(mine), *_ages(mine, key)]
    return RunDirectory(name, key[1], tuple(mine), missing, tuple(said))


def _key(meta: Meta) -> RunKey:
    return meta.run_id, meta.world_size


def _latest(files: Sequence[RankFile]) -> RunKey:
    """The run whose files were written last."""
    last = max(files, key=lambda file: (file.recording.meta.created or "", file.recording.meta.world_size))
    return _key(last.recording.meta)


def _one_for_each_rank(files: Sequence[RankFile]) -> tuple[list[RankFile], list[str]]:
    kept: dict[int, RankFile] = {}
    said = []
    for file in sorted(files, key=lambda file: file.recording.meta.created or "", reverse=True):
        first = kept.setdefault(file.rank, file)
        if first is not file:
            said.append(f"{file.name} is of rank {file.rank}, as the newer {first.name} is, and is left out.")
    return [kept[rank] for rank in sorted(kept)], said


def _other_runs(files: Sequence[RankFile]) -> list[str]:
    said = []
    for key, count in Counter(_key(file.recording.meta) for file in files).items():
        names = ", ".join(file.name for file in files if _key(file.recording.meta) == key)
        verb, made = ("is", "was") if count == 1 else ("are", "were")
        created = next(f.recording.meta.created for f in files if _key(f.recording.meta) == key)
        when = f", written {created}" if created else ""
        said.append(f"{names} {verb} of another run (world size {key[1]}{when}) and {made} left out.")
    return said


def _missing(missing: Sequence[int], world_size: int) -> list[str]:
    if not missing:
        return []
    which = ", ".join(map(str, missing))
    ranks = f"rank {which} is" if len(missing) == 1 else f"ranks {which} are"
    return [f"The run had {world_size} ranks; {ranks} missing here."]


def _steps(files: Sequence[RankFile]) -> list[str]:
    steps = {file.recording.meta.step_index for file in files}
    if len(steps) < 2:
        return []
    found = "; ".join(f"rank {file.rank} step {_step(file)}" for file in files)
    return [f"The ranks recorded different steps, which do not compare: {found}."]


def _step(file: RankFile) -> str:
    index = file.recording.meta.step_index
    return "unknown" if index is None else str(index)


def _ages(files: Sequence[RankFile], key: RunKey) -> list[str]:
    """Without an agreed name only the clock tells runs of one world size apart."""
    created = sorted(file.recording.meta.created or "" for file in files)
    if key[0] is not None or not created[0] or created[0][:16] == created[-1][:16]:
        return []
    return [f"The files do not say that they are of one run: written from {created[0]} to {created[-1]}."]


def rank_of(path: Path, recording: Recording) -> RankFile:
    """A file of a run directory; `path` gives its name."""
    return RankFile(recording.meta.rank, path.name, str(path), recording)
