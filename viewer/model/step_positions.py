"""Where the training steps of a run begin and end, among its positions."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import NONE

from .run import Run


def step_positions(run: Run) -> tuple[tuple[int, int], ...]:
    """(first, last position) of each step: as recorded, where there are several; else as inferred. The last step is
    cut off at the end where the recording is. () where nothing parts the events."""
    if run.inferred is not None:
        return run.inferred.steps
    table = run.recording.steps
    rows = np.flatnonzero(table.recorded)
    if len(rows) < 2 or not run.has_times:
        return ()
    first = run.events.before_tick(table.start_time[rows])
    last = np.where(table.end_time[rows] == NONE, run.n_events, run.events.started(table.end_time[rows]))
    return tuple(zip(first.tolist(), last.tolist()))
