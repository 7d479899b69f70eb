"""The reader's columns are those of Python's unpickler with one dict for each entry, on real and on made-up files."""

from __future__ import annotations

import io
import pickle
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstrata.capture.format.plain_values import Run
from memstrata.capture.format.torch_records import ENTRY_FIELDS
from memstrata.viewer.sources.pickle_machine import Machine
from memstrata.viewer.sources.pickle_records import RecordReader
from memstrata.viewer.sources.pickle_stream import PickleStream
from memstrata.viewer.sources.progress import Progress

from . import made_snapshots
from .comparing import content, through_columns, through_dicts
from .made_snapshots import CppWriter
from .snapshots import HEAP, alloc, plain_unpickled, snapshot, timed


def value_of(data: bytes, window: int = 1 << 20) -> Any:
    """What the machine leaves, with stretches as runs."""
    stream = PickleStream(io.BytesIO(data), len(data), Progress(), window)
    return Machine(stream, len(data), RecordReader(ENTRY_FIELDS)).run()


def in_runs(value: Any) -> tuple[int, int]:
    """(events that were read as columns, all events)."""
    parts = [part for trace in value["device_traces"] for part in trace]
    runs = sum(part.count for part in parts if type(part) is Run)
    return runs, runs + sum(type(part) is dict for part in parts)


def test_real_files_read_as_their_dicts_do(snapshot_file: Path) -> None:
    data = snapshot_file.read_bytes()
    assert content(through_columns(data)) == content(through_dicts(data))


@pytest.mark.parametrize("protocol", [2, 3, 5])
def test_real_files_written_again_read_the_same(snapshots: Path, protocol: int) -> None:
    for name in ("torch24-linear-grad", "torch25-snapshot-event-mid-trace", "torch22-state-second-gpu"):
        data = (snapshots / f"{name}.pickle").read_bytes()
        value = plain_unpickled(data)
        expected = content(through_dicts(data))
        assert content(through_columns(pickle.dumps(value, protocol), window=70_000)) == expected
        assert content(through_columns(CppWriter().write(value))) == expected


def test_most_events_of_real_files_are_read_as_columns(snapshots: Path) -> None:
    for name in ("torch211-train", "torch26-train-mid-run", "npu26-two-devices", "torch28-oom-three-gpus-expandable"):
        taken, events = in_runs(value_of((snapshots / f"{name}.pickle").read_bytes()))
        assert taken > 0.9 * events, name


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), window=st.sampled_from([64, 700, 5000, 1 << 20]))
def test_made_up_snapshots_read_as_their_dicts_do(seed: int, window: int) -> None:
    rng = random.Random(seed)
    data = made_snapshots.pickled(rng, made_snapshots.snapshot(rng))
    assert outcome(lambda: through_columns(data, window)) == outcome(lambda: through_dicts(data))


def outcome(read: Any) -> Any:
    """The content, or the cause that it cannot be."""
    try:
        return content(read())
    except ValueError as error:
        return str(error).removeprefix("snap.pickle cannot be read as a memory snapshot: ").rstrip(".")


def many(n: int, **more: Any) -> list[dict[str, Any]]:
    frames = [{"name": f"f{i}", "filename": "m.py", "line": i} for i in range(20)]
    own = [frames[i % 7 :] for i in range(7)]
    return timed([alloc(HEAP + 512 * i, 700 * i, frames=list(own[i % 7]), **more) for i in range(n)])


@pytest.mark.parametrize("write", [lambda v: pickle.dumps(v, 2), lambda v: pickle.dumps(v, 4), CppWriter().write])
def test_what_torch_writes_is_read_as_columns(write: Any) -> None:
    data = write(snapshot([], [many(5000), many(300)]))
    taken, events = in_runs(value_of(data))
    assert events == 5300
    assert taken > 5200
    assert content(through_columns(data)) == content(through_dicts(data))


def test_an_odd_event_costs_only_itself() -> None:
    events = many(3000)
    events[700] = {"action": "oom", "device_free": 5, "size": 9, "stream": 0, "time_us": events[700]["time_us"]}
    events[1200]["new"] = {"nested": [1, {"deep": ()}]}
    events[2000]["stream"] = 2**63 + 5
    data = pickle.dumps(snapshot([], [events]))
    taken, _ = in_runs(value_of(data))
    assert taken > 2970
    assert content(through_columns(data)) == content(through_dicts(data))


def test_events_written_once_and_listed_often_stay_themselves() -> None:
    events = many(200)
    data = pickle.dumps(snapshot([], [events + events[::-1], events]))
    assert content(through_columns(data)) == content(through_dicts(data))


def test_frames_in_the_middle_and_texts_of_any_length() -> None:
    texts = ["", "N/A", "a", "seven77", "eight888", "y" * 254, "z" * 256, "ä" * 200]
    events = [{"frames": e["frames"], "user_metadata": texts[i % 8], **e, "compile_context": texts[-i % 8]}
              for i, e in enumerate(many(900))]  # fmt: skip
    data = pickle.dumps(snapshot([], [events]))
    assert in_runs(value_of(data))[0] > 850
    assert content(through_columns(data, window=9000)) == content(through_dicts(data))


@pytest.mark.parametrize("protocol", [2, 4])
def test_whole_numbers_of_every_length_and_sign_are_themselves(protocol: int) -> None:
    numbers = [sign * 2**bits + near for bits in range(63) for sign in (1, -1) for near in (-1, 0, 1)]
    events = [alloc(HEAP + 512 * i, 512, stream=number) for i, number in enumerate(numbers)]
    data = pickle.dumps(snapshot([], [timed(events)]), protocol)
    assert in_runs(value_of(data))[0] > len(numbers) - 30
    assert through_columns(data).events.stream.tolist() == numbers


def test_changing_an_entry_that_was_complete_is_refused() -> None:
    data = pickle.dumps(snapshot([], [many(50)]), 4)
    number = data.count(b"\x94") - 30
    at = data.rindex(b"u.")
    with pytest.raises(ValueError, match="damaged"):
        for shift in range(12):  # one of these is an event's own dict
            changed = data[:at] + b"j" + (number - shift).to_bytes(4, "little") + b"X\1\0\0\0xK\1s0" + data[at:]
            through_columns(changed.replace(b"\x95", b"\x95", 1))


def test_a_number_of_the_memo_used_twice_changes_nothing_before_it() -> None:
    data = CppWriter().write(snapshot([], [many(50)]))
    changed = 0
    for number in range(120):
        again = data[:-1] + b"X\1\0\0\0x}q" + bytes([number]) + b"s."
        expected = content(through_dicts(again))
        changed += outcome(lambda: through_columns(again, window=300)) == expected  # noqa: B023
        assert outcome(lambda: through_columns(again)) == expected, number  # noqa: B023
    assert changed == 120


def test_progress_rises_and_reading_can_be_called_off(tmp_path: Path) -> None:
    from memstrata.viewer.sources import Cancelled, open_file

    path = tmp_path / "many.pickle"
    path.write_bytes(pickle.dumps(snapshot([], [many(30_000)])))
    said: list[tuple[str, float]] = []
    open_file(path, progress=lambda stage, fraction: said.append((stage, fraction)))
    stages = list(dict.fromkeys(stage for stage, _ in said))
    assert stages == ["Reading", "Building tables"]
    for stage in stages:
        fractions = [fraction for name, fraction in said if name == stage]
        assert fractions == sorted(fractions) and fractions[-1] == 1.0
    for stop in range(len(said)):
        asked = iter(range(100))
        with pytest.raises(Cancelled):
            open_file(path, cancelled=lambda: next(asked) >= stop)  # noqa: B023


def test_another_thread_goes_on_while_a_file_is_read(tmp_path: Path) -> None:
    from memstrata.viewer.sources import open_file

    path = tmp_path / "many.pickle"
    path.write_bytes(pickle.dumps(snapshot([], [many(60_000)])))
    gaps, done = [0.0], threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not done.wait(0.005):
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    thread = threading.Thread(target=tick)
    thread.start()
    open_file(path)
    done.set()
    thread.join()
    assert sorted(gaps)[-2] < 0.25  # generous: other programs run on the machine too
