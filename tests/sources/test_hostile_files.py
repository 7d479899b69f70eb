"""Files made to do harm, of every kind that opens: one sentence, exit status 2, and no memory or time without end."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memstrata.capture.format import checks, files, plain_values, torch_stacks
from memstrata.capture.format.problems import FormatError
from memstrata.viewer import cli
from memstrata.viewer.sources import open_file, packed, pickle_machine

from .snapshots import HEAP, alloc, block, segment, small, snapshot, timed, written
from .test_bad_files import machine_of


def cause(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence that the command prints for this file."""
    assert cli.main(["report", str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"memstrata: {path.name} ") and said.err.count("\n") == 1
    with pytest.raises(FormatError):
        open_file(path)
    return said.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[[5, 2, {'9' * 5000}, 1]]", "thousands of digits"),
        ('{"traceEvents": [{"name": "[memory]", "ts": 1, "args": {"Bytes": 1e400}}]}', "no size or no address"),
        ('{"traceEvents": [{"name": "[memory]", "ts": 1e400, "args": {"Bytes": 1}}]}', "has no time"),
        ('{"traceEvents": [{"name": "[memory]", "ts": 1, "args": {"Bytes": 1, "Device Type": 1.5}}]}', "device"),
        ('{"traceEvents": [{"name": "a"} {"name": "b"}]}', "not JSON from character 31 on"),
        ('{"traceEvents": [{"name": "a"}], "b": }', "not JSON from character 38 on"),
        ("[[5, 2, -50, 4]]", "gives back what it takes"),
        ("[[5, 4, 50, 4]]", "gives back what it takes"),
        ("[[5, 3, 50, 4]]", "has no old one"),
        ("[[5, 3, -50, 4], [5, 2, 8, 4]]", "not as large as the old one, or missing"),
        ("[[5, 3, -50, 4], [5, 3, 40, 4]]", "not as large"),
        ("[[5, 3, -50, 4]]", "missing at its end"),
        ("[[5, 2, 50, 4] [6, 4, -50, 4]]", "not JSON from character 15 on"),
        ("[[5, 2, 50, 4]] more", "not JSON from character"),
        ("[[5, 2, 50, 4]", "cut short"),
    ],
)
def test_traces_that_contradict_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert said in cause(path, capsys)


def test_odd_names_of_processes_and_threads_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    span = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": -5, "dur": 99, "pid": [1], "tid": {"x": 1}}
    memory = {"name": "[memory]", "ts": 1, "args": {"Bytes": 4, "Addr": 5}, "pid": [2], "tid": {"y": 1}}
    path.write_text(json.dumps({"traceEvents": [span, memory]}))
    assert open_file(path).events.bytes.tolist() == [4]


def test_what_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    os.mkfifo("pipe")
    os.symlink("loop", "loop")
    os.symlink("/dev/zero", "zeros")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("talk")
        for name, what in {"pipe": "a pipe", "zeros": "a device", "talk": "a socket"}.items():
            assert f"{name} is {what}, not a file" in cause(tmp_path / name, capsys)
    assert "symbolic links" in cause(tmp_path / "loop", capsys)


def test_a_file_cut_at_every_fiftieth(tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wholes = {"x.pickle": pickle.dumps(small()), "x.mstrata": (samples / "format-1.mstrata").read_bytes()}
    for name, whole in wholes.items():
        for length in range(0, len(whole), len(whole) // 50 + 1):
            said = cause(written(tmp_path, whole[:length], name), capsys)
            assert "cut short" in said if length else "is empty" in said


def test_more_devices_than_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = checks.MAX_DEVICES + 1
    events = [timed([alloc(HEAP, 5)])] * many
    assert "257 devices, more than" in cause(written(tmp_path, snapshot([], events)), capsys)
    segments = [segment([block(HEAP + (i << 25), 5)], device=i) for i in range(many)]
    assert "257 devices, more than" in cause(written(tmp_path, snapshot(segments, [])), capsys)


def test_stacks_without_end(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(torch_stacks, "STACKS_FREE", 1000)
    frames = [{"name": f"f{i}", "filename": "x.py", "line": i} for i in range(300)]
    rotated = [alloc(HEAP + 512 * i, 5, frames=frames[i:] + frames[:i]) for i in range(150)]
    assert "more of them differ" in cause(written(tmp_path, snapshot([], [timed(rotated)])), capsys)
    assert open_file(written(tmp_path, snapshot([], [timed(rotated[:3])]))).events.stack.tolist() == [299, 599, 899]


def test_a_bomb_stays_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\x80\x04" + b"]" * (packed.UNPACKED_FREE + (24 << 20)), 9))
    assert path.stat().st_size < 100_000
    assert "unpacks to far more" in cause(path, capsys)


@pytest.mark.parametrize(
    ("begin", "one", "behind"),
    [(b"N", b"\x85", b"."), (b"](", b"(NNd", b"e."), (b"](", b"(l", b"e."), (b"](", b"}", b"e."),
     (b"](", b"NN\x86", b"e."), (b"](", b"]", b"e."), (b"](", b"(t\x94", b"e.")],
)  # fmt: skip
def test_every_kind_of_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: bytes, one: bytes, behind: bytes
) -> None:
    monkeypatch.setattr(pickle_machine, "BUILT_FREE", 0)
    path = tmp_path / "x.pickle"
    path.write_bytes(b"\x80\x04" + begin + one * ((1 << 20) // len(one)) + behind)
    with pytest.raises(FormatError, match="it builds many times its own size"):
        open_file(path)


@pytest.mark.parametrize(
    ("one", "built"), [(b"(NNd", 240), (b"(l", 72), (b"(NNt", 72), (b"N\x85", 64), (b"NN\x86", 72), (b"NNN\x87", 80)]
)
def test_what_a_container_counts(one: bytes, built: int) -> None:
    machine = machine_of(b"\x80\x04" + 10 * one + b".")
    machine.run()
    assert machine.built == 10 * built


@pytest.mark.parametrize("kind", ["events", "blocks", "segments"])
def test_one_thing_listed_over_and_over(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    """A reference takes two bytes, and packed next to none: what is small would become large."""
    path = tmp_path / "x.gz"

    def made(count: int) -> bytes:
        one = {"events": alloc(HEAP, 512, time_us=1), "blocks": block(HEAP, 0), "segments": segment([], total_size=0)}
        many = [one[kind]] * count
        segments = many if kind == "segments" else [segment(many if kind == "blocks" else [])]
        return gzip.compress(pickle.dumps(snapshot(segments, [many if kind == "events" else []]), 4), 9)

    path.write_bytes(made(1_000_000))
    assert path.stat().st_size < 10_000
    assert f"it lists the same {kind} over and over" in cause(path, capsys)
    path.write_bytes(made(plain_values.MAX_REPEATED + 2))
    assert "over and over" in cause(path, capsys)
    path.write_bytes(made(plain_values.MAX_REPEATED + 1))
    open_file(path)


def long_text(length: int) -> bytes:
    return b"X" + struct.pack("<I", length) + b"a" * length


def test_equal_long_texts_are_one_object() -> None:
    """Two would be compared to their ends each time that one of them is a key."""
    for one in (long_text(8192), b"V" + b"a" * 8192 + b"\n", b"S'" + b"a" * 8192 + b"'\n"):
        first, second = machine_of(b"](" + long_text(8192) + one + b"e.").run()
        assert first is second and len(first) == 8192
    first, second = machine_of(b"](" + long_text(64) + long_text(64) + b"e.").run()
    assert first == second


def test_a_number_as_long_as_a_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "long.pickle"
    assert machine_of(b"\x8b" + struct.pack("<I", 4096) + b"\1" * 4096 + b".").run().bit_length() == 4096 * 8 - 7
    path.write_bytes(b"\x80\4\x8b" + struct.pack("<I", 4097) + b"\1" * 4097 + b".")
    assert "it holds a number of more than 4,096 bytes" in cause(path, capsys)


def test_unlike_events_may_be_many(tmp_path: Path) -> None:
    events = [alloc(HEAP + 512 * i, 512, time_us=i) for i in range(3000)]
    for odd in (False, True):
        mixed = [{**event, "more": {}} if odd and i % 2 else event for i, event in enumerate(events)]
        assert len(open_file(written(tmp_path, snapshot([], [mixed, []]))).events) == 3000


Members = dict[str, bytes]


def column(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Members], Members]:
    def change_it(members: Members) -> Members:
        return members | {name: column(change(np.load(io.BytesIO(members[name]))))}

    return change_it


def at(place: int, value: int) -> Callable[[Any], Any]:
    def put(array: Any) -> Any:
        array[place] = value
        return array

    return put


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed("saved_tensors/storage.npy", at(5, 2**31 - 1)), "saved_tensors/storage holds impossible numbers"),
        (changed("saved_tensors/storage.npy", at(5, -7)), "saved_tensors/storage holds impossible numbers"),
        (changed("saved_tensors/checkpoint.npy", at(0, -2)), "checkpoint holds impossible numbers"),
        (changed("spans/start_time.npy", at(3, -(2**63))), "spans/start_time holds impossible times"),
        (changed("events/time.npy", at(-1, 2**63 - 1)), "events/time holds impossible times"),
        (changed("events/stack.npy", at(2, -2)), "events/stack points outside stacks"),
        (changed("events/bytes.npy", at(2, -2)), "events/bytes holds impossible sizes"),
        (changed("events/bytes.npy", lambda a: a.astype(np.float32)), "has dtype float32"),
        (changed("events/bytes.npy", lambda a: a[:-1]), "differ in length"),
        (changed("events/bytes.npy", lambda a: a.reshape(1, -1)), "does not have the length it claims"),
        (changed("events/bytes.npy", lambda a: np.array([None] * len(a), object)), "does not have the length"),
        (changed("strings/offsets.npy", at(4, 0)), "string table does not fit"),
        (lambda m: {k: v for k, v in m.items() if k != "events/bytes.npy"}, "column events/bytes is missing"),
        (lambda m: m | {"more.npy": bytes(100 << 20)}, "unpacks to far more"),
    ],
)
def test_recordings_that_cannot_be_right(
    tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Members], Members], said: str
) -> None:
    with zipfile.ZipFile(samples / "format-2.mstrata") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    path = tmp_path / "x.mstrata"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in change(members).items():
            archive.writestr(name, data)
    assert said in cause(path, capsys)


def test_a_column_held_twice(tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.mstrata"
    path.write_bytes((samples / "format-2.mstrata").read_bytes())
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("events/bytes.npy", column(np.zeros(3, np.int64)))
    assert "holds a column twice" in cause(path, capsys)


def test_what_else_is_in_the_archive_is_not_even_read(tmp_path: Path, samples: Path) -> None:
    path = tmp_path / "x.mstrata"
    path.write_bytes((samples / "format-2.mstrata").read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("../../outside.npy", "/outside.npy", "events/new.npy", "objects.npy", "README"):
            archive.writestr(name, column(np.array([{}], object)))
    assert files.read(path).meta == files.read(samples / "format-2.mstrata").meta
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.mstrata"]


@pytest.mark.parametrize("shape", ["9" * 5000, "99999999999,99999999999", "1" * 19])
def test_shapes_that_no_tensor_has(
    tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str], shape: str
) -> None:
    with zipfile.ZipFile(samples / "format-2.mstrata") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    offsets, blob = (np.load(io.BytesIO(members[f"strings/{name}.npy"])) for name in ("offsets", "blob"))
    new = np.append(blob, np.frombuffer(shape.encode(), np.uint8))
    members["strings/blob.npy"] = column(new)
    members["strings/offsets.npy"] = column(np.append(offsets, len(new)))
    shapes = np.load(io.BytesIO(members["module_parameters/shape.npy"]))
    shapes[0] = len(offsets) - 1
    members["module_parameters/shape.npy"] = column(shapes)
    path = tmp_path / "x.mstrata"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert "module_parameters/shape holds impossible shapes" in cause(path, capsys)
