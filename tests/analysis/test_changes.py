"""What appeared, disappeared, grew, shrank or moved between two peaks, on steps written down by hand and real ones."""

import pytest

from memstrata.capture.format.schema import Category, Phase, StorageKind
from memstrata.viewer.analysis.changes import NO_STACK, Fared, changes
from memstrata.viewer.analysis.diff import Diff
from memstrata.viewer.analysis.grouped import CHANGE, first_grouping, rows_by, shared_groupings
from memstrata.viewer.analysis.waterfall import waterfall
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file
from tests.model.recordings import Step

KIB = 1024


def step(weights, kept, made):
    """A step of two layers: `weights` bytes of each layer's weight, `kept` lists what each layer saves, `made` the
    (bytes, line) of what the script itself allocates."""
    out = Step()
    out.module("", "Model")
    out.module("layers", "ModuleList")
    for i in range(2):
        out.layer(f"layers.{i}")
        out.known(StorageKind.parameter, 0x100 + i, weights, 0, module=f"layers.{i}")
    out.span(Phase.forward, 0, 9000)
    time = 10
    for i, sizes in enumerate(kept):
        out.span(Phase.forward, time, time + 100 * len(sizes) + 50, f"layers.{i}")
        for number, size in enumerate(sizes):
            time += 100
            address = 0x1000 * (i + 1) + number
            out.alloc(address, size, time)
            out.saved(address, size, time + 5, module=f"layers.{i}")
        time += 100
    for number, (size, line) in enumerate(made):
        time += 100
        out.alloc(0x9000 + number, size, time, out.frames(("aten::empty", "", 0), ("step", "/home/u/train.py", line)))
    return out.run()


@pytest.fixture
def found():
    a = step(64 * KIB, [[KIB, 2 * KIB], [KIB, 2 * KIB]], [(7 * KIB, 5), (KIB, 9), (5 * KIB, 30)])
    b = step(64 * KIB, [[KIB, 3 * KIB], [KIB, 3 * KIB]], [(7 * KIB, 6), (4 * KIB, 9), (9 * KIB, 31)])
    return changes(a, b), Diff(a, b)


def one(rows, fared, what=None):
    (row,) = [c for c in rows if c.fared is fared and what in (None, c.thing.line, c.thing.what)]
    return row


def test_each_fate_is_told(found):
    rows, _ = found
    grew = one(rows, Fared.GREW, "4,4")
    assert grew.layers == ("layers.0", "layers.1")
    assert (len(grew.a_rows), len(grew.b_rows), grew.a_bytes, grew.b_bytes) == (4, 4, 6 * KIB, 8 * KIB)
    assert grew.same_size == 2  # one of 1 KiB in each layer
    same = one(rows, Fared.SAME)
    assert (same.thing.category, same.a_bytes, same.layers) == (Category.parameter, 128 * KIB, ("layers.0", "layers.1"))
    line = one(rows, Fared.GREW, "train.py:9 step")
    assert (line.a_bytes, line.b_bytes, line.text) == (KIB, 4 * KIB, "empty at train.py:9 step")
    assert one(rows, Fared.DISAPPEARED).a_bytes == 5 * KIB and one(rows, Fared.DISAPPEARED).b_rows == ()
    assert one(rows, Fared.APPEARED).b_bytes == 9 * KIB and one(rows, Fared.APPEARED).a_rows == ()


def test_as_much_made_at_another_line_has_moved(found):
    moved = one(found[0], Fared.MOVED)
    assert moved.thing.line == "train.py:5 step → train.py:6 step"
    assert (moved.a_bytes, moved.b_bytes, moved.same_size) == (7 * KIB, 7 * KIB, 1)


def test_the_sums_close_and_every_row_is_its_query(found):
    rows, diff = found
    assert sum(c.difference_bytes for c in rows) == diff.peak_difference_bytes == 9 * KIB
    assert [abs(c.difference_bytes) for c in rows] == sorted((abs(c.difference_bytes) for c in rows), reverse=True)
    for c in rows:
        a, b = c.queries
        assert (a.bytes(diff.a), b.bytes(diff.b)) == (c.a_bytes, c.b_bytes)


def test_a_run_against_itself_has_only_what_stayed(run_of):
    run = run_of("before.mstrata")
    rows = changes(run, run)
    assert {c.fared for c in rows} == {Fared.SAME}
    assert sum(c.a_bytes for c in rows) == run.peak_bytes
    assert all(c.same_size == len(c.a_rows) == len(c.b_rows) for c in rows)


def test_checkpointing_in_real_runs(run_of):
    a, b = run_of("before.mstrata"), run_of("after.mstrata")
    rows = changes(a, b)
    for side, run in (("a", a), ("b", b)):
        assert sum(getattr(c, f"{side}_bytes") for c in rows) == run.peak_bytes
        alive = sorted(row for c in rows for row in getattr(c, f"{side}_rows"))
        assert alive == run.allocations.alive(run.peak_position).tolist()
    gone = [c for c in rows if c.fared is Fared.DISAPPEARED]
    assert rows[0].fared is Fared.DISAPPEARED and len(rows[0].layers) == 12
    assert {c.thing.category for c in gone} <= {Category.activation, Category.temporary}
    made_again = sum(c.b_bytes for c in rows if c.thing.category == Category.rematerialized)
    assert made_again == b.categories_at(b.peak_position)[Category.rematerialized]
    weights = [c for c in rows if c.thing.category in (Category.parameter, Category.optimizer_state)]
    assert {c.fared for c in weights} == {Fared.SAME}


def test_snapshots_by_their_stacks(snapshots):
    names = ("torch24-linear-grad", "torch24-linear-nograd")
    a, b = (Run(open_file(snapshots / f"{name}.pickle"), name=name) for name in names)
    rows = changes(a, b)
    assert sum(c.difference_bytes for c in rows) == b.peak_bytes - a.peak_bytes == -200_000_000
    assert {c.text: c.difference_bytes for c in rows if c.difference_bytes} == {
        "profile_grad.py:10 <module>": -400_000_000,
        "profile_no_grad.py:12 <module>": 200_000_000,
    }


def test_no_stack_is_said_with_the_category():
    out = Step()
    out.alloc(1, KIB, 10)
    run = out.run()
    assert [c.text for c in changes(run, run)] == [NO_STACK]


def test_every_shared_grouping_closes(run_of):
    diff = Diff(run_of("before.mstrata"), run_of("after.mstrata"))
    keys = list(shared_groupings(diff))
    assert keys[:3] == ["category", "super_block", "layer"] and CHANGE in keys and "frame" in keys
    for key in keys:
        rows = rows_by(diff, key)
        assert (sum(r.a_bytes for r in rows), sum(r.b_bytes for r in rows)) == (diff.a.peak_bytes, diff.b.peak_bytes)
        for row in rows:
            assert (row.a_query.bytes(diff.a), row.b_query.bytes(diff.b)) == (row.a_bytes, row.b_bytes), row.label
    assert first_grouping(diff) == "category"


def test_lines_of_equal_name_are_one_row():
    out = Step()
    for number, file in enumerate(("/a/train.py", "/b/train.py")):
        out.alloc(number + 1, KIB, 10 + number, out.frames(("step", file, 3)))
    diff = Diff(out.run(), out.run())
    (row,) = [row for row in rows_by(diff, "frame") if row.label == "train.py:3 step"]
    assert row.a_bytes == 2 * KIB == row.a_query.bytes(diff.a)


@pytest.mark.parametrize("key", ["category", "layer", "frame", CHANGE])
def test_a_waterfall_leads_from_peak_to_peak_without_a_gap(run_of, key):
    diff = Diff(run_of("before.mstrata"), run_of("after.mstrata"))
    rows = rows_by(diff, key)
    bars = waterfall(rows)
    assert (bars.a_bytes, bars.b_bytes) == (diff.a.peak_bytes, diff.b.peak_bytes)
    at = bars.a_bytes
    for bar in bars.steps:
        assert bar.start_bytes == at and bar.difference_bytes != 0
        assert bar.row is None or rows[bar.row].difference_bytes == bar.difference_bytes
        at = bar.end_bytes
    assert at == bars.b_bytes and len(bars.steps) <= 9
    falls = [bar.difference_bytes < 0 for bar in bars.steps if bar.row is not None]
    assert falls == sorted(falls, reverse=True)  # down first, then up
    assert bars.highest == max(bars.a_bytes, bars.b_bytes, *(bar.end_bytes for bar in bars.steps))


def test_a_waterfall_of_nothing():
    run = Step().run()
    assert waterfall(rows_by(Diff(run, run), "category")).steps == ()
