"""`memstrata diff` of two files and more, as text and as JSON, through the command."""

import json
import re

import pytest

from memstrata.viewer.cli import main


def printed(capsys, *arguments):
    assert main(["diff", *map(str, arguments)]) == 0
    return capsys.readouterr().out


@pytest.fixture
def files(samples):
    return [samples / f"{name}.mstrata" for name in ("before", "after", "uniform")]


def test_json_closes_from_peak_to_peak(capsys, files):
    got = json.loads(printed(capsys, *files[:2], "--json"))
    a, b = got["a"]["peak_bytes"], got["b"]["peak_bytes"]
    assert b - a == got["peak_difference_bytes"]
    for rows in (
        got["by_category"],
        got["by_super_block"],
        got["by_layer"],
        got["by_first_user_frame"],
        got["changes"],
    ):
        assert sum(row["difference_bytes"] for row in rows) == b - a
    bars = got["waterfall"]
    assert (bars["a_bytes"], bars["b_bytes"], bars["by"]) == (a, b, "category")
    assert bars["steps"][0]["start_bytes"] == a and bars["steps"][-1]["end_bytes"] == b
    assert {row["change"] for row in got["changes"]} >= {"appeared", "disappeared", "same"}
    assert got["others"] == [] and [run["file"] for run in got["runs"]] == ["before.mstrata", "after.mstrata"]


def test_more_than_two_are_each_compared_with_the_first(capsys, files):
    got = json.loads(printed(capsys, *files, "--json"))
    assert [run["file"] for run in got["runs"]] == [path.name for path in files]
    (other,) = got["others"]
    assert (other["a"]["file"], other["b"]["file"]) == ("before.mstrata", "uniform.mstrata")
    text = printed(capsys, *files)
    assert text.startswith("All runs\n")
    assert text.count("\nFrom A to B, at the peaks\n") == 2
    assert all(len(line) <= 80 for line in text.splitlines())


def test_what_changed_stands_in_the_text_and_closes(capsys, files):
    text = printed(capsys, *files[:2])
    head, _, rest = text.partition("What appeared, disappeared, grew or shrank at the peaks\n")
    section = rest.partition("\n\n")[0]
    assert "mm in mlp of 12 layers (activation)" in section and "disappeared  24 -> 0   -132 MiB" in section
    assert "other (" in section
    steps = head.partition("From A to B, at the peaks\n")[2].partition("\n\n")[0].splitlines()
    assert steps[1].split() == ["A", "751", "MiB"] and steps[-1].split() == ["B", "358", "MiB"]


def test_sides_are_called_as_in_the_window(capsys, files, snapshots):
    """A and B; in JSON the keys stay as they were."""
    text = printed(capsys, *files[:2])
    assert [line[:3] for line in text.splitlines()[:2]] == ["A  ", "B  "]
    heads = [line for line in text.splitlines() if re.search(r" A +B( |$)| B - A( |$)", line)]
    assert len(heads) == 6 and "activation peak of A minus that of B" in text
    assert not re.search(r"\b[ab] +[ab]\b|\bb - a\b|\b[ab] minus|\bof b\b|  b\b|'s b\b|^[ab]  ", text, re.MULTILINE)
    mixed = printed(capsys, files[0], snapshots / "torch24-linear-grad.pickle")
    assert "(inferred in B)" in mixed and not re.search(r"\bin b\b", mixed)
    row = json.loads(printed(capsys, *files[:2], "--json"))["by_category"][0]
    assert {"a_bytes", "b_bytes", "inferred_in_a", "inferred_in_b"} <= row.keys()


def test_states_are_not_called_peaks(capsys, snapshots):
    names = ("torch22-state-second-gpu", "torch22-list-of-segments")
    text = printed(capsys, *(snapshots / f"{name}.pickle" for name in names))
    assert "Active at the end 9.90 GiB to 3.08 GiB: 6.82 GiB less (68.9%)" in text
    assert "peak" not in text.lower()


def test_several_times_as_much_is_a_ratio(capsys, samples, snapshots):
    text = printed(capsys, samples / "before.mstrata", snapshots / "torch24-linear-grad.pickle")
    assert "Peak 751 MiB to 4.13 GiB: 3.40 GiB more (5.63x as much)" in " ".join(text.split())
    assert re.search(r"step \d[\d.]* m?s to unknown", " ".join(text.split()))
