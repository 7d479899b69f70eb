"""From paths to runs: one file, and a run directory beside another."""

from __future__ import annotations

import os

from ..model.run import Run
from ..sources import open_file, open_run_directory
from ..sources.run_directory import RunDirectory


def run_of_file(path: str) -> Run:
    """The run of a file, of the device with the highest peak; FormatError or OSError where it cannot be read."""
    return Run(open_file(path), name=os.path.basename(path) or path)


def runs_of_ranks(directory: RunDirectory) -> list[Run]:
    """The run of each rank, called by its file's name."""
    return [Run(file.recording, name=file.name) for file in directory.ranks]


def beside(path: str, baseline: str | None) -> list[tuple[Run, Run | None]]:
    """The run of a file, or each rank of a folder, with what it is held against: the same rank of another folder, or
    one file for all. ValueError with one sentence for a rank that the other folder lacks."""
    if not os.path.isdir(path):
        return [(run_of_file(path), None if baseline is None else run_of_file(baseline))]
    runs = runs_of_ranks(open_run_directory(path))
    if baseline is None or not os.path.isdir(baseline):
        past = None if baseline is None else run_of_file(baseline)
        return [(run, past) for run in runs]
    others = {run.recording.meta.rank: run for run in runs_of_ranks(open_run_directory(baseline))}
    for run in runs:
        if run.recording.meta.rank not in others:
            raise ValueError(f"{baseline} has no rank {run.recording.meta.rank} to hold {run.name} against")
    return [(run, others[run.recording.meta.rank]) for run in runs]
