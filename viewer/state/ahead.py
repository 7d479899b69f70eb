"""What a run's page will ask for, worked out before it asks: first the first picture, then what may come next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from memstrata.capture.format.schema import I32, I64

from ..analysis.findings import findings
from ..model import stacks
from ..model.axes import AXES, available_axes
from ..model.bands import bands_of
from ..model.curves import local_peaks
from ..model.grouping import available, preferred
from ..model.peaks import peaks_of, reserved_peaks
from ..model.run import Run
from . import tab_facts
from .jobs import Job
from .run_tables import allocation_columns
from .view_state import first_view

MANY = 50_000
"""Allocations from which on work is put off or into a job, where it would not be noticed with fewer."""
AHEAD = "Making other views ready"


def first_frames(run: Run) -> I32:
    """The frame that stands for each stack."""
    return stacks.first_user_frames(run.recording)


def step_peaks(run: Run) -> I64:
    """Positions of the peaks of all bytes that stand out."""
    return local_peaks(run.curve)


def first_picture(run: Run) -> None:
    """What the page shows when it opens: the bands in force and their peaks, the axis, the table, problems, tabs."""
    view = first_view(run, preferred(run))
    _ = run.problems
    run.once(peaks_of)
    run.once(reserved_peaks)
    run.once(AXES[view.axis].make)
    allocation_columns(bands_of(run, view.grouping))
    tab_facts.work_out(run)


def afterwards(run: Run, job: Job) -> None:
    """What is asked for at a click: local peaks, findings, other groupings and axes, stacks, what is alive anywhere."""
    work: list[Callable[[], object]] = [partial(run.once, step_peaks), partial(run.once, findings)]
    work += [partial(bands_of, run, key) for key in available(run)]
    work += [partial(run.once, spec.make) for spec in available_axes(run).values()]
    work += [partial(run.once, first_frames), lambda: run.live]
    for number, make in enumerate(work):
        job.progress(number / len(work), AHEAD)
        make()
