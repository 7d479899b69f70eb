"""Text output: the answer first, at most 80 columns, binary units."""

import re

import pytest

from memstrata.capture.format.plan import PRESETS
from memstrata.viewer.analysis.diff import Diff
from memstrata.viewer.look.name_cut import middle_cut
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.diff_text import diff_text
from memstrata.viewer.report.layout import table, wrapped
from memstrata.viewer.report.predict_text import predict_text
from memstrata.viewer.report.text import report_text
from memstrata.viewer.sources import open_file

SAMPLES = ["before", "after", "uniform-checkpointed", "encoder-decoder", "irregular", "raised", "format-1"]


def check(text):
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for line in text.splitlines():
        assert len(line) <= 80, line
        assert line == line.rstrip()
        assert not re.search(r"\d ?[kKMGT]B\b", line), line
    assert "\n\n\n" not in text
    assert text.isprintable() or set(filter(lambda c: not c.isprintable(), text)) == {"\n"}


@pytest.mark.parametrize("name", SAMPLES)
def test_recordings(samples, name):
    text = report_text(open_file(samples / f"{name}.mstrata"), f"{name}.mstrata")
    check(text)
    assert text.startswith(f"{name}.mstrata: recording of ")
    answer = text.splitlines()[1]
    assert answer.startswith("error: The step raised" if name == "raised" else "Peak ")


def test_snapshots(snapshot_file):
    text = report_text(open_file(snapshot_file), snapshot_file.name)
    check(text)
    assert text.splitlines()[1].startswith(("Peak ", "Active "))
    state = text.splitlines()[1].startswith("Active ")
    assert ("highest" in text, "at the peak" in text) == (not state, not state)
    assert not re.search(r"(\d[\d,]*) allocations came .* \(\1 times\)", " ".join(text.split()))


def test_the_answer_comes_first_and_the_tables_prove_it(samples):
    text = report_text(open_file(samples / "before.mstrata"), "before.mstrata")
    answer, _, tables = text.partition("\n\n")
    tables = "\n" + tables
    words = " ".join(answer.split())
    assert "Peak 751 MiB in backward of super-block 2 (layers 8-11)" in words
    assert "activations up to 633 MiB, shapes say 414 MiB" in words
    assert "+219 MiB against shapes" in words
    assert "(estimate)" in words
    for title in ("At the peak", "Super-blocks", "Saved tensors by fate", "Prediction from shapes", "Step", "Notes"):
        assert f"\n{title}" in tables


def test_an_80_columns_page_survives_a_long_name_and_many_devices(snapshots):
    name = "a-very-long-name-" * 12 + ".pickle"
    text = report_text(open_file(snapshots / "torch28-oom-three-gpus-expandable.pickle"), name)
    check(text)
    assert len(re.findall(r"^  \d cuda:\d", text, re.MULTILINE)) == 3
    assert "1 cuda:1 (shown here)" in text


def test_a_file_without_a_timeline_says_so(snapshots):
    text = report_text(open_file(snapshots / "torch22-list-of-segments.pickle"), "x")
    assert "at the end" in text.splitlines()[1]
    assert "State at the end" in text
    assert "no event history" in text


def test_comparison(samples):
    a, b = (Run(open_file(samples / f"{n}.mstrata"), name=f"{n}.mstrata") for n in ("before", "after"))
    text = diff_text(Diff(a, b))
    check(text)
    assert "Peak 751 MiB to 358 MiB: 393 MiB less (52.3%)" in text
    assert re.search(r"predicted by shapes under the plans in force +272 MiB", text)
    assert re.search(r"achieved: activation peak of A minus that of B +421 MiB", text)
    assert re.search(r"super-block 2 \(layers 8-11\) +256 MiB +48.0 MiB +-208 MiB", text)


def test_a_run_that_never_checkpointed_is_said_above_the_answer(samples):
    files = (("after", "a.mstrata"), ("before", "b.mstrata"))
    a, b = (Run(open_file(samples / f"{name}.mstrata"), name=n) for name, n in files)
    head, _, _ = diff_text(Diff(a, b)).partition("\n\n")
    assert "b.mstrata never checkpointed" in head


def test_comparison_of_snapshots(snapshots):
    a, b = (Run(open_file(snapshots / f"torch24-linear-{n}.pickle"), name=n) for n in ("grad", "nograd"))
    text = diff_text(Diff(a, b))
    check(text)
    assert "no saving can be compared" in " ".join(text.split())


def test_prediction():
    shape = PRESETS["teaching"]
    text = predict_text("teaching", shape, shape.per_super_block())
    check(text)
    assert "96.0 GiB of activations without checkpoints, 7.25 GiB with one for every" in text
    for line in (r"boundaries \(16\) +1.25 GiB", "layer +98,304 +1.50 GiB", "times the residual stream +19.2x"):
        assert re.search(line, text)
    assert re.search(r"optimizer state +4.71 GiB", text)


def test_numbers_keep_their_unit_when_a_line_is_broken():
    text = "x" * 70 + " about 12.3 MiB and then 4.00 GiB more"
    assert any(line.endswith("12.3 MiB and then 4.00 GiB more") for line in wrapped(text))
    assert not any(line.endswith("12.3") for line in wrapped(text))


def test_tables_shorten_their_first_column_only():
    lines = table(("name", "bytes"), [("a" * 200, "1.00 GiB"), ("b", "2 B")])
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].endswith("  1.00 GiB")
    assert middle_cut("abcdefghij", 8) == "a...ghij"
    assert middle_cut("abc", 8) == "abc"


def test_rows_whose_names_are_cut_can_be_told_apart():
    names = [f"llama-3-8b-zero3-{n}ockpt-bs4-seq4096-seed1234-run1.mstrata" for n in "nt"]
    rows = [(name, "1,000,000 tokens/s", "633 MiB", "1.23 s") for name in (*names, names[0])]
    _, first, second, again = (line.split()[0] for line in table(("run", "a", "b", "c"), rows))
    assert "nockpt" in first and "tockpt" in second and first == again


def test_the_first_line_of_a_report_says_all_of_it(samples):
    """However long the name is: it is broken between its words, not cut."""
    name = "a-name-of-a-file-that-says-all-there-is-to-know.mstrata"
    recording = open_file(samples / "before.mstrata")
    first, second, *_ = report_text(recording, name).splitlines()
    said = f"{name}: recording of HybridDecoder, cpu, torch {recording.meta.torch_version}"
    assert f"{first} {second.strip()}" == said and len(first) <= 80


def test_what_could_steer_a_terminal_is_not_printed(samples):
    text = report_text(open_file(samples / "uniform.mstrata"), "a\x1b[31m\nb.mstrata")
    check(text)
    assert text.startswith("a?[31m?b.mstrata: recording of")


def test_a_file_without_a_device_says_so(snapshots):
    text = report_text(open_file(snapshots / "torch25-empty.pickle"), "empty.pickle")
    assert "info: The file lists no device: there is nothing to show." in text
