"""The figures by which several open runs are told apart, one row for each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memstrata.capture.format.schema import Category

from ..model.run import Run
from .ranks import Ranks
from .steps import throughput
from .warnings import ranks_of_one_run


@dataclass(frozen=True)
class RunFigures:
    """Bytes and speed of one run; None is unknown."""

    name: str
    rank: int | None
    """None unless it is one of several ranks."""
    peak_bytes: int
    activation_bytes: int | None
    """Highest, at its own moment."""
    communication_bytes: int | None
    """Highest, at its own moment; None unless it is one of several ranks."""
    reserved_bytes: int | None
    """Highest."""
    unused_bytes: int | None
    """Reserved at the end and not in use: rounding, and what the allocator keeps."""
    step_seconds: float | None
    """Of an unrecorded step."""
    tokens_per_second: float | None
    """Of unrecorded steps."""


def figures_of(run: Run) -> RunFigures:
    """The figures of one run."""
    meta, end = run.recording.meta, run.end_state
    several = meta.world_size > 1
    return RunFigures(
        run.name,
        meta.rank if several else None,
        run.peak_bytes,
        int(run.activation_curve.max()) if "saved_tensors" in run.capabilities else None,
        int(run.category_curve(Category.communication).max()) if several else None,
        None if run.reserved is None else int(run.reserved.max()),
        None if end is None else end.rounding_bytes + end.cached_bytes,
        meta.step_seconds_unrecorded,
        throughput(run.recording),
    )


def ranks_among(runs: Sequence[Run], pair: tuple[Run, Run]) -> Ranks | None:
    """The open ranks of the run that both of a pair belong to; None where they are not ranks of one run."""
    if not ranks_of_one_run(*pair):
        return None
    found = [run for run in runs if run in pair or all(ranks_of_one_run(run, one) for one in pair)]
    return Ranks(sorted(found, key=lambda run: run.recording.meta.rank))
