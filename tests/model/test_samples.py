"""The identities hold for every recording that comes with the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "samples").glob("*.mstrata"))


@pytest.mark.parametrize("sample", SAMPLES, ids=[p.stem for p in SAMPLES])
def test_everything_adds_up(sample: Path) -> None:
    recording = open_file(sample)
    for row in range(len(recording.meta.devices)):
        assert identities.check(Run(recording, row)) == []


@pytest.mark.parametrize("sample", SAMPLES, ids=[p.stem for p in SAMPLES])
def test_almost_all_bytes_at_the_peak_are_attributed(sample: Path) -> None:
    run = Run(open_file(sample))
    assert run.coverage_at(run.peak_position) > 0.95
