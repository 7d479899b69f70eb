"""What `--json` prints, through the command: equal to an independent reference for every snapshot."""

import importlib.util
import json

import pytest

from memstrata.viewer.cli import main

DEVICE_KEYS = {
    "device",
    "name",
    "baseline_bytes",
    "peak_bytes",
    "peak_event",
    "end_bytes",
    "reserved_peak_bytes",
    "reserved_end_bytes",
    "outside_allocator_peak_bytes",
    "events",
    "categories_at_peak",
    "coverage_at_peak",
    "inferred",
    "inferred_categories_at_peak",
    "inferred_coverage_at_peak",
    "inferred_shares",
    "unattributed_at_peak",
    "inferred_steps",
    "inferred_phases",
}
SAMPLES = [
    "before",
    "after",
    "uniform",
    "uniform-checkpointed",
    "encoder-decoder",
    "irregular",
    "raised",
    "format-1",
]


def printed(capsys, *arguments):
    assert main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


def oracle(path):
    spec = importlib.util.spec_from_file_location("oracle", path.parent / "oracle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.oracle(str(path))


def test_snapshot_figures_equal_the_reference(capsys, snapshot_file):
    got = printed(capsys, "report", str(snapshot_file), "--json")
    want = oracle(snapshot_file)
    assert (got["file"], got["kind"]) == (snapshot_file.name, "snapshot")
    found = {device["device"]: device for device in got["devices"]}
    assert sorted(found) == sorted(want["devices"])
    for ordinal, figures in want["devices"].items():
        assert {key: found[ordinal][key] for key in figures} == figures


def test_identities_hold_for_snapshots(capsys, snapshot_file):
    check(printed(capsys, "report", str(snapshot_file), "--json"))


@pytest.mark.parametrize("name", SAMPLES)
def test_identities_hold_for_recordings(capsys, samples, name):
    got = printed(capsys, "report", str(samples / f"{name}.mstrata"), "--json")
    check(got)
    assert set(got["saved_tensors"]) == {"kept", "dropped", "rematerialized", "offloaded"}
    main_device = max(got["devices"], key=lambda device: device["peak_bytes"])
    outside = got["outside_layers"]
    for key in ("layers", "super_blocks"):
        parts = [*got[key], outside]
        assert sum(part["bytes_at_peak"] for part in parts) == main_device["peak_bytes"]
        assert sum(part["saved_bytes"] for part in parts) == got["saved_tensors"]["kept"]
        assert sum(part["rematerialized_bytes"] for part in parts) == got["saved_tensors"]["rematerialized"]
    names = [layer["name"] for layer in got["layers"]]
    assert [name for block in got["super_blocks"] for name in block["layers"]] == names
    for layer in got["layers"]:
        assert layer["name"] in got["super_blocks"][layer["super_block"]]["layers"]
        assert isinstance(layer["kind"], str)


def check(got):
    for device in got["devices"]:
        assert set(device) == DEVICE_KEYS
        assert sum(device["categories_at_peak"].values()) == device["peak_bytes"]
        assert 0 <= device["coverage_at_peak"] + device["inferred_coverage_at_peak"] <= 1
        assert device["inferred"] == (got["kind"] == "snapshot")
        if device["inferred"]:
            unknown = device["categories_at_peak"].get("unattributed", 0)
            assert sum(device["unattributed_at_peak"].values()) == unknown
        else:
            assert not (device["inferred_coverage_at_peak"] or device["inferred_phases"] or device["inferred_steps"])
        assert all(device["events"].values())
        assert isinstance(device["peak_event"], int)
    for problem in got["problems"]:
        assert set(problem) == {"code", "severity", "count", "text"}
        assert problem["severity"] in ("info", "warning", "error")


def test_the_demo_recording(capsys, samples):
    got = printed(capsys, "report", str(samples / "before.mstrata"), "--json")
    assert (got["file"], got["kind"]) == ("before.mstrata", "recording")
    (device,) = got["devices"]
    assert (device["device"], device["reserved_peak_bytes"], device["reserved_end_bytes"]) == (0, None, None)
    assert len(got["layers"]) == 12
    assert got["super_blocks"][0]["name"] == "super-block 0 (layers 0-3)"
    assert got["saved_tensors"]["dropped"] == 0


def test_a_comparison(capsys, samples):
    got = printed(capsys, "diff", str(samples / "before.mstrata"), str(samples / "after.mstrata"), "--json")
    difference = got["b"]["peak_bytes"] - got["a"]["peak_bytes"]
    assert got["peak_difference_bytes"] == difference == -got["achieved_peak_drop_bytes"]
    for key in ("by_category", "by_super_block"):
        assert sum(row["difference_bytes"] for row in got[key]) == difference
        assert all(row["b_bytes"] - row["a_bytes"] == row["difference_bytes"] for row in got[key])
    assert got["achieved_saving_bytes"] == got["a"]["activation_peak_bytes"] - got["b"]["activation_peak_bytes"] > 0
    assert got["predicted_saving_bytes"] == 285_229_056
    assert {row["phase"] for row in got["by_phase_and_layer"]} >= {"forward", "recompute", "backward", "optimizer"}
    assert all(set(warning) == {"code", "severity", "count", "text"} for warning in got["warnings"])


def test_a_comparison_with_a_snapshot(capsys, samples, snapshots):
    paths = str(samples / "before.mstrata"), str(snapshots / "torch24-linear-grad.pickle")
    got = printed(capsys, "diff", *paths, "--json")
    assert got["by_super_block"] == []
    assert got["predicted_saving_bytes"] is None
    assert got["achieved_saving_bytes"] is None
    assert got["b"]["activation_peak_bytes"] is None
