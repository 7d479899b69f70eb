"""What the CUDA source does with a snapshot, on real ones: the part that needs no GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from memstrata.capture.allocation_sources.cuda import since
from memstrata.capture.format.recording import Recording, build
from memstrata.capture.format.schema import Action, MarkKind
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file


def cut(recording: Recording, first: int) -> Recording:
    """The recording from event `first` on, as if the user's history had begun long before the step."""
    start = int(recording.events.time[first]) + 999  # within the microsecond of the event
    events, marks = since(recording.events, recording.marks, start)
    tables = dict(recording.tables(), events=events, marks=marks)
    return build(recording.meta, recording.strings, **tables)


def test_a_step_cut_out_of_a_longer_history_keeps_its_peak(snapshots: Path) -> None:
    whole = open_file(snapshots / "torch26-train-mid-run.pickle")
    full, first = Run(whole), 3000
    while whole.events.time[first] == whole.events.time[first - 1]:
        first += 1
    part = Run(cut(whole, first))
    assert part.n_events == full.n_events - first
    assert part.peak_bytes == full.peak_bytes and part.peak_position == full.peak_position - first
    assert np.array_equal(part.curve, full.curve[first:])


def test_marks_stand_before_the_same_event(snapshots: Path) -> None:
    whole = open_file(snapshots / "torch28-oom-three-gpus-expandable.pickle")
    oom = int(np.flatnonzero(whole.marks.kind == MarkKind.oom)[0])
    before = int(whole.marks.event[oom])
    assert before > 0
    first = before - 10
    while whole.events.time[first] == whole.events.time[first - 1]:
        first -= 1
    part = cut(whole, first)
    mark = int(np.flatnonzero(part.marks.kind == MarkKind.oom)[0])
    assert int(part.marks.event[mark]) == before - first
    assert np.array_equal(part.events.address, whole.events.address[first:])
    assert (part.events.action == Action.oom).sum() == (whole.events.action[first:] == Action.oom).sum()
