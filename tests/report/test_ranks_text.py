"""Ranks side by side: who stands out, and figures that close."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memstrata.capture.format import files
from memstrata.viewer.analysis.opened import runs_of_ranks
from memstrata.viewer.analysis.ranks import AGREE, Ranks, ranks_headline
from memstrata.viewer.analysis.warnings import warnings_of
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.ranks_text import ranks_json, ranks_text
from memstrata.viewer.sources import open_file, open_run_directory

from .test_text import check


@pytest.fixture(scope="module")
def runs(samples: Path) -> list[Run]:
    return runs_of_ranks(open_run_directory(samples / "ranks"))


def of(*runs: Run) -> Ranks:
    """Ranks 0, 1, ... with the memory of these runs."""
    return Ranks([Run(run.recording.replace_meta(rank=rank), name=f"{rank}") for rank, run in enumerate(runs)])


def test_the_rank_with_longer_sequences_stands_out(runs: list[Run]) -> None:
    ranks = Ranks(runs)
    assert ranks.outlier is not None
    assert (ranks.outlier.rank, ranks.reference.rank) == (1, 0)
    assert ranks.by_category[0].label == "activation"
    difference = runs[1].peak_bytes - runs[0].peak_bytes
    for rows in (ranks.by_category, ranks.by_super_block):
        assert sum(row.difference_bytes for row in rows) == difference
    assert ranks.rows[1].activation_bytes == 2 * ranks.rows[0].activation_bytes
    who, _, where, inputs = (said.text for said in ranks_headline(ranks))
    assert who.startswith("Rank 1 stands out: its peak is ")
    assert where.startswith("The largest part is in layers.5: +")
    assert inputs == "Its input is 2 x 256 x 256, that of rank 0 is 2 x 128 x 256."


def test_one_of_four(runs: list[Run]) -> None:
    """It is compared with a rank in the middle, not with the lowest or the next."""
    ranks = of(runs[0], runs[0], runs[1], runs[0])
    assert ranks.outlier is not None
    assert (ranks.outlier.rank, ranks.reference.rank) == (2, 0)
    low = of(runs[1], runs[0], runs[1], runs[1])
    assert low.outlier is not None
    assert low.outlier.rank == 1
    assert ranks_headline(low)[0].text.count("less than rank 0's") == 1
    assert [row.rank for row in ranks.farthest(2)] == [0, 2]


def test_ranks_that_agree_say_so(runs: list[Run]) -> None:
    ranks = of(runs[0], runs[0])
    assert (ranks.outlier, ranks.spread) == (None, 0)
    (agree,) = ranks_headline(ranks)
    assert agree.text == "The 2 ranks agree: peak 40.7 MiB, highest and lowest within 0.0%."
    assert ranks.spread <= AGREE
    (alone,) = ranks_headline(of(runs[0]))
    assert alone.text == "One rank only: rank 0, peak 40.7 MiB." and alone.parts[1].bytes == runs[0].peak_bytes


def test_ranks_are_neither_before_nor_after_each_other(runs: list[Run]) -> None:
    """They see other data, so other losses, and no checkpoint was promised."""
    assert runs[0].recording.meta.loss != runs[1].recording.meta.loss
    assert [w.code for w in warnings_of(*runs)] == ["different_circumstances"]
    assert warnings_of(*runs)[0].text == "The ranks differ in sequence length and input shapes."


def test_the_report(samples: Path) -> None:
    text = ranks_text(open_run_directory(samples / "ranks"))
    check(text)
    lines = text.splitlines()
    assert lines[0] == "ranks: 2 of 2 ranks of Model, step 3, mesh dim0=2"
    assert lines[1].startswith("Rank 1 stands out")
    head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["rank", "peak"])
    assert [line.split()[0] for line in lines[head + 1 : head + 3]] == ["0", "1"]
    assert "1 (stands out)" in lines[head + 2]
    assert "By category at the peaks, rank 1 minus rank 0" in text
    assert text.count("The CPU allocator keeps no history") == 1


def test_a_problem_of_one_rank_names_it(tmp_path: Path, samples: Path) -> None:
    raised = open_file(samples / "raised.mstrata")
    files.write(raised.replace_meta(world_size=2, run_id="a"), tmp_path / "rank-00.mstrata")
    quiet = tuple(p for p in raised.meta.problems if p.code != "step_raised")
    files.write(raised.replace_meta(world_size=2, run_id="a", rank=1, problems=quiet), tmp_path / "rank-01.mstrata")
    text = " ".join(ranks_text(open_run_directory(tmp_path)).split())
    assert "rank 0: error: The step raised" in text


def test_json_is_exact_and_plain(samples: Path, runs: list[Run]) -> None:
    value = json.loads(json.dumps(ranks_json(open_run_directory(samples / "ranks")), allow_nan=False))
    assert [r["rank"] for r in value["ranks"]] == [0, 1]
    assert [r["peak_bytes"] for r in value["ranks"]] == [run.peak_bytes for run in runs]
    for rank, run in zip(value["ranks"], runs, strict=True):
        assert sum(rank["categories_at_peak"].values()) == run.peak_bytes
    assert value["outlier"]["rank"] == 1
    assert sum(row["difference_bytes"] for row in value["outlier"]["by_category"]) == (
        runs[1].peak_bytes - runs[0].peak_bytes
    )
    assert (value["world_size"], value["missing_ranks"], value["directory_problems"]) == (2, [], [])
