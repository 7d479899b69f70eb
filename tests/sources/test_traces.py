"""torch.profiler's own exports: every figure that the profiler states itself comes out of the recording again."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.schema import NONE, Action, StorageKind
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with trace.json, timeline.raw.json.gz and timeline.json of two real training steps."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("exports")
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = torch.randn(16, 32)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True, with_stack=True, record_shapes=True) as profiler:
        for _ in range(2):
            optimizer.zero_grad()
            model(inputs).sum().backward()
            optimizer.step()
    profiler.export_chrome_trace(str(folder / "trace.json"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profiler.export_memory_timeline(str(folder / "timeline.raw.json.gz"), device="cpu")
        profiler.export_memory_timeline(str(folder / "timeline.json"), device="cpu")
    return folder


def test_a_chrome_trace_has_the_curve_the_profiler_states(exports: Path) -> None:
    events = json.loads((exports / "trace.json").read_text())["traceEvents"]
    stated = [(e["ts"], e["args"]) for e in events if e["name"] == "[memory]"]
    stated.sort(key=lambda pair: pair[0])
    run = Run(open_file(exports / "trace.json"))
    assert identities.check(run) == []
    assert run.recording.meta.devices[0].name == "cpu"
    assert len(run.recording.events) == len(stated)
    assert run.recording.events.address.tolist() == [args["Addr"] for _, args in stated]
    moved = np.cumsum([args["Bytes"] for _, args in stated])
    assert (run.curve - run.curve[0])[1:].tolist() == moved.tolist()
    first = stated[0][1]
    before = first["Total Allocated"] - first["Bytes"]  # what the process held already
    assert run.peak_bytes - run.baseline_bytes == max(args["Total Allocated"] for _, args in stated) - before


def test_a_chrome_trace_says_what_ran(exports: Path) -> None:
    recording = open_file(exports / "trace.json")
    frames = [recording.stack_frames(stack) for stack in recording.events.stack.tolist()]
    assert any(frame[0] == "aten::linear" for stack in frames for frame in stack)
    files = {file for stack in frames for _, file, _ in stack}
    assert "torch/nn/modules/module.py" in files
    assert all(line >= 0 for stack in frames for _, _, line in stack)
    assert any("Optimizer.step#AdamW.step" in recording.strings[t] for t in recording.marks.text.tolist())
    time = recording.events.time
    assert (np.diff(time) >= 0).all() and 1.6e18 < time[0] < 4e18


def test_a_packed_trace_is_the_same(exports: Path, tmp_path: Path) -> None:
    packed = tmp_path / "trace.json.gz"
    packed.write_bytes(gzip.compress((exports / "trace.json").read_bytes()))
    assert open_file(packed).events.bytes.tolist() == open_file(exports / "trace.json").events.bytes.tolist()


def test_a_raw_timeline_has_the_sums_of_the_other_one(exports: Path) -> None:
    _, sizes = json.loads((exports / "timeline.json").read_text())
    sums = [sum(row) for row in sizes]
    recording = open_file(exports / "timeline.raw.json.gz")
    run = Run(recording)
    assert identities.check(run) == []
    assert (run.baseline_bytes, run.peak_bytes, run.end_bytes) == (sums[0], max(sums), sums[-1])
    known = recording.known_storages
    assert known.bytes[known.kind == StorageKind.parameter].sum() == 4 * (32 * 64 + 64 + 64 * 8 + 8)
    texts = {recording.strings[t] for t in recording.events.metadata.tolist() if t != NONE}
    assert {"activation", "gradient", "optimizer state"} <= texts


def test_a_tensor_keeps_its_place_when_its_category_changes(tmp_path: Path) -> None:
    path = tmp_path / "timeline.raw.json"
    path.write_text(json.dumps([[-1, 1, 100, 0], [10, 2, 50, 7], [20, 3, -50, 7], [20, 3, 50, 4], [30, 2, 50, 7],
                                [40, 4, -50, 4], [50, 4, -50, 7], [60, 4, -100, 0]]))  # fmt: skip
    recording = open_file(path)
    events = recording.events
    assert events.action.tolist() == [Action.alloc, Action.alloc, *[Action.free_completed] * 3]
    assert events.address[2] == events.address[0] and events.address[3] == events.address[1]
    run = Run(recording)
    assert run.curve.tolist() == [100, 150, 200, 150, 100, 0]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('{"traceEvents": [{"name": "aten::add", "ph": "X", "ts": 1, "dur": 2}]}', "without memory events"),
        ('{"traceEvents": [{"name": "[memory]", "ts": 1, "args": {"Bytes": "x"}}]}', "no size or no address"),
        ('{"traceEvents": [{"name": "[memory]", "ts": 1, "args": {"Bytes": 1, "Addr": -4}}]}', "impossible number"),
        ('{"traceEvents": [{"name": "[memory]", "ts": NaN, "args": {}}]}', "has no time"),
        ('{"traceEvents": [1]}', "an event is not a record"),
        ('{"traceEvents": [{"name": "[mem', "cut short"),
        ('{"weights": [1, 2]}', "neither a torch.profiler trace nor a memory timeline"),
        ("[1, 2, 3]", "neither"),
        ("[[1, 2, 3, 99]]", "neither"),
        ("[" * 100_000, "nests too deeply"),
    ],
)
def test_other_json_is_called_by_name(tmp_path: Path, text: str, cause: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        open_file(path)
    assert cause in str(caught.value) and str(caught.value).startswith("x.json ") and str(caught.value).endswith(".")


def bomb(n: int) -> bytes:
    return gzip.compress(gzip.compress(bytes(n), 9), 9)


def test_packed_files(tmp_path: Path, samples: Path, monkeypatch: Any) -> None:
    import pickle

    from memstrata.viewer.sources import packed

    from .snapshots import small

    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(pickle.dumps(small())))
    assert open_file(path).meta.kind == "snapshot"
    for content, cause in (
        (gzip.compress(pickle.dumps(small()))[:-20], "damaged or cut short"),
        (gzip.compress(b""), "is empty"),
        (bomb(1000), "packed twice: unpack it once first"),
        (gzip.compress((samples / "before.mstrata").read_bytes()), "inside another archive"),
        (b"\x28\xb5\x2f\xfd" + bytes(20), "zstd"),
    ):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=cause):
            open_file(path)
    monkeypatch.setattr(packed, "UNPACKED_FREE", 1 << 20)
    path.write_bytes(gzip.compress(bytes(300 << 20), 9))
    with pytest.raises(FormatError, match="far more than"):
        open_file(path)
