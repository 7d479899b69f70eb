"""`memstrata check`: limits for a machine, with the layers to blame."""

import json
import shutil

import pytest

from memstrata.viewer import cli
from memstrata.viewer.model.query import ACTIVATIONS, AllocationQuery
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file


@pytest.fixture
def files(samples):
    return {name: str(samples / f"{name}.mstrata") for name in ("before", "after", "uniform", "encoder-decoder")}


def checked(capsys, *arguments):
    status = cli.main(["check", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_figure_equal_to_its_limit_passes_and_one_byte_less_does_not(capsys, files):
    peak = Run(open_file(files["before"])).peak_bytes
    status, answer = checked(capsys, files["before"], "--max-peak", str(peak))
    assert (status, answer["passed"], answer["figures"][0]["over_bytes"]) == (0, True, 0)
    assert answer["figures"][0]["blame"] == []
    status, answer = checked(capsys, files["before"], "--max-peak", str(peak - 1))
    assert (status, answer["passed"], answer["figures"][0]["over_bytes"]) == (1, False, 1)


def test_layers_are_blamed_by_their_bytes_at_the_peak(capsys, files):
    run = Run(open_file(files["uniform"]))
    status, answer = checked(capsys, files["uniform"], "--max-activations", "1MiB")
    (figure,) = answer["figures"]
    assert status == 1 and figure["bytes"] == int(run.activation_curve.max())
    position = int(run.activation_curve.argmax())
    grouping = run.grouping("layer")
    for blame in figure["blame"]:
        label = grouping.names.index(blame["label"])
        query = AllocationQuery(position, categories=ACTIVATIONS, group=("layer", label))
        assert blame["bytes"] == query.bytes(run) > 0
    sizes = [blame["bytes"] for blame in figure["blame"]]
    assert sizes == sorted(sizes, reverse=True)


def test_growth_against_a_baseline_is_blamed_on_what_grew(capsys, files):
    status, answer = checked(capsys, files["before"], "--baseline", files["after"], "--tolerance", "2%")
    a, b = Run(open_file(files["before"])), Run(open_file(files["after"]))
    peak, activations = answer["figures"]
    assert status == 1
    assert peak["baseline_bytes"] == b.peak_bytes and peak["limit_bytes"] == int(b.peak_bytes * 1.02)
    assert activations["bytes"] == int(a.activation_curve.max())
    assert all(row["growth_bytes"] == row["bytes"] - row["baseline_bytes"] > 0 for row in peak["blame"])
    status, answer = checked(capsys, files["after"], "--baseline", files["before"])
    assert (status, answer["passed"]) == (0, True)
    status, _ = checked(capsys, files["before"], "--baseline", files["after"], "--tolerance", "500%")
    assert status == 0


def test_the_largest_layer(capsys, files):
    run = Run(open_file(files["uniform"]))
    sizes = run.groups_at("layer", [run.peak_position])[:-1, 0]
    status, answer = checked(capsys, files["uniform"], "--max-layer", str(int(sizes.max()) - 1))
    assert status == 1
    assert answer["figures"][0]["bytes"] == int(sizes.max())
    assert {b["bytes"] for b in answer["figures"][0]["blame"]} == {int(sizes.max())}


def test_snapshots_have_a_peak_and_reserved_memory(capsys, snapshots):
    path = str(snapshots / "torch26-train-from-start.pickle")
    run = Run(open_file(path))
    status, answer = checked(capsys, path, "--max-peak", "1B", "--max-reserved", "1B")
    assert status == 1
    assert [figure["bytes"] for figure in answer["figures"]] == [run.peak_bytes, int(run.reserved.max())]
    assert all(figure["blame"] for figure in answer["figures"])


def test_the_text_says_the_verdict_first_in_80_columns(capsys, files):
    assert cli.main(["check", files["before"], "--max-peak", "700MiB", "--max-activations", "1TiB"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "before.mstrata: 1 of 2 over the limit"
    assert lines[1].startswith("OVER peak ") and any(line.startswith("ok   activations ") for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "nothing to check"),
        (["--max-peak", "big"], "'big' is not a size"),
        (["--max-reserved", "1GiB"], "no allocator reported reserved memory"),
        (["--tolerance", "2%"], "needs a --baseline"),
        (["--baseline", "gone.mstrata"], "gone.mstrata"),
        (["--baseline", "{before}", "--tolerance", "-1"], "'-1' is not a percentage"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence_and_status_2(capsys, files, arguments, sentence):
    status = cli.main(["check", files["after"], *(a.format(**files) for a in arguments)])
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_a_step_that_raised_passes_no_check(capsys, samples):
    status, answer = checked(capsys, str(samples / "raised.mstrata"), "--max-peak", "1TiB")
    assert (status, answer["passed"], answer["figures"][0]["passed"]) == (1, False, True)
    assert answer["failure"].startswith("The step raised RuntimeError")
    assert cli.main(["check", str(samples / "raised.mstrata"), "--max-peak", "1TiB"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("raised.mstrata: the step did not end") and "\nFAILED The step raised RuntimeError" in out


def test_what_is_not_checked_is_said(capsys, files, snapshots):
    snapshot = str(snapshots / "torch23-train.pickle")
    status, answer = checked(capsys, files["after"], "--baseline", snapshot)
    assert status == 0 and [figure["figure"] for figure in answer["figures"]] == ["peak"]
    assert answer["notes"] == [
        "Not compared: activations, because there are no saved tensors in torch23-train.pickle.",
        "Not compared: reserved, because no allocator reported reserved memory in after.mstrata.",
    ]
    _, answer = checked(capsys, str(snapshots / "torch26-three-pools-no-trace.pickle"), "--max-peak", "1TiB")
    assert answer["notes"] == [
        "There is no history: the figures are those of the end, and a peak before it is not seen."
    ]
    assert cli.main(["check", str(snapshots / "torch25-empty.pickle"), "--max-peak", "1GiB"]) == 2
    assert capsys.readouterr().err == (
        "memstrata: torch25-empty.pickle cannot be checked: it has neither events nor memory\n"
    )


def test_every_rank_is_held_to_the_limits(capsys, samples, tmp_path):
    ranks = str(samples / "ranks")
    peaks = [Run(open_file(str(samples / "ranks" / f"rank-0{rank}.mstrata"))).peak_bytes for rank in (0, 1)]
    status, answer = checked(capsys, ranks, "--max-peak", str(peaks[0]))
    assert status == 1 and not answer["passed"] and [rank["passed"] for rank in answer["ranks"]] == [True, False]
    assert [rank["figures"][0]["bytes"] for rank in answer["ranks"]] == peaks
    assert checked(capsys, ranks, "--baseline", ranks)[0] == 0
    status, answer = checked(capsys, ranks, "--baseline", str(samples / "ranks" / "rank-00.mstrata"))
    assert status == 1 and [rank["passed"] for rank in answer["ranks"]] == [True, False]
    assert cli.main(["check", ranks, "--max-peak", "1GiB"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("ranks: 2 ranks within every limit\n\n") and said.count("within every limit") == 3
    assert cli.main(["check", ranks, "--max-peak", str(peaks[0])]) == 1
    assert capsys.readouterr().out.startswith("ranks: 1 of 2 ranks failed\n\n")
    (tmp_path / "one").mkdir()
    shutil.copy(samples / "ranks" / "rank-00.mstrata", tmp_path / "one")
    assert cli.main(["check", ranks, "--baseline", str(tmp_path / "one")]) == 2
    assert capsys.readouterr().err.endswith("has no rank 1 to hold rank-01.mstrata against\n")


MISSING = "The run had 2 ranks; rank 1 is missing here."


@pytest.mark.parametrize("rest", ["gone", "damaged"])
def test_a_folder_that_lacks_a_rank_passes_no_check(capsys, samples, tmp_path, rest):
    """A rank that the system killed writes no file, or half of one."""
    shutil.copy(samples / "ranks" / "rank-00.mstrata", tmp_path)
    if rest == "damaged":
        (tmp_path / "rank-01.mstrata").write_bytes((samples / "ranks" / "rank-01.mstrata").read_bytes()[:5000])
    status, answer = checked(capsys, str(tmp_path), "--max-peak", "1GiB")
    assert (status, answer["passed"], answer["failure"]) == (1, False, MISSING)
    assert [rank["passed"] for rank in answer["ranks"]] == [True]
    assert [note[:26] for note in answer["notes"]] == ["rank-01.mstrata is damaged"] * (rest == "damaged")
    assert cli.main(["check", str(tmp_path), "--max-peak", "1GiB"]) == 1
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert (
        first == f"{tmp_path.name}: 1 rank within every limit, but not all are here" and second == f"FAILED {MISSING}"
    )


def test_a_snapshot_in_which_memory_ran_out_passes_no_check(capsys, snapshots):
    path = str(snapshots / "torch28-oom-three-gpus-expandable.pickle")
    status, answer = checked(capsys, path, "--max-peak", "100GiB")
    assert (status, answer["passed"], answer["figures"][0]["passed"]) == (1, False, True)
    assert answer["failure"] == "cuda:1 ran out of memory when 4.94 GiB more was asked for."
    assert answer["notes"] == ["Checked: cuda:1, whose peak is the highest. Not checked: cuda:0, cuda:2."]
    assert cli.main(["check", path, "--max-peak", "100GiB"]) == 1
    assert "memory ran out, so nobody knows" in capsys.readouterr().out.partition("FAILED")[0]


def test_a_baseline_that_raised_is_said(capsys, files, samples):
    status, answer = checked(capsys, files["after"], "--baseline", str(samples / "raised.mstrata"))
    assert status == 1
    assert answer["notes"][0].startswith("raised.mstrata is no whole step to be held against: The step raised Runtime")


def test_reserved_memory_is_also_blamed_on_what_is_not_in_use(capsys, snapshots):
    path = str(snapshots / "torch23-train.pickle")
    run = Run(open_file(path))
    at = int(run.reserved.argmax())
    _, answer = checked(capsys, path, "--max-reserved", "1GiB", "--max-peak", "1GiB")
    peak, reserved = answer["figures"]
    unused = {"label": "reserved and unused", "bytes": int(run.reserved[at] - run.curve[at]), "baseline_bytes": None}
    assert reserved["blame"][0] == unused | {"growth_bytes": unused["bytes"]}
    assert "reserved and unused" not in [row["label"] for row in peak["blame"]]
