"""The allocator's page and its JSON."""

import json

import pytest

from memstrata.viewer.analysis.allocator.answer import Question
from memstrata.viewer.look.units import bytes_text
from memstrata.viewer.report.allocator_json import allocator_json
from memstrata.viewer.report.allocator_text import allocator_text
from memstrata.viewer.report.json import runs_of
from memstrata.viewer.report.layout import WIDTH
from memstrata.viewer.sources import open_file

GIB = 1 << 30
KEYS = {
    "device", "allocations", "exact_matches", "first_mismatch", "reserved_peak_bytes_recorded",
    "reserved_peak_bytes_replayed", "oom",
}  # fmt: skip


def asked(path, question=None):
    found = allocator_json(open_file(path), path.name, question or Question())
    json.dumps(found, allow_nan=False)
    return found


def test_every_file_has_a_page_and_an_object(snapshot_file):
    recording = open_file(snapshot_file)
    text = allocator_text(recording, snapshot_file.name, Question())
    assert max(map(len, text.splitlines())) <= WIDTH
    found = asked(snapshot_file)
    assert [device["device"] for device in found["devices"]] == [d.ordinal for d in recording.meta.devices]
    for device in found["devices"]:
        assert device.keys() >= KEYS
        if device["refused"]:
            assert device["refused"] in " ".join(text.split())
            assert device["exact_matches"] is device["reserved_peak_bytes_replayed"] is None


def test_the_object_of_a_replay(snapshots):
    (device,) = asked(snapshots / "torch26-train-from-start.pickle")["devices"]
    assert device["allocations"] == device["exact_matches"] == 4404
    assert device["segment_events"] == device["segment_matches"] == 88
    assert device["first_mismatch"] is device["oom"] is None
    assert device["reserved_peak_bytes_recorded"] == device["reserved_peak_bytes_replayed"] == 1_205_862_400
    assert device["estimate"] is False and device["unverified"] == [] and device["from_start"] is True
    curve = device["curve"]
    assert max(curve["reserved_replayed"]) == max(curve["reserved_recorded"]) == 1_205_862_400
    assert len({len(column) for column in curve.values()}) == 1
    free = [1 - a / r if r else 0 for a, r in zip(curve["allocated_replayed"], curve["reserved_replayed"])]
    assert curve["free_share"] == pytest.approx(free)


def test_the_object_of_a_what_if(snapshots):
    path = snapshots / "torch26-train-from-start.pickle"
    question = Question("expandable_segments:True", GIB, (5000,))
    found = asked(path, question)
    assert (found["conf"], found["capacity_bytes"], found["empty_cache_at"]) == (
        "expandable_segments:True", GIB, [5000])  # fmt: skip
    (device,) = found["devices"]
    assert device["exact_matches"] == 4404  # of the plain replay, whatever is asked
    assert device["reserved_peak_bytes_replayed"] < GIB and device["oom"] is None
    assert device["config"] == "expandable_segments:True" and device["estimate"] is True
    (tight,) = asked(path, Question(capacity=900 << 20))["devices"]
    oom = tight["oom"]
    assert oom["event"] >= 0 and oom["capacity_bytes"] == 900 << 20 and oom["stack"]
    assert oom["reserved_bytes"] + oom["asked_bytes"] > oom["capacity_bytes"]
    assert sum(row["bytes"] for row in oom["reserved_by"]) <= oom["reserved_bytes"]
    assert {c["change"]: c["passes"] for c in oom["changes"]}["expandable_segments:True"] in (True, False)
    more = oom["changes"][-1]
    assert more["passes"] and more["more_bytes"] == oom["needed_bytes"] - oom["capacity_bytes"] > 0


def test_the_page_of_a_what_if(snapshots):
    path = snapshots / "torch26-train-from-start.pickle"
    recording = open_file(path)
    fits = allocator_text(recording, path.name, Question("expandable_segments:True", 80 * GIB))
    assert "With expandable_segments:True, on 80.0 GiB: fits, 79.0 GiB to spare" in fits
    assert "(estimate)" in fits and "unverified" not in fits
    marked = allocator_text(recording, path.name, Question("max_split_size_mb:64"))
    assert marked.count("unverified") >= 2
    tight = allocator_text(recording, path.name, Question(capacity=900 << 20))
    assert "runs out of memory at event" in " ".join(tight.split())
    assert "Out of memory at event" in tight and "(predicted)" in tight and "One change at a time" in tight
    assert max(len(line) for page in (fits, marked, tight) for line in page.splitlines()) <= WIDTH


@pytest.mark.parametrize("conf", [None, "expandable_segments:True"])
@pytest.mark.parametrize("capacity", [12, 20])
def test_what_the_table_of_changes_says_is_what_asking_for_the_change_says(snapshots, conf, capacity):
    """Also where memory runs out again later, or before the first event."""
    path = snapshots / "torch26-train-mid-run.pickle"

    def runs_out(conf, size):
        oom = asked(path, Question(conf, size))["devices"][0]["oom"]
        return None if oom is None else oom["event"]

    (device,) = asked(path, Question(conf, capacity * GIB))["devices"]
    oom = device["oom"]
    changes = {change["change"]: change for change in oom["changes"]}
    if capacity == 12:
        assert oom["event"] == -1
        assert oom["begins_with_bytes"] == int(runs_of(open_file(path), path.name)[0].curve[0])
        assert not any("empty_cache" in name for name in changes)  # there is nothing right before it
    for setting in ("expandable_segments:True", "roundup_power2_divisions:8"):
        if setting in changes:
            both = f"{conf},{setting}" if conf else setting
            assert changes[setting]["runs_out_at_event"] == runs_out(both, capacity * GIB)
    assert [name for name, change in changes.items() if change["passes"]] == [oom["changes"][-1]["change"]]
    assert runs_out(conf, oom["needed_bytes"]) is None
    assert runs_out(conf, oom["needed_bytes"] - (2 << 20)) is not None
    page = " ".join(allocator_text(open_file(path), path.name, Question(conf, capacity * GIB)).split())
    assert f"(--capacity {oom['needed_bytes'] >> 20}MiB) the whole trace passes." in page


@pytest.mark.parametrize(
    "name, conf, size",
    [
        ("torch26-train-mid-run", None, 12 * GIB),
        ("torch26-three-pools-no-trace", None, GIB),
        ("torch21-inference-ten-streams", "expandable_segments:True", 12 * GIB),
    ],
)
def test_what_does_not_fit_at_the_start_is_not_said_to_lie_there(snapshots, name, conf, size):
    path = snapshots / f"{name}.pickle"
    (device,) = asked(path, Question(conf, size))["devices"]
    oom = device["oom"]
    placed = sum(row["bytes"] for row in oom["reserved_by"])
    assert 0 < placed <= oom["reserved_bytes"] - oom["free_bytes"] <= size < oom["begins_with_bytes"]
    page = " ".join(allocator_text(open_file(path), path.name, Question(conf, size)).split())
    said = f"What is alive before the first event, {bytes_text(oom['begins_with_bytes'])}, does not fit."
    assert said in page and "placed by then: " in page and "alive: " not in page


def test_a_recording_without_an_allocator_is_an_estimate(samples):
    path = samples / "before.mstrata"
    text = allocator_text(open_file(path), path.name, Question())
    assert "(estimate, kernels: cpu)" in " ".join(text.split())
    found = asked(path)
    assert found["kernels"] == "cpu"
    (device,) = found["devices"]
    assert device["exact_matches"] is device["reserved_peak_bytes_recorded"] is None
    assert device["reserved_peak_bytes_replayed"] > 0 and device["estimate"] is True
    (tight,) = asked(path, Question(capacity=600 << 20))["devices"]
    assert tight["oom"]["where"]
