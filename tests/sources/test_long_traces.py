"""Profiler traces and memory timelines that are long: read in parts, called off at any point, and not as objects."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memstrata.capture.format.problems import FormatError
from memstrata.viewer.sources import Cancelled, json_text, open_file, profiler_trace

from .test_traces_by_hand import memory, span

COUNT = 20_000


def timeline(count: int = COUNT) -> list[list[int]]:
    return [[i, 2, 512 + i % 7, 3] for i in range(count)]


def trace(count: int = COUNT) -> dict[str, Any]:
    made: list[dict[str, Any]] = []
    for i in range(count // 2):
        made += [memory(2.0 * i, 512, 512 * (i + 1)), span(f"op{i % 50}", 2.0 * i - 0.5, 1.0)]
    return {"schemaVersion": 1, "traceEvents": made, "baseTimeNanoseconds": 5}


@pytest.fixture(scope="module", params=["timeline", "trace", "indented"])
def long(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "x.json"
    value = timeline() if request.param == "timeline" else trace()
    path.write_text(json.dumps(value, indent=2 if request.param == "indented" else None))
    return path


def test_every_stage_is_told(long: Path) -> None:
    told: list[tuple[str, float]] = []
    open_file(long, progress=lambda stage, fraction: told.append((stage, fraction)))
    stages = [stage for stage, _ in told]
    assert list(dict.fromkeys(stages)) == ["Reading", "Building tables"]
    assert stages.count("Reading") > long.stat().st_size >> 18 and stages.count("Building tables") >= 5
    for stage in ("Reading", "Building tables"):
        fractions = [fraction for name, fraction in told if name == stage]
        assert fractions == sorted(fractions) and fractions[-1] == 1.0
        most = 1.01 * json_text._PART / long.stat().st_size if stage == "Reading" else 0.31
        assert max(b - a for a, b in pairwise(fractions)) <= most


def test_called_off_at_every_point(long: Path) -> None:
    points: list[tuple[str, float]] = []
    open_file(long, progress=lambda *at: points.append(at))
    files = sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
    for stop in {0, len(points) // 2, *range(len(points) - 6, len(points))}:
        seen: list[tuple[str, float]] = []

        def say(stage: str, fraction: float, seen: list[Any] = seen, stop: int = stop) -> None:
            seen.append((stage, fraction))
            if len(seen) > stop:
                raise Cancelled

        with pytest.raises(Cancelled):
            open_file(long, progress=say)
        assert seen == points[: stop + 1]
    assert points[-2][0] == "Building tables"
    assert not files or sorted(os.listdir("/proc/self/fd")) == files


@pytest.mark.parametrize(("made", "each"), [(timeline, 200), (trace, 150)])
def test_an_entry_takes_some_hundred_bytes_at_most(tmp_path: Path, made: Callable[[int], Any], each: int) -> None:
    """Beyond the file's text, of which no more than a part is there at once."""
    path = tmp_path / "x.json"
    used = []
    for count in (20_000, 60_000):
        path.write_text(json.dumps(made(count)))
        tracemalloc.start()
        try:
            open_file(path)
            used.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    print([now // 1024 for now in used], (used[1] - used[0]) / 40_000)
    assert used[1] - used[0] < each * 40_000


@pytest.mark.parametrize("part", [1, 7, 64, 5000])
@pytest.mark.parametrize("batch", [1, 100, 1 << 15])
def test_wherever_parts_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int, batch: int) -> None:
    monkeypatch.setattr(json_text, "_PART", part)
    monkeypatch.setattr(json_text, "_BATCH", batch)
    path = tmp_path / "x.json"
    for text in (
        json.dumps(timeline(40)),
        "\ufeff \n[ [0, 2, 512, 3],, [1,2,513,3] ,\n[2, 2, 514, 3],]",
    ):
        path.write_text(text)
        count = 40 if len(text) > 100 else 3
        assert open_file(path).events.bytes.tolist() == [512 + i % 7 for i in range(count)]
    value = trace(40)
    value["traceEvents"][1]["name"] = 'größer \U0001f600 "}, {" ],'
    value["traceEvents"][1]["args"] = {"deep": [{"er": "},\n  {"}]}
    for indent in (None, 2):
        path.write_text(json.dumps(value, indent=indent, ensure_ascii=indent is None), encoding="utf-8")
        recording = open_file(path)
        assert recording.events.address.tolist() == [512 * (i + 1) for i in range(20)]
        assert recording.stack_frames(int(recording.events.stack[0]))[0][0] == value["traceEvents"][1]["name"]
        assert recording.events.time.tolist() == [2000 * i + 5 for i in range(20)]


@pytest.mark.parametrize("part", [1, 7, 64, 1 << 18])
def test_damage_is_named_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(json_text, "_PART", part)
    path = tmp_path / "x.json"
    whole = json.dumps(timeline(40))
    for text, at in (
        (whole[:200] + "?" + whole[201:], 200),
        (whole + " x", len(whole) + 1),
        (whole.replace("], [9,", "] [9,"), whole.index("[9,") - 1),
        (whole[:-1] + ",?]", len(whole)),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match="not JSON from character") as caught:
            open_file(path)
        said = int(str(caught.value).split("character ")[1].split(" ")[0].replace(",", ""))
        assert abs(said - at) <= 1


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    for name, most, value, said in (
        ("MAX_SPANS", 19, trace(40), "more operators than a step"),
        ("_MAX_ANNOTATIONS", 1, {"traceEvents": [span("a", 1, 2, cat="user_annotation")] * 2}, "more operators"),
        ("MAX_THREADS", 1, {"traceEvents": [span("a", 1, 2), span("a", 1, 2, tid=7)]}, "more threads than a process"),
    ):
        path.write_text(json.dumps(value))
        with monkeypatch.context() as patched, pytest.raises(FormatError, match=said):
            patched.setattr(profiler_trace, name, most)
            open_file(path)
    monkeypatch.setattr(json_text, "_PART", 64)
    monkeypatch.setattr(json_text, "MAX_ENTRY", 1000)
    for text, said in (
        ('{"traceEvents": [{"name": "' + "x" * 5000 + '"}]}', "one entry of it is larger"),
        ('{"traceEvents": [], "more": "' + "x" * 5000 + '"}', "more behind its entries"),
        ('{"more": "' + "x" * 5000 + '", "traceEvents": []}', "neither a torch.profiler trace"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=said):
            open_file(path)
