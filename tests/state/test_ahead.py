"""What the first picture needs is worked out in the job that opens a file, and what may come next after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from memstrata.viewer.model.bands import bands_of
from memstrata.viewer.model.grouping import available, preferred
from memstrata.viewer.model.peaks import peaks_of
from memstrata.viewer.state.ahead import afterwards, first_frames
from memstrata.viewer.state.jobs import Cancelled, Job
from memstrata.viewer.state.loading import load, open_run


def quiet() -> Job:
    return Job(1, "", lambda *_: None)


def test_nothing_that_grows_with_the_file_is_left_to_the_window(samples: Path, monkeypatch) -> None:
    (run,) = load([str(samples / "before.mstrata")], quiet()).runs
    assert {"curve", "attribution", "problems", "reserved", "_paired"} <= vars(run).keys()
    known = dict(run._once)
    bands, axis = bands_of(run, preferred(run)), run.once(peaks_of)
    assert run._once == known and bands is not None and axis is not None
    monkeypatch.setattr("memstrata.viewer.model.bands.group_sums", None)
    assert bands_of(run, preferred(run)).bytes_at([run.peak_position]).sum() == run.peak_bytes


def test_afterwards_every_grouping_and_axis_is_ready(samples: Path, monkeypatch) -> None:
    run = open_run(str(samples / "before.mstrata"))
    afterwards(run, quiet())
    monkeypatch.setattr("memstrata.viewer.model.bands.group_sums", None)
    for key in available(run):
        assert bands_of(run, key).grouping.key == key
    assert (first_frames,) in run._once and "live" in vars(run)


def test_it_stops_when_nobody_waits_any_more(samples: Path) -> None:
    job = quiet()
    job.cancel()
    with pytest.raises(Cancelled):
        afterwards(open_run(str(samples / "before.mstrata")), job)
