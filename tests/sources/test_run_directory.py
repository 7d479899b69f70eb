"""A folder with a file for each rank: what is of one run, what is not, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from memstrata.capture.format import files
from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Recording
from memstrata.viewer.sources import open_file, open_run_directory


@pytest.fixture(scope="module")
def recording(samples: Path) -> Recording:
    return open_file(samples / "ranks" / "rank-00.mstrata")


def put(folder: Path, recording: Recording, rank: int, name: str | None = None, **meta: object) -> None:
    facts: dict[str, object] = {"world_size": 4, "run_id": "a", "created": "2026-01-02T10:00:00+00:00", **meta}
    files.write(recording.replace_meta(rank=rank, **facts), folder / (name or f"rank-{rank:02d}.mstrata"))


def test_the_real_one(samples: Path) -> None:
    directory = open_run_directory(samples / "ranks")
    assert (directory.name, directory.world_size, directory.missing) == ("ranks", 2, ())
    assert [(file.rank, file.name) for file in directory.ranks] == [(0, "rank-00.mstrata"), (1, "rank-01.mstrata")]
    assert directory.problems == ()


def test_a_missing_rank_is_named(tmp_path: Path, recording: Recording) -> None:
    for rank in (0, 1, 3):
        put(tmp_path, recording, rank)
    directory = open_run_directory(tmp_path)
    assert directory.missing == (2,)
    assert directory.problems == ("The run had 4 ranks; rank 2 is missing here.",)


def test_ranks_are_in_order_whatever_their_files_are_called(tmp_path: Path, recording: Recording) -> None:
    for rank in range(4):
        put(tmp_path, recording, rank, f"{9 - rank}.mstrata")
    assert [file.rank for file in open_run_directory(tmp_path).ranks] == [0, 1, 2, 3]


def test_a_damaged_file_is_named_and_the_others_stand(tmp_path: Path, recording: Recording) -> None:
    for rank in range(4):
        put(tmp_path, recording, rank)
    (tmp_path / "rank-02.mstrata").write_bytes((tmp_path / "rank-02.mstrata").read_bytes()[:2000])
    directory = open_run_directory(tmp_path)
    assert [file.rank for file in directory.ranks] == [0, 1, 3]
    damaged, missing = directory.problems
    assert damaged.startswith("rank-02.mstrata is damaged or cut short")
    assert "rank 2 is missing" in missing


@pytest.mark.parametrize("old", [{"run_id": "b"}, {"run_id": "b", "world_size": 8}, {"run_id": "a", "world_size": 8}])
def test_files_of_an_earlier_run_are_left_out_by_name(
    tmp_path: Path, recording: Recording, old: dict[str, object]
) -> None:
    for rank in range(4):
        put(tmp_path, recording, rank)
    for rank in (4, 5):
        put(tmp_path, recording, rank, created="2026-01-01T09:00:00+00:00", **old)
    directory = open_run_directory(tmp_path)
    assert [file.rank for file in directory.ranks] == [0, 1, 2, 3]
    (sentence,) = directory.problems
    size = old.get("world_size", 4)
    assert sentence == (
        f"rank-04.mstrata, rank-05.mstrata are of another run (world size {size}, written"
        " 2026-01-01T09:00:00+00:00) and were left out."
    )


def test_two_files_of_one_rank(tmp_path: Path, recording: Recording) -> None:
    for rank in range(4):
        put(tmp_path, recording, rank)
    put(tmp_path, recording, 1, "copy.mstrata", created="2026-01-02T09:59:00+00:00")
    directory = open_run_directory(tmp_path)
    assert [file.name for file in directory.ranks if file.rank == 1] == ["rank-01.mstrata"]
    assert directory.problems == ("copy.mstrata is of rank 1, as the newer rank-01.mstrata is, and is left out.",)


def test_different_steps_do_not_compare(tmp_path: Path, recording: Recording) -> None:
    for rank in range(4):
        put(tmp_path, recording, rank, step_index=3 + (rank == 2))
    (sentence,) = open_run_directory(tmp_path).problems
    assert sentence.startswith("The ranks recorded different steps")
    assert "rank 2 step 4" in sentence


def test_without_an_agreed_name_the_clock_is_told(tmp_path: Path, recording: Recording) -> None:
    for rank in range(4):
        put(tmp_path, recording, rank, run_id=None, created=f"2026-01-02T1{rank // 3}:00:00+00:00")
    (sentence,) = open_run_directory(tmp_path).problems
    assert "do not say that they are of one run" in sentence


def test_folders_that_are_no_run(tmp_path: Path, samples: Path, recording: Recording) -> None:
    with pytest.raises(FormatError, match=r"without any \.mstrata recording"):
        open_run_directory(tmp_path)
    with pytest.raises(FormatError, match="recordings of single processes, not the ranks of one run"):
        open_run_directory(samples)
    with pytest.raises(FormatError, match="cannot be read"):
        open_run_directory(tmp_path / "absent")
    (tmp_path / "rank-00.mstrata").write_bytes(b"PK\x03\x04")
    with pytest.raises(FormatError, match=r"no recording that can be read: rank-00\.mstrata is"):
        open_run_directory(tmp_path)


def test_hidden_files_half_written_are_passed_over(tmp_path: Path, recording: Recording) -> None:
    for rank in range(4):
        put(tmp_path, recording, rank)
    (tmp_path / ".rank-01.mstrata.0a1b2c3d.part").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    assert open_run_directory(tmp_path).problems == ()
