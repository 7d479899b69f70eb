"""`memstrata report --residual`: every item with its sentence, in text, JSON and HTML alike."""

import json

import pytest

from memstrata.viewer.analysis.residual import residual
from memstrata.viewer.analysis.shape import plan_in_force, shape_of
from memstrata.viewer.cli import main
from memstrata.viewer.look.units import bytes_text, difference_text
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.html import report_html
from memstrata.viewer.report.residual_text import parts_text
from memstrata.viewer.sources import open_file

from .pages import Page

NAMES = ["before", "after", "encoder-decoder", "uniform"]


def missed(samples, name):
    run = Run(open_file(samples / f"{name}.mstrata"), name=f"{name}.mstrata")
    return run, residual(run, shape_of(run), plan_in_force(run))


@pytest.mark.parametrize("name", NAMES)
def test_every_item_is_there_with_its_sentence_and_shares(samples, capsys, name):
    run, found = missed(samples, name)
    assert main(["report", str(samples / f"{name}.mstrata"), "--residual"]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= 80 for line in text.splitlines())
    words = " ".join(text.split())
    for item in found.items:
        assert " ".join(f"{item.label}: {difference_text(item.bytes)}".split()) in words
        assert item.text in words
        for part in item.parts:
            assert part.layer_kind[:12] in words and difference_text(part.bytes) in words
        for function, file, line in run.recording.stack_frames(item.stack)[:1]:
            assert (f"{file}:{line} {function}" if line > 0 else f"in {function}") in words
    for each in found.matched:
        assert bytes_text(each.predicted_bytes) in words
    assert f"sum: measured minus predicted {difference_text(found.bytes)}" in words


@pytest.mark.parametrize("name", NAMES)
def test_json_and_html_have_every_item_too(samples, capsys, name):
    run, found = missed(samples, name)
    assert main(["report", str(samples / f"{name}.mstrata"), "--json"]) == 0
    prediction = json.loads(capsys.readouterr().out)["prediction"]
    items = prediction["residual"]["items"]
    assert [item["text"] for item in items] == [item.text for item in found.items]
    assert sum(item["bytes"] for item in items) == found.bytes
    for item in items:
        parts = item["layer_kinds"]
        assert sum(part["bytes"] for part in parts) == item["bytes"] and all("bytes_per_layer" in p for p in parts)
    terms = prediction["terms"]
    assert all(term["name"] and term["formula"] and term["dtype"] for term in terms if term["name"])
    words = Page(report_html(run.recording, run.name)).words
    for item in found.items:
        for line in parts_text(item).split("\n"):
            assert line in words


def test_a_file_without_a_prediction_says_why(samples, capsys, snapshot_file):
    assert main(["report", str(snapshot_file), "--residual"]) == 0
    assert "knows no layers" in " ".join(capsys.readouterr().out.split())


def test_a_folder_of_ranks_has_no_one_residual(samples, capsys):
    assert main(["report", str(samples / "ranks"), "--residual"]) == 2
    assert "--residual is of one recording" in capsys.readouterr().err
