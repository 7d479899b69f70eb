"""Which file a rank writes, by torchrun's environment alone; no process group is needed for it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from memstrata.capture import CaptureError, Recorder, record_step
from memstrata.capture.distributed import Place, class_name, means_folder, run_file
from memstrata.capture.format import files

from .recordings import mlp


def step() -> None:
    mlp(1)(torch.randn(4, 16)).sum().backward()


def as_rank(monkeypatch: pytest.MonkeyPatch, rank: str, world_size: str) -> None:
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)


def test_names_sort_by_rank(tmp_path: Path) -> None:
    path = tmp_path / "step.mstrata"
    assert run_file(path, False, Place()) == path
    assert run_file(path, False, Place(3, 8)) == tmp_path / "step.mstrata.d" / "rank-03.mstrata"
    assert run_file(path, False, Place(3, 8)).parent.is_dir()
    names = [run_file(path, False, Place(rank, 1024)).name for rank in (0, 9, 10, 1023)]
    assert (
        names == sorted(names) == ["rank-0000.mstrata", "rank-0009.mstrata", "rank-0010.mstrata", "rank-1023.mstrata"]
    )
    assert means_folder("runs/") and not means_folder("runs")


def test_a_rank_writes_into_the_folder_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    as_rank(monkeypatch, "0", "4")
    folder = tmp_path / "step.mstrata.d"
    folder.mkdir()
    (folder / "rank-07.mstrata").write_bytes(b"of an earlier run")
    with Recorder(tmp_path / "step.mstrata") as recorder:
        step()
    assert recorder.file == folder / "rank-00.mstrata"
    meta = files.read(recorder.file).meta
    assert (meta.rank, meta.world_size, meta.local_rank, meta.run_id) == (0, 4, 1, None)
    said = capfd.readouterr().err
    assert "rank-07.mstrata in that folder is not of this run" in said
    assert f"memstrata report {folder}" in said
    assert not (tmp_path / "step.mstrata").exists()


def test_another_rank_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    as_rank(monkeypatch, "2", "4")
    with Recorder(f"{tmp_path}/runs/"):
        step()
    assert files.read(tmp_path / "runs" / "rank-02.mstrata").meta.rank == 2
    assert "memstrata:" not in capfd.readouterr().err


def test_but_it_says_what_went_wrong_and_who_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    as_rank(monkeypatch, "2", "4")
    with Recorder(tmp_path / "step.mstrata"):
        torch.ones(1)
    assert "memstrata: rank 2: the step was not recorded" in capfd.readouterr().err


def test_a_process_alone_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    with Recorder(f"{folder}/"):
        step()
    assert [file.name for file in folder.iterdir()] == ["rank-00.mstrata"]


@pytest.mark.parametrize(("rank", "world_size"), [("", ""), ("x", "4"), ("4", "4"), ("0", "1"), ("1", "")])
def test_an_environment_that_makes_no_sense_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str, world_size: str
) -> None:
    as_rank(monkeypatch, rank, world_size)
    with Recorder(tmp_path / "step.mstrata"):
        step()
    assert (tmp_path / "step.mstrata").is_file()


def test_paths_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="names a folder"):
        record_step(f"{tmp_path}/file/")
    with pytest.raises(CaptureError, match="a / at its end"):
        record_step(tmp_path)


def test_the_class_that_fully_shard_puts_in_place_is_seen_through() -> None:
    from torch.distributed.fsdp import FSDPModule

    class Block(nn.Module):
        pass

    sharded = type("FSDPBlock", (FSDPModule, Block), {})
    module = Block()
    module.__class__ = sharded
    assert class_name(module) == "Block"

    class Both(nn.Linear, nn.ReLU):
        pass

    assert class_name(Both.__new__(Both)) == "Both"
