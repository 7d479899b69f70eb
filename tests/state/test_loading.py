"""Opening files as a job: how far it is, stage by stage, and calling it off in the middle of a file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from memstrata.capture.format.problems import FormatError
from memstrata.viewer.state.jobs import Cancelled, Job
from memstrata.viewer.state.loading import load


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    frames = [[{"name": f"f{i}", "filename": "m.py", "line": i}] * 30 for i in range(50)]
    events = [{"action": "alloc", "addr": 4096 * (i + 1), "size": 100, "stream": 0, "time_us": i,
               "frames": list(frames[i % 50])} for i in range(60_000)]  # fmt: skip
    path = tmp_path / "long.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [events]}, 4))
    return path


def test_progress_never_falls_and_names_each_stage(long_file: Path) -> None:
    said: list[tuple[float, str]] = []
    loaded = load([str(long_file)], Job(1, "Opening", lambda _, fraction, stage: said.append((fraction, stage))))
    assert [run.name for run in loaded.runs] == ["long.pickle"]
    fractions = [fraction for fraction, _ in said]
    assert fractions == sorted(fractions) and fractions[0] >= 0 and fractions[-1] <= 1
    stages = list(dict.fromkeys(stage for _, stage in said))
    assert stages[:2] == ["Reading long.pickle", "Building tables long.pickle"]
    assert sum(stage == "Reading long.pickle" for _, stage in said) > 3
    assert [stage.split()[0] for stage in stages[2:]] == ["Pairing", "Finding", "Adding"]
    worked_out = [fraction for fraction, stage in said if stage in stages[2:]]
    assert len(set(worked_out)) == 3 and worked_out[0] >= 0.6  # each moves the bar


def test_a_bad_file_is_a_sentence_beside_the_others_or_stops_them_all(long_file: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    paths, job = [str(tmp_path / "notes.txt"), str(long_file)], Job(1, "", lambda *_: None)
    loaded = load(paths, job)
    assert [run.name for run in loaded.runs] == ["long.pickle"] and "notes.txt" in loaded.sentences[0]
    with pytest.raises(FormatError, match=r"notes\.txt"):
        load(paths, job, all_or_none=True)


def test_a_file_can_be_called_off_in_the_middle(long_file: Path) -> None:
    said: list[str] = []

    def hear(_number: int, fraction: float, stage: str) -> None:
        said.append(stage)
        if fraction > 0.2:
            job.cancel()

    job = Job(1, "Opening", hear)
    with pytest.raises(Cancelled):
        load([str(long_file)], job)
    assert set(said) == {"Reading long.pickle"}
