"""Files that cannot be read: one sentence with name and cause, and nothing in a file is ever run."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import pickletools
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Recording
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file, torch_snapshot
from memstrata.viewer.sources.pickle_errors import PickleProblem
from memstrata.viewer.sources.pickle_machine import Machine
from memstrata.viewer.sources.pickle_stream import PickleStream
from memstrata.viewer.sources.progress import Progress

from .snapshots import HEAP, MB, alloc, block, event, segment, small, snapshot, timed, written

WORDS_OF_A_TRACEBACK = ("Traceback", "Error:", "Exception", ".py", "opcode", "UnpicklingError", "line ")


def sentence(path: Path) -> str:
    """The one sentence that opening this file gives."""
    with pytest.raises(FormatError) as caught:
        open_file(path)
    text = str(caught.value)
    assert text.startswith(path.name) and text.endswith(".") and "\n" not in text
    assert not any(word in text.removeprefix(path.name) for word in WORDS_OF_A_TRACEBACK)
    return text


def read(data: bytes) -> Recording:
    return torch_snapshot.read(io.BytesIO(data), len(data), "damaged.pickle")


def machine_of(data: bytes) -> Machine:
    return Machine(PickleStream(io.BytesIO(data), len(data), Progress()), len(data))


class Runs:
    """Pickles as a call of os.system."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_code_does_not(tmp_path: Path, protocol: int) -> None:
    proof = tmp_path / "ran"
    path = written(tmp_path, {"segments": [Runs(f"touch {proof}")], "device_traces": []}, protocol=protocol)
    assert "asks for posix.system" in sentence(path)
    assert not proof.exists()


@pytest.mark.parametrize(
    "value",
    [{"segments": {1, 2}}, {"segments": b"bytes"}, {"segments": bytearray(b"x")}, {"segments": frozenset({1})},
     {"segments": complex(1, 2)}, {"segments": Path("x")}],
    ids=["set", "bytes", "bytearray", "frozenset", "complex", "path"],
)  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 5])
def test_only_plain_values_are_built(tmp_path: Path, value: Any, protocol: int) -> None:
    assert "was not opened: it asks" in sentence(written(tmp_path, value, protocol=protocol))


class Persistent(pickle.Pickler):
    """Writes every tuple as a persistent id, as torch.save does with storages."""

    def persistent_id(self, obj: Any) -> Any:
        return "storage" if isinstance(obj, tuple) else None


@pytest.mark.parametrize("protocol", [0, 2])
def test_persistent_ids_are_refused(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "saved.pickle"
    with open(path, "wb") as file:
        Persistent(file, protocol).dump({"segments": [(1, 2)]})
    assert "something outside the file" in sentence(path)


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("empty.pickle", b"", "is empty"),
        ("pointer.pickle", LFS, "git-lfs pointer"),
        ("page.pickle", b"\n<!DOCTYPE html><html><body>Not found</body></html>", "web page"),
        ("page.mstrata", b"<html>", "web page"),
        ("head.pickle", b"<head><title>x</title></head>", "web page"),
        ("comment.pickle", b"<!-- saved -->\n<html></html>", "web page"),
        ("spaces.pickle", b"\xef\xbb\xbf" + b"\r\n\t " * 200 + b"<HTML lang='en'>", "web page"),
        ("page.gz", gzip.compress(b"\n<body class=x>", mtime=0), "web page"),
        ("less.pickle", b"< 5", "neither"),
        (
            "twice.gz",
            gzip.compress(gzip.compress(pickle.dumps(small()), mtime=0), mtime=0),
            "packed twice: unpack it once first",
        ),
        ("trace.json", b'{"traceEvents": []}', "profiler trace without memory events"),
        ("list.json", b'[{"a": 1}]', "JSON"),
        ("packed.pickle", b"\x1f\x8b\x08\x00rest", "is a gzip file that is damaged or cut short"),
        ("noise.pickle", b"\x00\x01\x02\x03", "neither a memstrata recording nor a torch memory snapshot"),
        ("text.pickle", b"hello", "neither"),
        ("old.pt", pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2), "torch checkpoint"),
        ("number.pickle", pickle.dumps(7), "not a torch memory snapshot"),
        ("dict.pickle", pickle.dumps({"a": 1}), "not a torch memory snapshot"),
        ("list.pickle", pickle.dumps([1, 2]), "not a torch memory snapshot"),
        ("zip.mstrata", b"PK\x03\x04rest", "damaged"),
    ],
)
def test_other_files_are_called_by_name(tmp_path: Path, name: str, content: bytes, cause: str) -> None:
    assert cause in sentence(written(tmp_path, content, name))


def test_a_torch_checkpoint_is_called_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"weight": torch.zeros(2)}, tmp_path / "model.pt")
    assert "is a torch checkpoint" in sentence(tmp_path / "model.pt")
    packed = gzip.compress((tmp_path / "model.pt").read_bytes())
    assert "is a torch checkpoint" in sentence(written(tmp_path, packed, "model.pt.gz"))
    cut = gzip.compress((tmp_path / "model.pt").read_bytes()[:-50])
    assert "is a zip archive inside another archive" in sentence(written(tmp_path, cut, "model.pt.gz"))


def test_a_missing_file_a_folder_and_a_forbidden_file(tmp_path: Path) -> None:
    assert "no such file" in sentence(tmp_path / "absent.pickle")
    assert "is a folder, not a file" in sentence(tmp_path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_opens_and_half_a_file_does_not(tmp_path: Path, protocol: int) -> None:
    whole = pickle.dumps(small(), protocol)
    assert open_file(written(tmp_path, whole)).meta.devices[0].name == "cuda:0"
    assert "is cut short" in sentence(written(tmp_path, whole[: len(whole) // 2]))
    for length in range(1, len(whole), 3):
        with pytest.raises(FormatError):
            read(whole[:length])


def test_numbers_behind_the_pickle_do_not_matter(tmp_path: Path) -> None:
    assert open_file(written(tmp_path, pickle.dumps(small()) + b"rest")).meta.kind == "snapshot"


DEEP = 200_000


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02" + b"]" * DEEP + b"a" * (DEEP - 1) + b".",
        b"\x80\x02" + b"(" * DEEP + b"t" * DEEP + b".",
        b"\x80\x02" + b"}K\x00" * DEEP + b"}" + b"s" * DEEP + b".",
        b"\x80\x02(" + b"2" * DEEP + b".",
        b"\x80\x02}" + b"2s" * 10 + b".",
        b"." * 4,
        b"\x80\x02.",
        b"\x80\x63}.",
        b"\x80\x02h\x07.",
        b"\x80\x02(lp9999999999999999999999\n.",
        b"\x80\x02}U\x05segme.",
        b"\x80\x02}U\x02\xff\xfe]s.",
    ],
    ids=["lists", "tuples", "dicts", "copies", "itself", "stops", "nothing", "protocol", "no memo", "text memo",
         "cut string", "no text"],
)  # fmt: skip
def test_odd_pickles_are_a_sentence_and_no_crash(tmp_path: Path, data: bytes) -> None:
    sentence(written(tmp_path, data if data[:1] == b"\x80" else b"\x80\x02" + data))


@pytest.mark.parametrize(
    "claim",
    [
        b"X" + struct.pack("<I", 0xFFFFFFF0),
        b"\x8d" + struct.pack("<Q", 1 << 62),
        b"\x8d" + struct.pack("<Q", (1 << 64) - 1),
        b"\x8b" + struct.pack("<i", 0x7FFFFFFF),
        b"\x8b" + struct.pack("<i", -1),
        b"T" + struct.pack("<i", 0x7FFFFFFF),
        b"\x95" + struct.pack("<Q", 1 << 40),
        b"N" + b"r" + struct.pack("<I", 0xFFFFFFF0),
        b"N" + b"p4294967290\n",
    ],
    ids=[
        "string",
        "long string",
        "negative string",
        "long",
        "negative long",
        "old string",
        "frame",
        "memo",
        "text memo",
    ],
)
def test_claimed_sizes_are_checked_before_memory_is_asked_for(tmp_path: Path, claim: bytes) -> None:
    data = b"\x80\x04}" + claim + b"x."
    tracemalloc.start()
    try:
        sentence(written(tmp_path, data))
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


NEEDS_NOTHING = {
    "PROTO": b"\x04", "FRAME": bytes(8), "MARK": b"", "NONE": b"", "NEWTRUE": b"", "NEWFALSE": b"",
    "EMPTY_DICT": b"", "EMPTY_LIST": b"", "EMPTY_TUPLE": b"", "BININT": bytes(4), "BININT1": b"\0", "BININT2": b"\0\0",
    "LONG1": b"\0", "LONG4": bytes(4), "BINFLOAT": bytes(8), "BINUNICODE": bytes(4), "SHORT_BINUNICODE": b"\0",
    "BINUNICODE8": bytes(8), "BINSTRING": bytes(4), "SHORT_BINSTRING": b"\0", "INT": b"1\n", "LONG": b"1L\n",
    "FLOAT": b"1.5\n", "STRING": b"'x'\n", "UNICODE": b"x\n",
}  # fmt: skip
NEEDS_A_STACK = {
    "APPEND", "APPENDS", "LIST", "DICT", "SETITEM", "SETITEMS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "POP",
    "POP_MARK", "DUP", "STOP", "GET", "BINGET", "LONG_BINGET", "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE",
}  # fmt: skip


def test_every_opcode_is_either_plain_or_refused_by_name() -> None:
    for op in pickletools.opcodes:
        code = op.code.encode("latin-1")
        if op.name in NEEDS_NOTHING:
            machine_of(b"\x80\x02" + code + NEEDS_NOTHING[op.name] + b"N.").run()
        elif op.name in NEEDS_A_STACK:
            with pytest.raises(PickleProblem, match="is damaged at byte"):
                machine_of(b"\x80\x02" + code + bytes(8) + b"\n.").run()
        else:
            with pytest.raises(PickleProblem, match=rf"was not opened: .*\({op.name} at byte 6\)"):
                machine_of(b"\x80\x02U\x00U\x00" + code + b"os\nsystem\n" + b".").run()


def test_bytes_that_are_no_opcode_are_damage() -> None:
    known = {op.code for op in pickletools.opcodes}
    for code in range(256):
        if chr(code) not in known:
            with pytest.raises(PickleProblem, match="is damaged at byte 2: it is not a pickle from here on"):
                machine_of(b"\x80\x02" + bytes([code]) + b".").run()


def broken(key: str, value: Any) -> dict[str, Any]:
    return timed([{**alloc(HEAP, MB), key: value}])[0] if key != "time_us" else {**alloc(HEAP, MB), key: value}


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (snapshot([], [[broken("size", "big")]]), "'size' of an event"),
        (snapshot([], [[broken("size", 1.5)]]), "'size' of an event"),
        (snapshot([], [[broken("size", True)]]), "'size' of an event"),
        (snapshot([], [[broken("size", -5)]]), "'size' of an event"),
        (snapshot([], [[broken("size", 1 << 62), broken("size", 1 << 62)]]), "impossible sizes"),
        (snapshot([], [[broken("addr", 1 << 63)]]), "'addr' of an event is too large"),
        (snapshot([], [[broken("addr", None)]]), "'addr' of an event"),
        (snapshot([], [[broken("time_us", 1 << 61)]]), "'time_us'"),
        (snapshot([], [[broken("stream", "x")]]), "'stream'"),
        (snapshot([], [[broken("frames", "x")]]), "a stack is not a list"),
        (snapshot([], [[broken("frames", ["x"])]]), "a stack is not a list"),
        (snapshot([], [[{"action": "alloc", "stream": 0}]]), "'addr' of an event is missing"),
        (snapshot([], [[7]]), "the trace of a device"),
        (snapshot([], [7]), "the trace of a device"),
        (snapshot([], 7), "'device_traces'"),
        (snapshot(7, []), "the list of segments"),
        (snapshot([{}], []), "'total_size' of a segment"),
        (snapshot([segment([], device=-1)], []), "'device' of a segment"),
        (snapshot([segment([], device=1 << 40)], []), "impossible device"),
        (snapshot([segment([block(HEAP, 5)], total_size=None)], []), "'total_size'"),
        (snapshot([segment([block(HEAP, 5)]) | {"blocks": [{}]}], []), "'size' of a block"),
        (snapshot([segment([block(HEAP, 5)]) | {"blocks": 3}], []), "the blocks of a segment"),
        (snapshot([segment([block(HEAP, 5, requested=-3)])], []), "'requested_size'"),
    ],
)
def test_wrong_entries_are_named(tmp_path: Path, value: Any, cause: str) -> None:
    assert cause in sentence(written(tmp_path, value))


def test_odd_texts_and_numbers_in_passing_do_not_matter(tmp_path: Path) -> None:
    frames = [{"name": 3, "filename": None, "line": "x"}, {}, {"line": -4}, {"name": "\ud800", "line": 1 << 70}]
    notes = [7, {"time_us": "x", "name": None}, {"stage": 3}, {"time_us": 1 << 62, "name": "late"}]
    value = snapshot(
        [segment([block(HEAP, MB)], segment_pool_id="pool", stream=-1, frames=None)],
        [timed([alloc(HEAP, MB, frames=frames), event("oom", 0, 5, device_free="x")])],
        external_annotations=notes,
        allocator_settings={"deep": {"er": {"still": {}}}, 3: 4, "fine": 1},
    )
    run = Run(open_file(written(tmp_path, value)))
    assert identities.check(run) == []
    assert run.recording.meta.allocator_settings == {"deep": {}, "fine": 1}


def test_repeated_entries_are_counted_before_they_are_read(tmp_path: Path) -> None:
    blocks = [block(HEAP, 5)] * 3000
    assert "repeats its blocks" in sentence(written(tmp_path, snapshot([segment(blocks)] * 3000, [])))
    trace = [alloc(HEAP, 5)] * 3000
    assert "repeats its events" in sentence(written(tmp_path, snapshot([], [trace] * 3000)))


WHOLE = pickle.dumps(small(), 2)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    cuts=st.lists(
        st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=3), st.integers(0, 3)), min_size=1, max_size=4
    )
)
@example(cuts=[(0, b"", 0)])
def test_any_damage_gives_a_sentence_or_a_picture_that_adds_up(cuts: list[tuple[int, bytes, int]]) -> None:
    data = bytearray(WHOLE)
    for at, new, removed in cuts:
        data[at : at + removed] = new
    try:
        recording = read(bytes(data))
    except FormatError:
        return
    for row in range(len(recording.meta.devices)):
        assert identities.check(Run(recording, row)) == []
