"""What a file is turned into: other programs must find the same figures in it."""

import csv
import dataclasses
import io
import json
import pickletools
import re

import numpy as np
import pytest

from memstrata.capture.format import files
from memstrata.capture.format.recording import build
from memstrata.capture.format.schema import Category, Phase
from memstrata.viewer import cli
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.chrome_trace import chrome_trace
from memstrata.viewer.report.exports import EXPORTS, export_for
from memstrata.viewer.report.html import report_html
from memstrata.viewer.report.one_heap import BASE, lay_out
from memstrata.viewer.report.snapshot_pickle import snapshot, snapshot_bytes
from memstrata.viewer.report.tables_csv import TABLES, table_csv
from memstrata.viewer.sources import open_file

from .pages import Page

SAMPLES = ["before", "after", "encoder-decoder", "irregular", "raised"]


@pytest.fixture(params=SAMPLES)
def sample(request, samples):
    return open_file(str(samples / f"{request.param}.mstrata"))


def back(recording, tmp_path):
    path = tmp_path / "out.pickle"
    path.write_bytes(snapshot_bytes(recording))
    return open_file(str(path))


def test_a_recording_becomes_a_snapshot_with_the_same_curve(sample, tmp_path):
    made, run = back(sample, tmp_path), Run(sample)
    other = Run(made)
    assert np.array_equal(other.curve, run.curve)
    assert sorted(other.allocations.bytes.tolist()) == sorted(run.allocations.bytes.tolist())
    stamped = [made.strings[i] for i in made.events.metadata.tolist() if i >= 0]
    layers = [text for text in stamped if text.startswith("activation, layers.")]
    wanted = (run.attribution.category == Category.activation) & (run.attribution.layer >= 0) & ~run.allocations.before
    assert len(layers) == int(wanted.sum()) or not run.layers.names[0].startswith("layers.")
    assert not any(problem.code == "reserved_below_active" for problem in other.problems)


def added_up_by_memory_viz(snapshot, device=0):
    """(first, highest, last) sum of bytes as `process_alloc_data` of torch/utils/viz/MemoryViz.js comes to them.

    It lays blocks one behind the other from the address of their segment, and takes those that no event of the trace
    has left at their address for older than the trace.
    """
    alive, total, highest, older = {}, 0, 0, 0
    for event in snapshot["device_traces"][device]:
        if event["action"] == "alloc":
            alive[event["addr"]] = event["size"]
            total += event["size"]
        elif event["action"] == "free_completed":
            older += 0 if event["addr"] in alive else event["size"]
            alive.pop(event["addr"], None)
            total -= event["size"]
        highest = max(highest, total)
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated" and address not in alive:
                older += block["requested_size"]
            address += block["size"]
    return older, highest + older, total + older


@pytest.mark.parametrize("name", [*SAMPLES, "uniform", "format-1"])
def test_memory_viz_comes_to_the_same_figures(name, samples):
    recording = open_file(str(samples / f"{name}.mstrata"))
    run, written = Run(recording), snapshot(recording)
    assert added_up_by_memory_viz(written) == (run.curve[0], run.peak_bytes, run.end_bytes)
    begins = [(s["address"], s["address"] + s["total_size"]) for s in written["segments"]]
    places = [event["addr"] for event in written["device_traces"][0]]
    assert places and all(any(low <= place < high for low, high in begins) for place in places)


def test_blocks_tile_their_segments(sample):
    torch_reader = pytest.importorskip("torch.cuda._memory_viz")
    written = snapshot(sample)
    assert torch_reader.segsum(written)  # asserts it itself
    for segment in written["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address and block["size"] > 0
            address += block["size"]
        assert address == segment["address"] + segment["total_size"]


def test_a_heap_fills_the_smallest_gap_and_joins_what_is_free():
    def event(action, old, size):
        return {"action": action, "addr": old, "size": size}

    older = {"address": 7, "size": 10, "requested_size": 10, "state": "active_allocated"}
    events = [
        event("alloc", 100, 50), event("alloc", 200, 20), event("alloc", 300, 30), event("alloc", 400, 5),
        event("free_completed", 100, 50), event("free_completed", 300, 30),
        event("alloc", 500, 25), event("free_completed", 200, 20), event("free_completed", 900, 40),
        event("alloc", 600, 70), event("free_requested", 600, 70), event("alloc", 700, 200),
    ]  # fmt: skip
    end = [dict(older), {**older, "address": 400, "size": 5}, {**older, "address": 500, "size": 25},
           {**older, "address": 600, "size": 70}, {**older, "address": 700, "size": 200}]  # fmt: skip
    blocks, size = lay_out(events, end)
    # 900 and 7 are older than the trace: 0-40 and 40-50; then 100 at 50, 200 at 100, 300 at 120, 400 at 150
    assert [e["addr"] - BASE for e in events] == [50, 100, 120, 150, 50, 120, 120, 100, 0, 50, 50, 155]
    assert [(b["address"] - BASE, b["size"], b["state"] == "inactive") for b in blocks] == [
        (0, 40, True), (40, 10, False), (50, 70, False), (120, 25, False), (145, 5, True), (150, 5, False),
        (155, 200, False),
    ]  # fmt: skip
    assert size == 355


def test_a_snapshot_survives_being_written_again(snapshot_file, tmp_path):
    first = open_file(str(snapshot_file))
    made = back(first, tmp_path)
    ordinals = {device.ordinal: row for row, device in enumerate(made.meta.devices)}
    for row, device in enumerate(first.meta.devices):
        run = Run(first, row)
        if device.ordinal not in ordinals:  # it has neither events nor memory
            assert run.n_events == 0 and run.end_bytes == 0
            continue
        again = Run(made, ordinals[device.ordinal])
        if np.isin(run.events.action, 9).any():  # an action that is not known has no name to be written
            continue
        assert np.array_equal(again.curve, run.curve)
        assert (again.reserved is None) == (run.reserved is None)
        if run.reserved is not None:
            assert np.array_equal(again.reserved, run.reserved)


def test_the_snapshot_runs_nothing_when_it_is_opened(sample):
    names = {opcode.name for opcode, _, _ in pickletools.genops(snapshot_bytes(sample))}
    assert not names & {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "PERSID", "BINPERSID"}


def test_perfetto_counters_add_up_and_reach_the_peak(sample):
    run = Run(sample)
    trace = json.loads(json.dumps(chrome_trace(run), allow_nan=False))
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C" and e["name"] == "active bytes"]
    sums = [sum(event["args"].values()) for event in counters]
    assert max(sums) == run.peak_bytes
    assert set(sums) <= set(run.curve.tolist())
    assert [e["ts"] for e in counters] == sorted(e["ts"] for e in counters)


def test_perfetto_spans_nest_within_each_thread(samples):
    trace = chrome_trace(Run(open_file(str(samples / "after.mstrata"))))
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["cat"] for e in spans} >= {Phase.forward.name, Phase.recompute.name, Phase.backward.name}
    for thread in {e["tid"] for e in spans}:
        open_ends = []
        for event in sorted((e for e in spans if e["tid"] == thread), key=lambda e: (e["ts"], -e["dur"])):
            while open_ends and open_ends[-1] <= event["ts"] + 1e-6:
                open_ends.pop()
            end = event["ts"] + event["dur"]
            assert not open_ends or end <= open_ends[-1] + 1e-3
            open_ends.append(end)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_tables_hold_exact_bytes(samples):
    run = Run(open_file(str(samples / "after.mstrata")), name="after.mstrata")
    allocations = rows_of(table_csv(run, "allocations"))
    assert [int(row["bytes"]) for row in allocations] == run.allocations.bytes.tolist()
    p = run.peak_position
    alive = [r for r in allocations if int(r["start_position"]) <= p < int(r["end_position"] or run.n_events + 1)]
    assert sum(int(row["bytes"]) for row in alive) == run.peak_bytes
    assert sum(int(row["bytes_at_peak"]) for row in rows_of(table_csv(run, "categories"))) == run.peak_bytes
    layers = rows_of(table_csv(run, "layers"))
    assert [row["layer"] for row in layers] == list(run.layers.names)
    saved = rows_of(table_csv(run, "saved_tensors"))
    assert [int(row["storage_bytes"]) for row in saved] == run.recording.saved_tensors.storage_bytes.tolist()


def test_a_file_without_the_facts_of_a_table_says_so(snapshots):
    run = Run(open_file(str(snapshots / "torch26-train-from-start.pickle")), name="a.pickle")
    with pytest.raises(ValueError, match=r"a\.pickle has no saved tensors"):
        table_csv(run, "saved_tensors")
    with pytest.raises(ValueError, match="there is no table 'x'"):
        table_csv(run, "x")
    assert set(TABLES) == {"categories", "layers", "allocations", "saved_tensors"}


def hostile(samples):
    """A recording whose names try to get out of a page and into a spreadsheet's formulas."""
    first = open_file(str(samples / "before.mstrata"))
    bad = ["=cmd|' /C calc'!A0" if text == "layers.0" else text for text in first.strings.all()]
    bad = ["</pre><script>alert(1)</script>" if text == "forward" else text for text in bad]
    from memstrata.capture.format.interning import StringTable

    table = StringTable()
    for text in bad:
        table.intern(text)
    tables = dict(first.tables())
    return build(dataclasses.replace(first.meta, model="<img src=x>"), table, **tables)


def test_names_from_a_file_stay_names(samples):
    recording = hostile(samples)
    page = report_html(recording, "<b>.mstrata")
    assert "<script" not in page and "<img" not in page and "<b>.mstrata" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\n=cmd" not in table_csv(Run(recording), "layers")


def test_the_page_stands_alone_and_gives_the_answer(sample):
    text = Page(report_html(sample, "a.mstrata")).words
    report = cli_report_lines(sample)
    assert all(line in text for line in report)


def cli_report_lines(recording):
    from memstrata.viewer.analysis.headline import headline

    return [line.text for line in headline(Run(recording, name="a.mstrata"))]


def test_every_real_snapshot_makes_a_page(snapshot_file):
    text = Page(report_html(open_file(str(snapshot_file)), "a.pickle")).words
    assert "a.pickle: snapshot" in text


def test_every_class_in_the_picture_has_a_colour(samples):
    page = report_html(open_file(str(samples / "after.mstrata")), "after.mstrata")
    used = set(re.findall(r'<(?:path|rect|i) class="([gp]\d+)"', page))
    assert used and all(f".{name} {{ fill:" in page for name in used)


@pytest.mark.parametrize("suffix", [export.suffix for export in EXPORTS.values()])
def test_the_command_writes_what_the_name_says(samples, tmp_path, capsys, suffix):
    target = tmp_path / f"out{suffix}"
    assert cli.main(["export", str(samples / "before.mstrata"), "-o", str(target)]) == 0
    assert capsys.readouterr().out == ""
    assert target.read_bytes() == EXPORTS[export_for(target.name)].make(
        files.read(samples / "before.mstrata"), "before.mstrata", "allocations"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "{out}/x.unknown"], "does not say what to write"),
        (["-o", "{out}/x", "--to", "gif"], "no export called 'gif'"),
        (["-o", "{out}/none/x.html"], "no such file"),
        (["-o", "{out}/x.csv", "--table", "z"], "there is no table 'z'"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(samples, tmp_path, capsys, arguments, sentence):
    status = cli.main(["export", str(samples / "before.mstrata"), *(a.format(out=tmp_path) for a in arguments)])
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert list(tmp_path.iterdir()) == []
