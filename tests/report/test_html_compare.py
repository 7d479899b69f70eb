"""Pages of comparisons and ranks: their tables are those of the analysis, to the byte, and close."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from memstrata.viewer.analysis.changes import Fared
from memstrata.viewer.analysis.diff import Diff
from memstrata.viewer.analysis.grouped import rows_by
from memstrata.viewer.analysis.opened import run_of_file, runs_of_ranks
from memstrata.viewer.analysis.ranks import Ranks
from memstrata.viewer.analysis.stack_diff import TOP, StackDiff
from memstrata.viewer.analysis.waterfall import waterfall
from memstrata.viewer.look.units import exact_bytes_text
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.html_compare import diffs_html, ranks_html
from memstrata.viewer.sources import open_run_directory

from .hostile_names import hostile
from .pages import Cell, Page

LEAST = 0.005
"""Share below which nodes of stacks are left out."""


@pytest.fixture(scope="module")
def runs(samples: Path) -> list[Run]:
    return [run_of_file(str(samples / f"{name}.mstrata")) for name in ("before", "after", "uniform")]


@pytest.fixture(scope="module")
def diff(runs: list[Run]) -> Diff:
    return Diff(runs[0], runs[1])


@pytest.fixture(scope="module")
def text(diff: Diff) -> str:
    return diffs_html([diff])


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def exact(row: list[Cell]) -> list[int]:
    return [size for cell in row for size in cell.exact]


@pytest.mark.parametrize(
    ("key", "title"),
    [("category", "category"), ("super_block", "super-block"), ("layer", "layer"), ("frame", "first user frame"),
     ("op", "operator")],
)  # fmt: skip
def test_a_table_has_each_group_of_both_peaks_and_their_sum(page: Page, diff: Diff, key: str, title: str) -> None:
    *rows, total = page.table(f"By {title}, each at its own peak")
    expected = {row.label: [row.a_bytes, row.b_bytes, row.difference_bytes] for row in rows_by(diff, key)}
    assert {row[0].text: exact(row) for row in rows} == expected
    sizes = [abs(exact(row)[2]) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert total[0].text == "all active"
    assert exact(total) == [diff.a.peak_bytes, diff.b.peak_bytes, diff.peak_difference_bytes]


def test_groups_beyond_those_that_are_listed_are_one_row(
    page: Page, diff: Diff, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memstrata.viewer.report.html_differences.ROWS", 3)
    *first, rest, total = Page(diffs_html([diff])).table("By layer, each at its own peak")
    assert len(first) == 3 and rest[0].text == "other (10)"
    for column in range(3):
        assert sum(exact(row)[column] for row in (*first, rest)) == exact(total)[column]


def test_the_steps_lead_from_one_peak_to_the_other(page: Page, diff: Diff, text: str) -> None:
    first, *steps, last = page.table("From A to B, at the peaks")
    expected = waterfall(rows_by(diff, "category")).steps
    assert exact(first) == [diff.a.peak_bytes] and exact(last) == [diff.b.peak_bytes]
    assert [row[0].text for row in steps] == [step.label for step in expected]
    assert [exact(row) for row in steps] == [[step.difference_bytes, step.end_bytes] for step in expected]
    bars = text[text.index("From A to B") : text.index("By category, each")].split("<tr>")[1:]
    ends = [
        (float(x), float(x) + float(w))
        for x, w in re.findall(r'<rect class="\w+" x="(.*?)" width="(.*?)"', "".join(bars))
    ]
    assert len(ends) == len(expected) + 2
    for (low, high), step in zip(ends[1:-1], expected, strict=True):
        edges = sorted((step.start_bytes, step.end_bytes))
        assert [low, high] == pytest.approx([size / diff.a.peak_bytes * 1000 for size in edges], abs=2.1)


def test_what_changed_closes(page: Page, diff: Diff) -> None:
    *rows, total = page.table("What appeared, disappeared, grew or shrank at the peaks")
    assert exact(total) == [diff.a.peak_bytes, diff.b.peak_bytes, diff.peak_difference_bytes]
    for column in range(3):
        assert sum(exact(row)[column] for row in rows) == exact(total)[column]
    first = diff.changes[0]
    assert rows[0][0].text.startswith("mm in mlp of 12 layers (activation)") and "layers.11" in rows[0][0].text
    assert [cell.text for cell in rows[0][1:3]] == ["disappeared", "24 → 0"]
    assert exact(rows[0]) == [first.a_bytes, first.b_bytes, first.difference_bytes]
    same = sum(change.a_bytes for change in diff.changes if change.fared is Fared.SAME)
    assert rows[-1][1].text == "same" and exact(rows[-1])[:2] == [same, same]


def test_stacks_have_the_bytes_of_both_runs_and_unfold_along_the_difference(text: str, diff: Diff) -> None:
    part = text[text.index("By stack, at the peaks") :]
    part = part[: part.index("</section>")]
    tree = StackDiff(diff.a, diff.b)
    found = re.findall(r'<b><span title="(.*?)">.*?</b> \(<span title="(.*?)">.*? → <span title="(.*?)">', part)
    known = {tuple(exact_bytes_text(size) for size in (node.difference_bytes, *node.bytes)) for node in tree.nodes[1:]}
    least = LEAST * diff.a.peak_bytes
    listed = {tuple(node.bytes) for node in tree.nodes[1:] if max(node.bytes) >= least}
    assert len(found) >= 10 and set(found) <= known
    assert {a for _, a, _ in found} >= {exact_bytes_text(a) for a, _ in listed}
    opened = re.findall(r"<details open><summary>.*?<p>(.*?)</p>", part)
    frames = [name for names in opened for name in unescape(names).split("<br>")]
    path = [tree.nodes[number].name for number in tree.telling_path() if number != TOP]
    assert len(frames) >= 3 and frames == path[: len(frames)]


def test_both_curves_lie_on_one_axis_with_units(text: str, diff: Diff) -> None:
    picture = text.partition("Memory of the runs on one axis")[2].partition("</svg>")[0]
    assert picture.count('class="l0"') == picture.count('class="l1"') == 1 and 'class="planned"' in picture
    ticks = re.findall(r'<text class="tick"[^>]*>([^<]*)<', picture)
    assert {"256 MiB", "768 MiB", "layer, in the order of the step"} <= set(ticks)
    assert {str(number) for number in range(12)} <= set(ticks)  # the layers
    for run in (diff.a, diff.b):
        assert f"<title>{exact_bytes_text(run.peak_bytes)}</title>{run.name}" in picture


def test_a_curve_reaches_exactly_its_peak(text: str, diff: Diff) -> None:
    picture = text.partition("Memory of the runs on one axis")[2].partition("</svg>")[0]
    grid = dict(re.findall(r'y="([\d.]+)" text-anchor="end">(\d+) MiB', picture))
    by_size = {int(size): float(y) - 4 for y, size in grid.items()}
    per_mib = (by_size[256] - by_size[768]) / 512
    for number, run in enumerate((diff.a, diff.b)):
        line = re.search(rf'class="l{number}" d="(.*?)"', picture)
        assert line is not None
        heights = [float(y) for y in re.findall(r"[V,]([\d.]+)", line[1])]
        assert min(heights) == pytest.approx(by_size[256] - (run.peak_bytes / 2**20 - 256) * per_mib, abs=0.2)


def test_savings_are_exact(page: Page, diff: Diff) -> None:
    rows = {row[0].text.strip(): exact(row) for row in page.table("Saving")}
    assert rows["predicted by shapes under the plans in force"] == [diff.predicted_saving_bytes]
    assert rows["achieved: activation peak of A minus that of B"] == [diff.achieved_saving_bytes]
    assert rows["whole-step peak of A minus that of B"] == [diff.a.peak_bytes - diff.b.peak_bytes]
    beyond = [rows[label] for label, _ in diff.saving_beyond_prediction]
    assert sum(size for (size,) in beyond) == rows["achieved minus predicted"][0]


def test_places_that_one_run_has_not_are_left_open(page: Page, diff: Diff) -> None:
    rows = page.table("By phase and super-block: most bytes alive meanwhile")
    assert len(rows) == len(diff.by_super_block_slot)
    row = next(row for row in rows if row[0].text.startswith("recompute of super-block 2"))
    assert [cell.text for cell in row[1:4]] == ["-", "326 MiB", "-"]
    by_layer = page.table("By phase and super-block: most bytes alive meanwhile", 1)
    assert [row[0].text for row in by_layer] == [row.slot.label for row in diff.by_layer_slot]


def test_no_sentence_rounds_bytes_without_their_exact_count(
    page: Page, ranks_page: Page, runs: list[Run], snapshots: Path
) -> None:
    """Headline, doubts and savings, of recordings, of ranks and of snapshots that have reserved memory."""
    assert not page.bare and not ranks_page.bare
    first, second = (snapshots / f"torch24-linear-{name}.pickle" for name in ("grad", "nograd"))
    both = Page(diffs_html([Diff(run_of_file(str(first)), run_of_file(str(second)))]))
    assert "Reserved at most 4.13 GiB to 4.13 GiB; reserved and unused" in both.words and not both.bare
    assert not Page(diffs_html([Diff(runs[0], run_of_file(str(first)))])).bare


def test_both_runs_stand_side_by_side(page: Page, diff: Diff) -> None:
    rows = {row[0].text: row for row in page.table("Both runs")}
    assert exact(rows["peak"]) == [diff.a.peak_bytes, diff.b.peak_bytes, diff.peak_difference_bytes]
    assert rows["peak"][-1].text == "-52.3%"
    assert [cell.text for cell in rows["throughput, unrecorded"][1:3]] == ["1,586 tokens/s", "1,217 tokens/s"]
    assert page.heads[0] == ["", "A: before.mstrata", "B: after.mstrata", "B - A", ""]


def test_each_of_several_runs_is_compared_with_the_first(runs: list[Run]) -> None:
    page = Page(diffs_html([Diff(runs[0], runs[1]), Diff(runs[0], runs[2])]))
    rows = page.table("All runs")
    assert [row[0].text for row in rows] == ["A: before.mstrata", "B: after.mstrata", "C: uniform.mstrata"]
    assert [exact(row)[0] for row in rows] == [run.peak_bytes for run in runs]
    assert "From A to B, at the peaks" in page.headings and "From A to C, at the peaks" in page.headings
    total = page.table("By category, each at its own peak", 1)[-1]
    assert exact(total) == [runs[0].peak_bytes, runs[2].peak_bytes, runs[2].peak_bytes - runs[0].peak_bytes]
    assert ["category", "A: before.mstrata", "C: uniform.mstrata", "C - A", ""] in page.heads


def test_snapshots_are_compared_by_what_can_be_known(snapshots: Path) -> None:
    pair = [run_of_file(str(snapshots / f"torch24-linear-{name}.pickle")) for name in ("grad", "nograd")]
    page = Page(diffs_html([Diff(*pair)]))
    *rows, total = page.table("By first user frame, each at its own peak")
    assert exact(total)[:2] == [run.peak_bytes for run in pair]
    assert sum(exact(row)[2] for row in rows) == exact(total)[2]
    assert "10 ms" in page.words and "host launch time since the start" in page.words
    assert not any("layer" in heading for heading in page.headings)


@pytest.fixture(scope="module")
def ranks_page(samples: Path) -> Page:
    return Page(ranks_html(open_run_directory(str(samples / "ranks"))))


@pytest.fixture(scope="module")
def ranks(samples: Path) -> Ranks:
    return Ranks(runs_of_ranks(open_run_directory(str(samples / "ranks"))))


def test_ranks_stand_side_by_side(ranks_page: Page, ranks: Ranks) -> None:
    rows = ranks_page.table("Ranks (activations and communication each at their own highest)")
    assert [exact(row)[:3] for row in rows] == [
        [row.peak_bytes, row.activation_bytes, row.communication_bytes] for row in ranks.rows
    ]
    assert [row[0].text for row in rows] == ["0", "1 (stands out)"]
    parts = ranks_page.table("By category, each at its own peak", 1)
    assert [sum(exact(row)) for row in parts] == [row.peak_bytes for row in ranks.rows]


def test_the_rank_that_stands_out_is_compared_with_the_one_in_the_middle(ranks_page: Page, ranks: Ranks) -> None:
    assert "Rank 1 against rank 0" in ranks_page.headings
    assert exact(ranks_page.table("From rank 0 to rank 1, at the peaks")[-1]) == [ranks.rows[1].peak_bytes]
    *rows, total = ranks_page.table("By layer, each at its own peak")
    assert sum(exact(row)[2] for row in rows) == exact(total)[2] == ranks.rows[1].peak_bytes - ranks.rows[0].peak_bytes


@pytest.mark.parametrize("keep_paths", [True, False])
def test_names_that_are_markup_are_words_in_a_comparison(samples: Path, tmp_path: Path, keep_paths: bool) -> None:
    bad = hostile(samples / "after.mstrata", tmp_path / "<i>=x<img src=y>.mstrata", keep_paths=keep_paths)
    text = diffs_html([Diff(run_of_file(str(samples / "before.mstrata")), run_of_file(str(bad)))])
    page = Page(text.replace("file:///x", "x"))  # which its texts hold
    assert '<img src="x" onerror="alert(1)"><script>alert(1)</script>' in page.words
    assert "\0" not in text and "\u202e" not in text
