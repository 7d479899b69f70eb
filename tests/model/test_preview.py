"""What is shown of a run before its allocations are paired is what pairing finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memstrata.viewer.model.axes import AXES
from memstrata.viewer.model.curves import unpaired
from memstrata.viewer.model.preview import preview
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from ..conftest import SNAPSHOTS


@pytest.mark.parametrize("path", sorted(SNAPSHOTS.glob("*.pickle")), ids=lambda path: path.stem)
def test_the_events_alone_tell_the_curve_of_each_device(path: Path) -> None:
    recording = open_file(path)
    for device in range(len(recording.meta.devices)):
        assert np.array_equal(unpaired(recording, device), Run(recording, device).curve)


@pytest.mark.parametrize(("name", "axis"), [("torch26-train-mid-run", "time"), ("torch21-train-deep-stacks", "events")])
def test_a_preview_is_on_the_axis_and_at_the_peak_of_the_run(snapshots: Path, name: str, axis: str) -> None:
    run = Run(open_file(snapshots / f"{name}.pickle"), name=name)
    shown = preview(run)
    assert "_paired" not in vars(run)  # nothing was paired for it
    assert shown.axis is run.once(AXES[axis].make) and shown.name == name and shown.n_events == run.n_events
    assert (shown.peak_position, shown.peak_bytes) == (run.peak_position, run.peak_bytes)


def test_so_they_do_in_recordings_of_the_cpu(samples: Path) -> None:
    paths = sorted(samples.glob("*.mstrata"))
    assert paths
    for path in paths:
        run = Run(open_file(path))
        assert np.array_equal(unpaired(run.recording, run.device_row), run.curve)
