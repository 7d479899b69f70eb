"""From paths to runs: one file, and a run directory beside another."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from ..model.called import tell_apart
from ..model.run import Run
from ..sources import open_file, open_run_directory
from ..sources.run_directory import RunDirectory


@dataclass(frozen=True)
class Held:
    """Runs, each with what it is held against; `folder` is where they are ranks of one run, `against` where the
    others are."""

    pairs: tuple[tuple[Run, Run | None], ...]
    folder: RunDirectory | None = None
    against: RunDirectory | None = None


def run_of_file(path: str) -> Run:
    """The run of a file, of the device with the highest peak; FormatError or OSError where it cannot be read."""
    return Run(open_file(path), name=os.path.basename(path) or path, path=path)


def runs_of_files(paths: Iterable[str]) -> list[Run]:
    """The runs of files that are looked at together, under names that differ."""
    runs = [run_of_file(path) for path in paths]
    tell_apart(runs)
    return runs


def runs_of_ranks(directory: RunDirectory) -> list[Run]:
    """The run of each rank, called by its file's name."""
    return [Run(file.recording, name=file.name, path=file.path) for file in directory.ranks]


def held(path: str, baseline: str | None) -> Held:
    """The run of a file, or each rank of a folder, with what it is held against: the same rank of another folder, or
    one file for all. ValueError with one sentence for a rank that the other folder lacks."""
    found = _held(path, baseline)
    for run, past in found.pairs:
        tell_apart([run] if past is None else [run, past])
    return found


def _held(path: str, baseline: str | None) -> Held:
    if not os.path.isdir(path):
        return Held(((run_of_file(path), None if baseline is None else run_of_file(baseline)),))
    folder = open_run_directory(path)
    runs = runs_of_ranks(folder)
    if baseline is None or not os.path.isdir(baseline):
        past = None if baseline is None else run_of_file(baseline)
        return Held(tuple((run, past) for run in runs), folder)
    against = open_run_directory(baseline)
    others = {run.recording.meta.rank: run for run in runs_of_ranks(against)}
    for run in runs:
        if run.recording.meta.rank not in others:
            raise ValueError(f"{baseline} has no rank {run.recording.meta.rank} to hold {run.name} against")
    return Held(tuple((run, others[run.recording.meta.rank]) for run in runs), folder, against)
