"""Real training on two ranks with gloo: what each rank's file says, by hand-computed bytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Category, Fate, StorageKind
from memstrata.viewer.analysis.shape import shape_of
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_run_directory

from .rank_training import CASES, LAYERS, ROWS, WIDTH
from .recordings import codes

RANKS = 2
FULL = WIDTH * WIDTH * 4
"""Bytes of one layer's weight."""
SHARD = FULL // RANKS
ROW_BYTES = ROWS * WIDTH * 4
"""Bytes of one activation."""
NAMES = [case.__name__ for case in CASES]
SHARDED = ("fsdp", "fsdp_checkpointed", "fsdp_mixed", "fsdp_gathered", "uneven", "raises")


class Ranks:
    """What the two processes wrote and said."""

    def __init__(self, folder: Path, said: list[list[dict[str, object]]], errors: list[str]) -> None:
        self.folder, self.said, self.errors = folder, said, errors

    def recording(self, case: str, rank: int = 0) -> Recording:
        return files.read(self.folder / f"{case}.mstrata.d" / f"rank-{rank:02d}.mstrata")

    def run(self, case: str, rank: int = 0) -> Run:
        return Run(self.recording(case, rank), name=case)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    folder = tmp_path_factory.mktemp("ranks")
    script = Path(__file__).with_name("rank_training.py")
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder / "store"), str(folder)],
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    ended = []
    try:
        ended = [process.communicate(timeout=150) for process in processes]
    finally:
        for process in processes:
            process.kill()
    errors = [stderr for _, stderr in ended]
    assert [process.returncode for process in processes] == [0] * RANKS, "\n".join(errors)
    said = [[json.loads(line) for line in out.splitlines() if line.startswith("{")] for out, _ in ended]
    return Ranks(folder, said, errors)


def rows_of(recording: Recording, kind: StorageKind, start: str = "") -> list[int]:
    """Rows of known storages of a kind whose name starts so."""
    known = recording.known_storages
    names = [recording.strings[int(name)] for name in known.name]
    return [i for i in range(len(known)) if known.kind[i] == kind and names[i].startswith(start)]


def test_recording_changes_no_bit_on_any_rank_and_is_taken_out_again(ranks: Ranks) -> None:
    for rank in range(RANKS):
        assert [line["case"] for line in ranks.said[rank]] == NAMES
        assert all(line["equal"] and line["tensors"] for line in ranks.said[rank])
        assert all(line["left"] == [] for line in ranks.said[rank])


@pytest.mark.parametrize("case", NAMES)
def test_each_rank_says_where_it_stands_and_everything_adds_up(ranks: Ranks, case: str) -> None:
    both = [ranks.recording(case, rank) for rank in range(RANKS)]
    assert [(r.meta.rank, r.meta.world_size, r.meta.local_rank) for r in both] == [(0, 2, 0), (1, 2, 1)]
    assert both[0].meta.run_id and both[0].meta.run_id == both[1].meta.run_id
    for recording in both:
        assert not codes(recording) & {"recorder_failure", "collectives_unseen"}
        run = Run(recording)
        assert identities.check(run) == []
        assert run.coverage_at(run.peak_position) == 1.0


def test_one_line_on_stderr_for_all_ranks(ranks: Ranks) -> None:
    lines = [[line for line in text.splitlines() if line.startswith("memstrata:")] for text in ranks.errors]
    assert len(lines[0]) == len(NAMES)
    assert "recorded rank 0 of 2 to" in lines[0][0]
    assert lines[0][0].endswith(f"memstrata report {ranks.folder / 'ddp.mstrata.d'}")
    assert lines[1] == []


@pytest.mark.parametrize("case", SHARDED)
@pytest.mark.parametrize("rank", range(RANKS))
def test_a_rank_holds_exactly_its_half(ranks: Ranks, case: str, rank: int) -> None:
    run = ranks.run(case, rank)
    recording = run.recording
    assert run.categories_at(0)[Category.parameter] == LAYERS * SHARD
    assert {recording.strings[int(s)] for s in recording.module_parameters.shape} == {f"{WIDTH},{WIDTH}"}
    if case != "fsdp_gathered":  # where what was gathered stands in the modules at the end of the step
        assert recording.module_parameters.bytes.tolist() == [SHARD] * LAYERS
    state = run.categories_at(0)[Category.optimizer_state]
    assert state == LAYERS * (2 * SHARD + 4)  # two moments, and a step count in float32


@pytest.mark.parametrize(("case", "itemsize"), [("fsdp", 4), ("fsdp_mixed", 2), ("fsdp_checkpointed", 4)])
def test_a_layer_is_gathered_whole_in_forward_and_again_in_backward(ranks: Ranks, case: str, itemsize: int) -> None:
    run = ranks.run(case)
    recording, known = run.recording, run.recording.known_storages
    gathered = rows_of(recording, StorageKind.communication, "gathered ")
    names = [recording.strings[int(known.name[i])] for i in gathered]
    assert sorted(names) == sorted(f"gathered layers.{i}.linear.weight" for i in range(LAYERS) for _ in range(2))
    assert {int(known.bytes[i]) for i in gathered} == {WIDTH * WIDTH * itemsize}
    assert all(known.end_time[i] > known.start_time[i] for i in gathered)
    explained = np.flatnonzero(np.isin(run.attribution.known, gathered))
    assert len(explained) == len(gathered)  # an allocation for each life of the resized storage, not one for all
    assert (run.attribution.category[explained] == Category.communication).all()
    assert sorted(run.attribution.layer[explained].tolist()) == sorted([*range(LAYERS)] * 2)
    assert run.categories_at(run.n_events).get(Category.communication, 0) == 0


def test_gathered_weights_are_saved_but_are_no_activations(ranks: Ranks) -> None:
    """Each layer keeps its output; the input of the model is known as such."""
    run = ranks.run("fsdp")
    saved, known = run.recording.saved_tensors, run.recording.known_storages
    weights = [i for i in range(len(saved)) if saved.storage_bytes[i] == FULL]
    assert len(weights) == LAYERS - 1  # the first has no input gradient to compute
    assert all(saved.known[i] != NONE for i in weights)
    assert {StorageKind(known.kind[saved.known[i]]) for i in weights} == {StorageKind.communication}
    assert run.saved_bytes_by_fate()[Fate.kept] == LAYERS * ROW_BYTES
    assert int(run.activation_curve.max()) == LAYERS * ROW_BYTES


def test_a_checkpoint_under_fsdp_makes_again_what_it_dropped(ranks: Ranks) -> None:
    run = ranks.run("fsdp_checkpointed")
    fates = run.saved_bytes_by_fate()
    assert fates[Fate.rematerialized] == LAYERS * ROW_BYTES
    assert fates[Fate.kept] == LAYERS * ROW_BYTES  # three boundaries, and the output that the loss keeps
    assert run.recording.meta.plan == tuple((f"layers.{i}",) for i in range(LAYERS))


def test_full_gradients_are_gradients_until_they_are_scattered(ranks: Ranks) -> None:
    run = ranks.run("fsdp")
    full = rows_of(run.recording, StorageKind.gradient, "full gradient of ")
    assert [int(run.recording.known_storages.bytes[i]) for i in full] == [FULL] * LAYERS
    scattered = rows_of(run.recording, StorageKind.communication, "reduce-scatter buffer of ")
    assert [int(run.recording.known_storages.bytes[i]) for i in scattered] == [FULL] * LAYERS
    assert run.categories_at(run.n_events)[Category.gradient] == LAYERS * SHARD  # their outputs: the shards' gradients


def test_mixed_precision_gathers_halves_and_reduces_whole(ranks: Ranks) -> None:
    recording = ranks.recording("fsdp_mixed")
    known = recording.known_storages
    gathers = rows_of(recording, StorageKind.communication, "all-gather buffer of ")
    assert {int(known.bytes[i]) for i in gathers} == {FULL // 2}
    copies = rows_of(recording, StorageKind.communication, "all-gather input of ")
    assert {int(known.bytes[i]) for i in copies} == {SHARD // 2}
    reduced = rows_of(recording, StorageKind.communication, "reduce-scatter buffer of ")
    assert {int(known.bytes[i]) for i in reduced} == {FULL}


def test_parameters_that_stay_gathered_are_not_taken_for_the_shards(ranks: Ranks) -> None:
    run = ranks.run("fsdp_gathered")
    assert run.categories_at(0)[Category.communication] == LAYERS * FULL
    assert run.categories_at(run.n_events)[Category.communication] == LAYERS * FULL
    names = [run.recording.strings[int(n)] for n in run.recording.known_storages.name]
    assert not any("a parameter" in name for name in names)
    assert run.recording.meta.mesh == {"dim0": 2}


def test_buckets_of_ddp_are_communication(ranks: Ranks) -> None:
    run = ranks.run("ddp")
    for position in (0, run.peak_position, run.n_events):
        assert run.categories_at(position)[Category.communication] == LAYERS * FULL
    assert run.categories_at(run.n_events)[Category.gradient] == LAYERS * FULL
    assert int(run.activation_curve.max()) == LAYERS * ROW_BYTES


def test_buckets_that_are_the_gradients_are_gradients(ranks: Ranks) -> None:
    run = ranks.run("ddp_views")
    assert rows_of(run.recording, StorageKind.communication) == []
    assert run.categories_at(run.n_events)[Category.gradient] == LAYERS * FULL


def test_the_older_fsdp_too(ranks: Ranks) -> None:
    run = ranks.run("flat")
    assert run.categories_at(0)[Category.parameter] == LAYERS * SHARD
    gathered = rows_of(run.recording, StorageKind.communication, "gathered ")
    assert [int(run.recording.known_storages.bytes[i]) for i in gathered] == [FULL] * LAYERS
    assert int(run.category_curve(Category.communication).max()) >= LAYERS * FULL  # it keeps them until backward
    assert run.saved_bytes_by_fate()[Fate.kept] == LAYERS * ROW_BYTES


def test_the_mesh_by_name(ranks: Ranks) -> None:
    for rank in range(RANKS):
        meta = ranks.recording("fsdp_mesh", rank).meta
        assert meta.mesh == {"replicate": 2, "shard": 1}
        assert meta.mesh_coordinate == {"replicate": rank, "shard": 0}
    assert ranks.recording("ddp").meta.mesh == {}


def test_a_sharded_model_has_the_shape_of_the_whole(ranks: Ranks) -> None:
    """Layers keep the names of their authors' classes, and predictions the widths of the whole weights."""
    run = ranks.run("fsdp")
    assert run.layers.names == tuple(f"layers.{i}" for i in range(LAYERS))
    assert set(run.layers.kinds) == {"Layer(Linear)"}
    assert run.recording.meta.model == "Net"
    shape = shape_of(run)
    assert shape is not None
    assert (shape.hidden, shape.tokens) == (WIDTH, ROWS)
    assert shape.parameters == LAYERS * WIDTH * WIDTH


def test_a_rank_that_raises_has_its_file_and_so_has_the_other(ranks: Ranks) -> None:
    assert ["step_raised" in codes(ranks.recording("raises", rank)) for rank in range(RANKS)] == [False, True]


def test_ranks_of_equal_work_agree_to_the_byte(ranks: Ranks) -> None:
    for case in ("ddp", "ddp_views", "fsdp_mesh"):
        assert ranks.run(case, 0).peak_bytes == ranks.run(case, 1).peak_bytes
    uneven = [int(ranks.run("uneven", rank).activation_curve.max()) for rank in range(RANKS)]
    assert uneven == [LAYERS * ROW_BYTES, 8 * LAYERS * ROW_BYTES]


def test_under_torchrun(tmp_path: Path, samples: Path) -> None:
    """The script that makes the sample starts itself under torchrun, and decorates its step as anybody would."""
    folder = tmp_path / "run"
    subprocess.run([sys.executable, str(samples / "make_ranks.py"), str(folder)], check=True, timeout=150,
                   capture_output=True)  # fmt: skip
    directory = open_run_directory(folder)
    assert [(file.rank, file.name) for file in directory.ranks] == [(0, "rank-00.mstrata"), (1, "rank-01.mstrata")]
    assert directory.problems == ()
    assert {file.recording.meta.step_index for file in directory.ranks} == {3}
    assert all(file.recording.meta.step_seconds_unrecorded for file in directory.ranks)
