"""Profiler traces and memory timelines of a few lines, with every figure known."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Action, Category
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import json_traces, open_file, profiler_trace


def opened(tmp_path: Path, value: Any) -> Recording:
    path = tmp_path / "trace.json"
    path.write_text(value if type(value) is str else json.dumps(value))
    return open_file(path)


def span(name: str, start: float, duration: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": duration, **more}


def memory(time: float, size: int = 8, address: int = 512, **more: Any) -> dict[str, Any]:
    args = {"Bytes": size, "Addr": address, "Device Type": 0, "Device Id": -1, **more}
    return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": args}


def running_at(tmp_path: Path, spans: list[dict[str, Any]], time: float) -> list[str]:
    """The operators around one allocation, the innermost first."""
    recording = opened(tmp_path, {"traceEvents": [memory(time), *spans]})
    stack = int(recording.events.stack[0])
    return [name for name, _, _ in recording.stack_frames(stack)] if stack >= 0 else []


@pytest.mark.parametrize(
    ("time", "inside"),
    [
        (0, ["inner", "outer"]),  # of two that begin together the longer one is around the other, in any order
        (4, ["inner", "outer"]),  # what happens as an operator ends is its own
        (4.5, ["outer"]),
        (10, ["outer"]),
        (15, []),
        (22, ["late"]),  # not inside of what ended long ago
        (26, []),
    ],
)
def test_the_operators_around_an_allocation(tmp_path: Path, time: float, inside: list[str]) -> None:
    spans = [span("inner", 0, 4), span("outer", 0, 10), span("late", 20, 5)]
    assert running_at(tmp_path, spans, time) == running_at(tmp_path, spans[::-1], time) == inside


def test_what_ended_unseen_is_around_nothing(tmp_path: Path) -> None:
    assert running_at(tmp_path, [span("first", 0, 4), span("second", 5, 20)], 6) == ["second"]


def test_other_threads_and_other_kinds_are_not_around_it(tmp_path: Path) -> None:
    spans = [span("theirs", 0, 9, tid=2), span("kernel", 0, 9, cat="kernel"), span("mine", 0, 9)]
    assert running_at(tmp_path, spans, 5) == ["mine"]


def test_a_stack_has_a_limit(tmp_path: Path) -> None:
    spans = [span(f"f{i}", i, 9000 - 2 * i) for i in range(1500)]
    assert len(running_at(tmp_path, spans, 3000)) == profiler_trace._MAX_DEPTH == 1000


def test_devices_times_and_sizes(tmp_path: Path) -> None:
    events = [
        memory(1.2344, 100), memory(2.0006, -100),
        memory(3, 7, **{"Device Type": 1, "Device Id": 1}), memory(4, 9, **{"Device Type": 1, "Device Id": 0}),
        memory(5, 11, **{"Device Type": 77, "Device Id": 2}), memory(6, 0),
    ]  # fmt: skip
    recording = opened(tmp_path, {"baseTimeNanoseconds": 10_000, "traceEvents": events})
    assert [(d.name, d.ordinal) for d in recording.meta.devices] == [
        ("cpu", 0), ("cuda:1", 1), ("cuda:0", 0), ("device type 77:2", 2),
    ]  # fmt: skip
    assert recording.events.time.tolist() == [11_234, 12_001, 13_000, 14_000, 15_000]
    assert recording.events.bytes.tolist() == [100, 100, 7, 9, 11]
    assert recording.events.action.tolist() == [Action.alloc, Action.free_completed, *[Action.alloc] * 3]
    assert recording.events.device.tolist() == [0, 0, 1, 2, 3]


@pytest.mark.parametrize("device", [{"Device Id": 1 << 20}, {"Device Type": 256}, {"Device Type": -1}])
def test_devices_that_there_are_not(tmp_path: Path, device: dict[str, int]) -> None:
    with pytest.raises(FormatError, match="impossible device"):
        opened(tmp_path, {"traceEvents": [memory(1, **device)]})


def test_what_was_there_before_a_timeline_began(tmp_path: Path) -> None:
    """Known kinds are known storages, the others come with the first event; nothing is before that in time."""
    before = [[-1, 1, size, category] for category, size in enumerate((1, 20, 300, 4000, 50_000, 600_000, 7, 80))]
    run = Run(opened(tmp_path, [*before, [70, 2, 1000, 3], [90, 4, -1000, 3]]))
    held = run.categories_at(run.n_events)
    assert {each: held[each] for each in (Category.parameter, Category.optimizer_state, Category.input)} == {
        Category.parameter: 1, Category.optimizer_state: 20, Category.input: 300,
    }  # fmt: skip
    assert held[Category.gradient] == 600_000
    assert run.baseline_bytes == 600_321
    assert run.curve.tolist()[-3:] == [654_408, 655_408, 654_408]
    assert run.recording.events.time.tolist() == [70] * 5 + [90]
    assert len(set(run.recording.events.action.tolist())) == 2


def test_of_equal_tensors_the_youngest_goes_first_and_none_lies_on_another(tmp_path: Path) -> None:
    run = Run(opened(tmp_path, [[5, 2, 5000, 3], [6, 2, 5000, 3], [7, 4, -5000, 3], [8, 2, 3000, 4]]))
    a = run.allocations
    assert list(zip(a.bytes.tolist(), a.start.tolist(), a.end.tolist())) == [(5000, 1, 5), (5000, 2, 3), (3000, 4, 5)]
    low = sorted(zip(a.address.tolist(), a.bytes.tolist()))
    assert all(first + size <= second for (first, size), (second, _) in pairwise(low))


@pytest.mark.parametrize("entry", [[5, 2, 8, 8], [5, 2, 8, -1], [5, 0, 8, 1], [5, 5, 8, 1], [-2, 2, 8, 1]])
def test_other_lists_of_four_numbers_are_no_timeline(tmp_path: Path, entry: list[int]) -> None:
    with pytest.raises(FormatError, match=r"neither a torch\.profiler trace nor a memory timeline"):
        opened(tmp_path, [entry])


def test_limits_of_json_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, timeline = {"traceEvents": [memory(1), memory(2), memory(3)]}, [[5, 2, 8, 1]] * 3
    monkeypatch.setattr(json_traces, "MAX_ENTRIES", 3)
    assert len(opened(tmp_path, trace).events) == len(opened(tmp_path, timeline).events) == 3
    monkeypatch.setattr(json_traces, "MAX_ENTRIES", 2)
    for value, said in ((trace, "more memory events than a step"), (timeline, "more entries than a memory timeline")):
        with pytest.raises(FormatError, match=said):
            opened(tmp_path, value)
    monkeypatch.setattr(json_traces, "MAX_BYTES", 20)
    with pytest.raises(FormatError, match="more than a memory trace can hold"):
        opened(tmp_path, trace)


@pytest.mark.parametrize("behind", [" x", "]", "{}"])
def test_nothing_may_follow_a_timeline(tmp_path: Path, behind: str) -> None:
    with pytest.raises(FormatError, match="not JSON from character 15 on" if behind == " x" else "14 on"):
        opened(tmp_path, "[[5, 2, 8, 1]]" + behind)
