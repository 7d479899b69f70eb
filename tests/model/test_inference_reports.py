"""Every inferred figure of a training snapshot says so wherever it is told, with its coverage; and it is right."""

from __future__ import annotations

import csv
import html
import io
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from memstrata.capture.format.schema import Category, Phase
from memstrata.viewer.analysis.headline import headline
from memstrata.viewer.analysis.inferred import inferred_sentence
from memstrata.viewer.look.units import percent_text
from memstrata.viewer.look.words import category_text
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.html import report_html
from memstrata.viewer.report.json import report_json
from memstrata.viewer.report.tables_csv import table_csv
from memstrata.viewer.report.text import report_text
from memstrata.viewer.sources import open_file
from memstrata.viewer.state.coverage_text import coverage_lines

WITH_ENGINE = (
    "torch26-train-from-start", "torch26-train-mid-run", "torch211-train", "torch210-compile-train",
    "torch21-train-deep-stacks",
)  # fmt: skip
"""Their stacks have C++ frames, so that the engine of autograd is seen in them."""
TRAINING = (*WITH_ENGINE, "npu26-expandable-unmap", "torch211-windows-python-frames")


def opened(folder: Path, name: str) -> Run:
    return Run(open_file(folder / f"{name}.pickle"), name=f"{name}.pickle")


@pytest.mark.parametrize("name", TRAINING)
def test_text_and_window_say_inferred_with_each_figure(snapshots: Path, name: str) -> None:
    run = opened(snapshots, name)
    peak = run.peak_position
    text = " ".join(report_text(run.recording, run.name).split())
    covered = f"0.0% recorded, {percent_text(run.inferred_coverage_at(peak))} inferred"
    assert f"({covered})" in text
    assert f"{covered} at the peak" in coverage_lines(run, peak)[0]
    for told in (text, " ".join(coverage_lines(run, peak))):
        assert inferred_sentence(run, peak) in told
    lines = [line.text for line in headline(run)]
    assert lines[0].endswith("(inferred)") and lines[2].startswith("Inferred for ")
    for category, size in run.inferred_categories_at(peak).items():
        assert f"{category_text(category)} (inferred) " in text, size
        assert not re.search(rf"{category_text(category)} [\d.,]+ [KMG]?i?B [\d.]+%", text)


@pytest.mark.parametrize("name", TRAINING)
def test_the_page_says_inferred_with_each_figure(snapshots: Path, name: str) -> None:
    run = opened(snapshots, name)
    page = report_html(run.recording, run.name)
    peak = run.peak_position
    assert f"(0.0% recorded, {percent_text(run.inferred_coverage_at(peak))} inferred)" in html.unescape(page)
    assert f"<p>{html.escape(inferred_sentence(run, peak))}</p>" in page
    for category in run.inferred_categories_at(peak):
        assert f"</i>{category_text(category)} (inferred)</td>" in page
        assert f"</i>{category_text(category)}<" not in page
    for phase in {phase for phase, _, _ in run.phases} - {Phase.other}:
        assert f">{phase.name} (inferred)<" in page and f">{phase.name}<" not in page


@pytest.mark.parametrize("name", TRAINING)
def test_objects_and_tables_keep_inferred_and_recorded_apart(snapshots: Path, name: str) -> None:
    run = opened(snapshots, name)
    devices = json.loads(json.dumps(report_json(run.recording, run.name)))["devices"]
    own = next(device for device in devices if device["name"] == run.device.name)
    guessed = own["inferred_categories_at_peak"]
    assert own["coverage_at_peak"] == 0.0 and own["inferred"] is True
    assert own["categories_at_peak"] == guessed | {"unattributed": sum(own["unattributed_at_peak"].values())}
    assert own["inferred_coverage_at_peak"] * run.peak_bytes == pytest.approx(sum(guessed.values()))
    assert own["inferred_shares"]["category"] == own["inferred_coverage_at_peak"]
    assert {"category", "phase", "operator", "module", "events_in_phases", "evident", "steps"} < {
        *own["inferred_shares"]
    }
    rows = list(csv.DictReader(io.StringIO(table_csv(run, "allocations"))))
    assert {row["category_inferred"] == "yes" for row in rows if row["category"] != "unattributed"} == {True}
    assert {row["phase_inferred"] == "yes" for row in rows if row["phase"] != "other"} == {True}
    assert {row["phase_inferred"] for row in rows if row["phase"] == "other"} <= {""}
    rows = list(csv.DictReader(io.StringIO(table_csv(run, "categories"))))
    assert all((row["inferred"] == "yes") == (row["category"] != "unattributed") for row in rows)


def test_tables_of_a_recording_say_nothing_of_inference(samples: Path) -> None:
    run = Run(open_file(samples / "before.mstrata"))
    assert report_json(run.recording, "x")["devices"][0]["inferred_categories_at_peak"] == {}
    for row in csv.DictReader(io.StringIO(table_csv(run, "allocations"))):
        assert row["category_inferred"] == row["phase_inferred"] == ""
    assert {row["inferred"] for row in csv.DictReader(io.StringIO(table_csv(run, "categories")))} == {""}
    assert "nferred" not in report_html(run.recording, "x") + report_text(run.recording, "x")


class Refusing(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(global_name)


def phase_as_written(event: dict[str, Any]) -> str:
    frames = [(frame["name"], frame["filename"].replace("\\", "/")) for frame in event.get("frames", [])]
    if any("/torch/optim/" in file for _, file in frames):
        return "optimizer"
    return "backward" if any("torch::autograd::Engine::" in function for function, _ in frames) else "before"


@pytest.mark.parametrize("name", WITH_ENGINE)
def test_activations_are_what_was_made_before_backward_and_freed_by_its_engine(snapshots: Path, name: str) -> None:
    """Counted once more from the file, event by event, by the words of its stacks alone."""
    run = opened(snapshots, name)
    file = io.BytesIO((snapshots / f"{name}.pickle").read_bytes())
    trace = Refusing(file, encoding="utf-8", errors="replace").load()["device_traces"][run.device.ordinal]
    made: dict[int, int] = {}
    total, peak = 0, run.peak_position - 1
    for i, event in enumerate(trace):
        if event["action"] == "alloc":
            made[event["addr"]] = i
        elif event["action"] == "free_completed":
            birth = made.pop(event["addr"], None)
            if birth is not None and birth <= peak < i:
                by = phase_as_written(trace[birth]), phase_as_written(event)
                total += event["size"] if by == ("before", "backward") else 0
    assert run.inferred_categories_at(run.peak_position).get(Category.activation, 0) == total
