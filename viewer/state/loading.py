"""The work of opening files: from paths to runs, in stages that can be called off."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memstrata.capture.format.problems import FormatError

from .. import sources
from ..analysis.ranks import Ranks, ranks_sentence
from ..look.tips import one_line
from ..model.preview import preview
from ..model.run import Run
from .ahead import MANY, first_picture
from .answers import answer_of
from .jobs import Job

Said = Callable[[str, float], None]
_READING = 0.6
"""How much of the time until the first picture goes into reading."""
MOST_RANKS = 8
"""So many tabs can still be told apart."""


@dataclass(frozen=True)
class Loaded:
    """The runs that opened, in order, and one sentence for each file that did not."""

    runs: tuple[Run, ...]
    sentences: tuple[str, ...]
    ranks: bool = False
    """Whether the runs are the ranks of one run."""
    pair: tuple[Run, Run] | None = None
    """The ranks to compare: the one in the middle and the one that stands out; None where none does."""


def open_path(path: str, said: Said | None = None) -> Loaded:
    """The run in a file, or the ranks in a run directory; raises FormatError with one sentence."""
    if not os.path.isdir(path):
        return Loaded((open_run(path, said),), ())
    directory = sources.open_run_directory(path)
    runs = tuple(Run(file.recording, name=one_line(file.name), path=file.path) for file in directory.ranks)
    return Loaded(runs, directory.problems, ranks=len(runs) > 1)


def open_paths(paths: Sequence[str]) -> Loaded:
    """Everything in these files and run directories; raises FormatError at the first that cannot be read."""
    return _together([open_path(path) for path in paths])


def _together(found: Sequence[Loaded]) -> Loaded:
    runs = tuple(run for one in found for run in one.runs)
    sentences = tuple(sentence for one in found for sentence in one.sentences)
    return Loaded(runs, sentences, ranks=len(found) == 1 and found[0].ranks)


def open_run(path: str, said: Said | None = None) -> Run:
    """The run in a file; raises FormatError with one sentence, and whatever `said(stage, fraction)` raises."""
    return Run(sources.open_file(path, progress=said), name=one_line(os.path.basename(path)), path=path)


def _reading(job: Job, path: str, begin: float, share: float) -> Said:
    """Passes on how far reading a file is, as this share of the whole job; raises `Cancelled` inside the reader."""
    name, stages = os.path.basename(path), {"Unpacking": (0.0, 0.3), "Reading": (0.0, 0.85)}

    def said(stage: str, fraction: float) -> None:
        start, end = stages.get(stage, (0.85, 1.0))
        job.progress(begin + share * (start + (end - start) * fraction), f"{stage} {name}")

    return said


def load(paths: Sequence[str], job: Job, all_or_none: bool = False) -> Loaded:
    """Open all files, each with what the first picture needs already worked out; the bytes of a large one are shown
    before that. One that cannot be read becomes a sentence; if it is to be all or none, it raises FormatError."""
    found = []
    for number, path in enumerate(paths):
        begin, share = number / len(paths), 1 / len(paths)
        job.progress(begin, f"Reading {os.path.basename(path)}")
        try:
            one = open_path(path, _reading(job, path, begin, share * _READING))
        except FormatError as error:
            if all_or_none:
                raise
            found.append(Loaded((), (str(error),)))
            continue
        rest = share * (1 - _READING) / max(len(one.runs), 1)
        if len(one.runs) == 1 and one.runs[0].n_events >= MANY:
            job.show(preview(one.runs[0]))
        for place, run in enumerate(one.runs):
            _work_out(run, job, begin + share * _READING + place * rest, rest)
        found.append(one)
    return compared_ranks(_together(found))


def compared_ranks(loaded: Loaded) -> Loaded:
    """Of ranks: which two to compare, or in words that all agree, and no more of them than there is room for tabs."""
    if not loaded.ranks:
        return loaded
    ranks = Ranks(loaded.runs)
    sentences = loaded.sentences if ranks.outlier else (ranks_sentence(ranks), *loaded.sentences)
    if len(loaded.runs) > MOST_RANKS:
        sentences += (f"{MOST_RANKS} of {len(loaded.runs)} ranks are open; name the files to open others.",)
    runs = tuple(row.run for row in ranks.farthest(MOST_RANKS))
    pair = None if ranks.outlier is None else (ranks.reference.run, ranks.outlier.run)
    return Loaded(runs, sentences, ranks=True, pair=pair)


def _work_out(run: Run, job: Job, begin: float, share: float) -> None:
    """What the first picture needs, in steps that say how far they are and can be called off in between."""
    stages: tuple[tuple[str, Callable[[Run], object]], ...] = (
        ("Pairing allocations of", lambda run: run.curve),
        ("Finding layers and categories in", answer_of),
        ("Adding up", first_picture),
    )
    for number, (stage, work) in enumerate(stages):
        job.progress(begin + share * number / len(stages), f"{stage} {run.name}")
        work(run)
