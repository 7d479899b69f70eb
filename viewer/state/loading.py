"""The work of opening files: from paths to runs, in stages that can be called off."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from memstrata.capture.format.problems import FormatError

from .. import sources
from ..model.run import Run
from .answers import answer_of
from .jobs import Job


@dataclass(frozen=True)
class Loaded:
    """The runs that opened, in order, and one sentence for each file that did not."""

    runs: tuple[Run, ...]
    sentences: tuple[str, ...]


def open_run(path: str) -> Run:
    """The run in a file; raises FormatError with one sentence."""
    return Run(sources.open_file(path), name=os.path.basename(path))


def load(paths: Sequence[str], job: Job) -> Loaded:
    """Open all files, each with what the first picture needs already worked out."""
    runs, sentences = [], []
    for number, path in enumerate(paths):
        job.progress(number / len(paths), f"Reading {os.path.basename(path)}")
        try:
            runs.append(open_run(path))
        except FormatError as error:
            sentences.append(str(error))
            continue
        _work_out(runs[-1], job, (number + 0.6) / len(paths))
    return Loaded(tuple(runs), tuple(sentences))


def prepare(runs: Sequence[Run], job: Job) -> Loaded:
    """Work out what the first picture of runs that are open already needs."""
    for number, run in enumerate(runs):
        _work_out(run, job, number / len(runs))
    return Loaded(tuple(runs), ())


def _work_out(run: Run, job: Job, done: float) -> None:
    job.progress(done, f"Pairing allocations of {run.name}")
    _ = run.curve
    job.progress(done, f"Finding layers and categories in {run.name}")
    answer_of(run)
