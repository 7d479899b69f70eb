"""The HTML pages: everything that the other reports say is in them, and they need nothing from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from memstrata.capture.format.schema import Fate
from memstrata.viewer import cli
from memstrata.viewer.analysis.findings import findings
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.html import report_html
from memstrata.viewer.sources import open_file

from .pages import Page


@pytest.fixture
def printed(samples: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What the command prints with these arguments in the folder of samples."""

    def ask(*arguments: str) -> str:
        named = [str(samples / word) if (samples / word).exists() else word for word in arguments]
        assert cli.main(named) == 0
        return capsys.readouterr().out

    return ask


def test_the_whole_analysis_is_on_the_page(samples: Path) -> None:
    page = Page(report_html(open_file(str(samples / "before.mstrata")), "before.mstrata"))
    assert [name for name in page.headings if name in WHOLE] == WHOLE


WHOLE = [
    "Super-blocks and layers",
    "Prediction from shapes, activations only",
    "Saved tensors by fate (distinct storages)",
    "Largest allocations at the peak",
    "Stacks at the peak",
    "Checkpoint plans",
    "What else would help (estimates, each by itself)",
    "Allocator",
    "Step",
]


def test_a_super_block_has_the_sum_of_its_layers(samples: Path) -> None:
    recording = open_file(str(samples / "before.mstrata"))
    run, text = Run(recording), report_html(recording, "before.mstrata")
    alive = run.groups_at("layer", [run.peak_position])[:4, 0].tolist()
    row = next(line for line in text.splitlines() if "super-block 0 (layers 0-3)</b></td>" in line)
    sums = [int(exact.replace(",", "")) for exact in re.findall(r'title="([\d,]+) bytes"', row)]
    assert sums[2] == sum(alive) and sums[0] == sum(run.saved_bytes_by_layer(Fate.kept).get(i, 0) for i in range(4))


def test_allocations_of_a_snapshot_are_called_by_their_frame(snapshots: Path) -> None:
    text = report_html(open_file(str(snapshots / "torch26-three-pools-no-trace.pickle")), "a.pickle")
    assert "<summary>unattributed, vllm_rollout_spmd.py:114 __init__</summary>" in text


def test_findings_stand_before_the_picture_with_what_to_do(with_findings: Path) -> None:
    recording = open_file(str(with_findings))
    text = report_html(recording, "a.mstrata")
    page, found = Page(text), findings(Run(recording))
    assert len(found) == 2 and "Findings" in page.headings
    assert all(" ".join(f"{finding.text} {finding.suggestion}".split()) in page.words for finding in found)
    assert text.index("Findings") < text.index("<svg")


def test_the_stacks_add_up(samples: Path) -> None:
    recording = open_file(str(samples / "before.mstrata"))
    text = report_html(recording, "before.mstrata")
    tree = text[text.index('<div class="tree">') : text.index("</section>", text.index('<div class="tree">'))]
    top, depth = 0, 0
    for tag, exact in re.findall(r'<(/?(?:details|div))|title="([\d,]+) bytes"', tree):
        depth += {"": 0, "details": 1, "div": 1, "/details": -1, "/div": -1}[tag]
        top += int(exact.replace(",", "")) if exact and depth == 2 else 0
    peak = Run(recording).peak_bytes
    assert 0.97 * peak < top <= peak  # frames with very little are left out
    assert "capture/demo.py:55" in unescape(tree) and "<details open>" in tree


def test_a_report_is_printed_as_a_page(printed: Callable[..., str], samples: Path) -> None:
    assert printed("report", "after.mstrata", "--html") == report_html(
        open_file(str(samples / "after.mstrata")), "after.mstrata"
    )


def test_the_ranks_of_a_run_are_a_page(printed: Callable[..., str], samples: Path, tmp_path: Path) -> None:
    text = printed("report", "ranks", "--html")
    page = Page(text)
    assert "Rank 1 stands out: its peak is 56.5 MiB, 15.7 MiB (38.7%) more than rank 0's 40.7 MiB." in page.words
    assert "Ranks (activations and communication each at their own highest)" in page.headings
    assert text.count(">optimizer state</text>") == 2  # each timeline with its legend
    target = tmp_path / "ranks.html"
    assert cli.main(["export", str(samples / "ranks"), "-o", str(target)]) == 0
    assert target.read_text(encoding="utf-8") == text


def test_a_kind_that_ranks_have_not_is_one_sentence(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", str(samples / "ranks"), "-o", str(tmp_path / "x.csv")]) == 2
    said = "memstrata: ranks is a folder of ranks, which can be written as html, text, json\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("names", [("after.mstrata",), ("after.mstrata", "uniform.mstrata")])
def test_a_comparison_is_a_page(printed: Callable[..., str], names: tuple[str, ...]) -> None:
    text = printed("diff", "before.mstrata", *names, "--html")
    page = Page(text)
    assert page.headings[0] == f"before.mstrata against {', '.join(names)}"
    said = " ".join(printed("diff", "before.mstrata", *names).split())
    assert "Peak 751 MiB to 358 MiB: 393 MiB less (52.3%)" in said and "Peak 751 MiB to 358 MiB: 393 MiB" in page.words
    pictures = text.partition("Each run by itself")[2].split("<svg")[1:]
    assert len(pictures) == 1 + len(names)
    scales = [re.findall(r'class="tick"[^>]*>([^<]*iB)<', picture) for picture in pictures]
    assert scales[0] and all(scale == scales[0] for scale in scales)  # one height for one size


def test_two_forms_at_once_are_refused(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", str(samples / "before.mstrata"), "--html", "--json"])
    assert stop.value.code == 2 and capsys.readouterr().err.count("\n") == 1
