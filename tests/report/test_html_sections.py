"""Sections of the page of one file: plans, what else, allocator, memory, steps, each to the byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memstrata.viewer.analysis.allocator.answer import Answer
from memstrata.viewer.analysis.findings import findings
from memstrata.viewer.analysis.prediction import predict
from memstrata.viewer.analysis.residual import residual
from memstrata.viewer.analysis.shape import plan_in_force, shape_of
from memstrata.viewer.analysis.steps import steps_of
from memstrata.viewer.analysis.what_else import without
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.allocator_text import runs_out_text
from memstrata.viewer.report.html import report_html
from memstrata.viewer.report.html_page import frames_html, told_html
from memstrata.viewer.report.plan_text import Asked, operator_choices, plans, segments_text, time_text
from memstrata.viewer.report.text import step_facts_text
from memstrata.viewer.sources import open_file

from .pages import Cell, Page


def exact(row: list[Cell]) -> list[int]:
    return [size for cell in row for size in cell.exact]


@pytest.fixture(scope="module")
def run(samples: Path) -> Run:
    return Run(open_file(str(samples / "before.mstrata")), name="before.mstrata")


@pytest.fixture(scope="module")
def page(run: Run) -> Page:
    return Page(report_html(run.recording, run.name))


def snapshot(folder: Path, name: str) -> tuple[Run, Page]:
    recording = open_file(str(folder / f"{name}.pickle"))
    return Run(recording, name=f"{name}.pickle"), Page(report_html(recording, f"{name}.pickle"))


def test_every_plan_has_its_peak_what_it_saves_and_what_it_costs(page: Page, run: Run) -> None:
    found = plans(run, Asked())
    rows = page.table("Peak against time, estimates from this recording")
    assert [row[0].text for row in rows] == [segments_text(o) for o in found.others] and len(rows) > 10
    for row, outcome in zip(rows, found.others, strict=True):
        saved = run.peak_bytes - outcome.peak_bytes
        assert exact(row) == [outcome.peak_bytes, saved, outcome.activation_peak_bytes]
        assert row[6].text == time_text(outcome.extra_seconds, "+") and row[7].text != "-"
    assert rows[-1][4].text == "71.4%" and rows[-1][8].text == "in backward of super-block 0 (layers 0-3)"
    operators = page.table("Operators in layers (a checkpoint can keep them: --keep)")
    assert [exact(row) for row in operators] == [[choice.bytes] for choice in operator_choices(found.planner)]


def test_other_changes_have_their_peak_and_their_words(page: Page, run: Run) -> None:
    rows = page.table("What else would help (estimates, each by itself)")
    changes = without(run)
    assert [exact(row) for row in rows] == [[c.peak_bytes, -c.saved_bytes] for c in changes]
    assert [row[0].text for row in rows] == [c.name + c.text for c in changes]


def test_groups_at_the_peak_sum_to_it(page: Page, run: Run) -> None:
    *rows, total = page.table("By category, at the peak (100.0% attributed)")
    assert sum(size for row in rows for size in exact(row)) == exact(total)[0] == run.peak_bytes
    assert exact(page.table("Active memory")[0]) == [run.baseline_bytes, run.peak_bytes, run.end_bytes]


def test_prediction_and_residual_are_exact(page: Page, run: Run) -> None:
    shape, plan = shape_of(run), plan_in_force(run)
    assert shape is not None
    prediction, missed = predict(shape, plan), residual(run, shape, plan)
    rows = page.table("Prediction from shapes, activations only")
    assert exact(rows[2]) == [prediction.total_bytes] and exact(rows[-1]) == [prediction.timeline_peak_bytes]
    *items, total = page.table("Prediction from shapes, activations only", 1)
    assert exact(total) == [missed.bytes] == [sum(row[-1].exact[0] for row in items)]


def test_steps_and_facts_are_those_of_the_text(page: Page, run: Run) -> None:
    rows = page.table("Steps")
    assert len(rows) == len(steps_of(run)) == 7
    assert exact(rows[-1]) == [run.peak_bytes, run.end_bytes]
    assert all(" ".join(fact.split()) in page.words for fact in step_facts_text(run))


def test_reserved_memory_is_taken_apart_by_use_by_pool_and_by_segment(snapshots: Path) -> None:
    run, page = snapshot(snapshots, "torch211-train")
    answer = Answer(run)
    parts = answer.fragmentation
    *rows, total = page.table("At the highest reserved bytes (event 3,738)")
    assert [exact(row)[0] for row in rows] == [parts.allocated_bytes, parts.returnable_bytes, parts.pinned_bytes]
    assert sum(exact(row)[0] for row in rows) == exact(total)[0] == parts.reserved_bytes
    *kinds, whole = page.table("Pools and streams: at the highest reserved bytes (event 3,738)")
    for column in range(3):  # reserved, in blocks, free
        assert sum(exact(row)[column] for row in kinds) == exact(whole)[column]
    used = parts.allocated_bytes
    assert exact(whole) == [parts.reserved_bytes, used, parts.reserved_bytes - used, parts.largest_free_bytes]
    segments = page.table("Allocator segments, the largest first: at the highest reserved bytes (event 3,738)")
    assert sum(exact(row)[0] for row in segments) == parts.reserved_bytes
    assert sum(exact(row)[1] for row in segments) == parts.reserved_bytes - used
    assert segments[-1][0].text.startswith("other (")
    pinned = page.table("Mostly free, and what keeps them")
    assert [exact(row)[1:] for row in pinned] == [[p.free_bytes, p.returned_bytes] for p in parts.pinned]
    end = page.table("Pools and streams: as recorded at the end of the file")[-1]
    assert run.reserved is not None and exact(end)[0] == int(run.reserved[-1])


def test_where_memory_ran_out_there_is_what_was_asked_for(snapshots: Path) -> None:
    run, page = snapshot(snapshots, "torch28-oom-three-gpus-expandable")
    (oom,) = Answer(run).ooms
    rows = {row[0].text: exact(row) for row in page.table("Out of memory at event 421 (recorded)")}
    assert rows["requested"] == [oom.requested_bytes] and rows["reserved"] == [oom.reserved_bytes]
    assert rows["free on the device"] == [oom.device_free_bytes]
    alive = sum(sizes[0] for name, sizes in rows.items() if name.startswith("alive: "))
    assert alive == run.curve[421]
    tried = page.table("Out of memory at event 421 (recorded)", 1)
    assert [row[1].text for row in tried] == [runs_out_text(change) for change in oom.changes]
    assert [exact(row)[-1] for row in tried] == [change.peak_reserved_bytes for change in oom.changes]
    assert [row[0].exact for row in tried] == [[c.more_bytes] if c.more_bytes else [] for c in oom.changes]
    devices = page.table("Devices")
    assert [row[0].text for row in devices] == ["0 cuda:0", "1 cuda:1 (shown here)", "2 cuda:2"]
    assert exact(devices[1]) == [run.baseline_bytes, run.peak_bytes, run.end_bytes]
    assert page.headings[0] == "torch28-oom-three-gpus-expandable.pickle: snapshot, cuda:1"  # in full


def test_an_allocator_with_other_rules_is_shown_as_recorded(snapshots: Path) -> None:
    run, page = snapshot(snapshots, "npu26-expandable-unmap")
    assert "npu:0 has an allocator of its own" in page.words
    rows = page.table("Pools and streams: as recorded at the end of the file")
    assert run.reserved is not None and exact(rows[-1])[0] == int(run.reserved[-1])
    assert "Reserved memory" not in page.headings


def test_private_pools_stand_apart(snapshots: Path) -> None:
    _, page = snapshot(snapshots, "torch26-three-pools-no-trace")
    rows = page.table("Pools and streams: at the highest reserved bytes (the start)")
    assert len(rows) > 3 and any(row[0].text.startswith("private pool") for row in rows)


def test_no_number_of_bytes_in_a_table_is_without_its_exact_count(page: Page) -> None:
    size = re.compile(r"[+-]?[\d.,]+ ([KMGTPE]i)?B")
    cells = [cell for _, rows in page.tables for row in rows for cell in row if size.fullmatch(cell.text)]
    assert len(cells) > 200 and all(cell.exact for cell in cells)


@pytest.mark.parametrize("name", ["raised", "irregular", "encoder-decoder"])
def test_no_sentence_rounds_bytes_without_their_exact_count(page: Page, samples: Path, name: str) -> None:
    """Headline, findings, warnings, notes, plans, residual: whatever a reader may want to add up."""
    assert page.words.count("MiB") > 300 and not page.bare
    assert not Page(report_html(open_file(str(samples / f"{name}.mstrata")), name)).bare


@pytest.mark.parametrize("name", ["torch28-oom-three-gpus-expandable", "torch23-train", "torch26-train-mid-run"])
def test_no_sentence_about_a_snapshot_rounds_without_its_exact_count(snapshots: Path, name: str) -> None:
    run, page = snapshot(snapshots, name)
    assert "GiB" in page.words and not page.bare
    assert all("click" not in found.suggestion for found in findings(run))  # a page and a text have nothing to click


def test_a_figure_in_a_sentence_is_exact_where_it_is_known() -> None:
    said = told_html("peak 1.00 KiB, <b> -2.00 KiB, 11.00 KiB, 3.00 KiB", [1024, 2048, 3072, 3073])
    assert said == (
        'peak <span title="1,024 bytes">1.00 KiB</span>, &lt;b&gt; <span title="-2,048 bytes">-2.00 KiB</span>,'
        " 11.00 KiB, 3.00 KiB"  # not a part of a number, and not where two are meant
    )


def test_the_middle_of_a_long_stack_is_folded_away() -> None:
    assert frames_html(["a", "<b>"]) == "<p>a<br>&lt;b&gt;</p>"
    folded = frames_html([f"f{number}" for number in range(20)])
    assert folded.startswith('<div class="frames">f0<br>f1<br>f2<details><summary>16 more frames</summary>f3<br>')
    assert folded.endswith("<br>f18</details>f19</div>")
