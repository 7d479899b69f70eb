"""`memstrata export`: what it must not overwrite, and of which device a file of several devices is written."""

import json
import os
import re
import shutil

import pytest

from memstrata.viewer import cli

from .test_cli import refused, run


@pytest.mark.parametrize("kind", ["html", "csv", "snapshot"])
def test_a_file_is_not_written_over_itself(capsys, monkeypatch, samples, tmp_path, kind):
    own = tmp_path / "own.mstrata"
    shutil.copy(samples / "uniform.mstrata", own)
    before = own.read_bytes()
    (tmp_path / "link.pickle").symlink_to(own)
    os.link(own, tmp_path / "hard.csv")
    monkeypatch.chdir(tmp_path)
    for output in (str(own), "own.mstrata", "./own.mstrata", "link.pickle", "hard.csv"):
        assert "is the file to be read" in refused(capsys, "export", "own.mstrata", "-o", output, "--to", kind)
    assert own.read_bytes() == before


def test_a_folder_of_ranks_is_not_written_over_one_of_them(capsys, samples, tmp_path):
    shutil.copytree(samples / "ranks", tmp_path / "ranks")
    first = sorted((tmp_path / "ranks").glob("*.mstrata"))[0]
    before = first.read_bytes()
    refused(capsys, "export", str(tmp_path / "ranks"), "-o", str(first), "--to", "html")
    assert first.read_bytes() == before


def test_another_file_is_written_over(capsys, samples, tmp_path):
    (tmp_path / "x.csv").write_text("old")
    status, _, _ = run(capsys, "export", str(samples / "uniform.mstrata"), "-o", str(tmp_path / "x.csv"))
    assert status == 0
    assert (tmp_path / "x.csv").read_text() != "old"


def test_of_several_devices_it_says_which_one_is_written(capsys, snapshots, tmp_path):
    path = str(snapshots / "torch28-oom-three-gpus-expandable.pickle")
    said = "memstrata: Written: cuda:1, whose peak is the highest. Not written: cuda:0, cuda:2.\n"
    for name in ("x.csv", "x.svg", "x.trace.json"):
        status, _, err = run(capsys, "export", path, "-o", str(tmp_path / name))
        assert status == 0
        assert err.endswith(said)
    assert "torch28-oom-three-gpus-expandable.pickle, cuda:1" in (tmp_path / "x.svg").read_text()
    events = json.loads((tmp_path / "x.trace.json").read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert names[0] == "torch28-oom-three-gpus-expandable.pickle, cuda:1"


def test_of_one_device_nothing_is_said(capsys, samples, snapshots, tmp_path):
    for path in (samples / "before.mstrata", snapshots / "torch26-attention-small.pickle"):
        _, _, err = run(capsys, "export", str(path), "-o", str(tmp_path / "x.csv"))
        assert err.count("\n") == 1


def test_shares_are_no_markup(capsys, samples, tmp_path):
    """`<0.1%` stands in tables."""
    run(capsys, "export", str(samples / "before.mstrata"), "-o", str(tmp_path / "x.html"))
    page = (tmp_path / "x.html").read_text()
    assert "&lt;0.1%" in page
    assert not re.search(r"<\d", page)


def test_what_is_missing_is_named_without_what_may_be(capsys, samples):
    for command, missing in (("diff", "required: B;"), ("export", "required: -o/--output;")):
        with pytest.raises(SystemExit) as stop:
            cli.main([command, str(samples / "before.mstrata")])
        assert stop.value.code == 2
        assert missing in capsys.readouterr().err


def test_an_empty_folder_is_said_to_be_empty_whatever_is_asked(capsys, tmp_path):
    for more in ([], ["--residual"]):
        assert "without any .mstrata" in refused(capsys, "report", str(tmp_path), *more)
