"""The segments in front of the traces, run by Python's own unpickler: they leave what the machine leaves there."""

from __future__ import annotations

import io
import pickle
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from memstrata.capture.format.problems import FormatError
from memstrata.viewer.sources import pickle_abridged, pickle_whole, torch_snapshot
from memstrata.viewer.sources.pickle_errors import PickleProblem
from memstrata.viewer.sources.pickle_machine import Machine
from memstrata.viewer.sources.pickle_stream import PickleStream
from memstrata.viewer.sources.pickle_whole import segments

from .comparing import content, through_columns, through_dicts
from .snapshots import HEAP, alloc, block, segment, snapshot, timed

pytestmark = pytest.mark.skipif(not pickle_whole._SOUND, reason="the patterns of this Python prove nothing")

BEGIN = b"}\x94(\x8c\x08segments\x94]\x94"
LIST = BEGIN + b"("


@pytest.fixture(params=[True, False], ids=["abridged", "as it is"], autouse=True)
def abridged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(pickle_abridged, "sample", lambda bodies: [b"x"] * request.param)
    return bool(request.param)


def left_by_machine(body: bytes) -> Machine:
    """A machine that ran these instructions and found no more."""
    machine = Machine(PickleStream.of(body), len(body))
    with pytest.raises(PickleProblem, match="cut short"):
        machine.run()
    return machine


def agrees(bodies: list[bytes]) -> bool:
    """Whether they are run at once; if so, the machine must be left with the same."""
    left = segments(bodies)
    if left is None:
        return False
    memo, unchanged = left
    assert unchanged()
    machine = left_by_machine(b"".join(bodies))
    assert machine.marks == [1]
    assert [repr(value) for value in machine.stack] == [repr(memo[i]) for i in range(3)]
    assert [machine.stack[i] is machine.memo[i] for i in range(3)] == [True] * 3
    assert {number: repr(value) for number, value in memo.items()} == {n: repr(v) for n, v in machine.memo.items()}
    assert list(memo) == list(range(len(memo)))
    return True


def prefix_of(data: bytes) -> list[bytes]:
    """What is in the frames of a pickle in front of the traces."""
    frames, found = pickle_whole._frames(data), []
    for body in frames:
        at = body.find(b"\x8c\x0ddevice_traces\x94")
        found.append(body if at < 0 else body[:at])
        if at >= 0:
            return [body for body in found if body]
    return []


def test_real_files(snapshots: Path) -> None:
    read = 0
    for path in snapshots.glob("*.pickle"):
        bodies = prefix_of(path.read_bytes())
        if bodies and bodies[0].startswith(BEGIN):
            assert agrees(bodies)
            read += 1
    assert read > 15


def many_segments(count: int, **blocks: Any) -> dict[str, Any]:
    """Segments of which some share their frames, with events behind."""
    frames = [{"name": f"f{i}", "filename": "m.py", "line": i} for i in range(9)]
    made = [segment([block(HEAP + 4096 * i, 4096, **blocks)], address=HEAP + 4096 * i) for i in range(count)]
    for i, one in enumerate(made):
        one["frames"] = list(frames[i % 3 :])
    return snapshot(made, [timed([alloc(HEAP + 512 * i, 512, frames=list(frames)) for i in range(400)])])


@pytest.mark.parametrize("count", [0, 1, 2, 7, 999, 1000, 1001, 2500])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_any_number_of_them(count: int, protocol: int) -> None:
    """Python writes lists by the thousand, and one entry without a mark."""
    data = pickle.dumps(many_segments(count), protocol)
    assert content(through_columns(data, many=0)) == content(through_dicts(data))
    assert protocol < 4 or agrees(prefix_of(data))


def test_what_is_not_plain_is_left_to_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(pickle_whole, "segments", lambda bodies: ran.append(segments(bodies)) or ran[-1])
    data = pickle.dumps(many_segments(50, note=2**70), 4)
    assert content(through_columns(data, many=0)) == content(through_dicts(data))
    assert ran == [None]


def test_frames_that_end_anywhere() -> None:
    """Between two instructions they are run; inside of one, only a plain reader of bytes could."""
    body = b"".join(prefix_of(pickle.dumps(many_segments(3), 4)))
    run = [at for at in range(len(BEGIN), len(body)) if agrees([body[:at], body[at:]])]
    assert 30 < len(run) < len(body) - len(BEGIN)


def test_a_list_that_is_appended_to_behind_them(abridged: bool) -> None:
    """Equal lists are one where they are abridged, and so none may grow for itself."""
    data = pickle.dumps(many_segments(9), 4)
    unpickler = pickle.Unpickler(io.BytesIO(data))
    frames = unpickler.load()["segments"][5]["frames"]
    numbers = {id(value): number for number, value in unpickler.memo.copy().items()}
    grown, frame = (b"j" + numbers[id(value)].to_bytes(4, "little") for value in (frames, frames[0]))
    body = pickle_whole._frames(data)
    changed = b"".join(body)[:-2] + b"\x8c\1x\x94" + grown + frame + b"au."
    data = b"\x80\4\x95" + len(changed).to_bytes(8, "little") + changed
    if abridged:
        with pytest.raises(FormatError, match="changes a list that was complete"):
            through_columns(data, many=0)
    else:
        assert content(through_columns(data, many=0)) == content(through_dicts(data))


@pytest.mark.parametrize(
    "rest",
    [
        b"(h\1h\2",  # the same two once more, on top of them
        b"(h\0(h\1h\2",
        b"(h\0(h\0(h\1h\2",
        b"((h\0(h\1h\2",
        b"((h\2",
        b"(h\2K\1K\2\x86\x94",
        b"(h\1h\0(h\1h\2",
        b"(}\x94(h\1h\2",
        b"(h\1h\2e(h\1h\2",
        b"(K\1",
        b"(e",
        b"h\1",
        b"u",
        b"(}\x94(\x8c\1a\x94",
        b"(}\x94(\x8c\1a\x94K\1",
        b"(]\x94cos\nsystem\n",
        b"(\x8c\1a\x94\x85R",
        b"r\xff\xff\xff\x7f",
    ],
)
def test_what_ends_elsewhere_is_not_run(rest: bytes) -> None:
    assert segments([BEGIN + rest]) is None


def test_events_that_are_annotations_too() -> None:
    """Read together they are no records any more: the file is refused, not read in part."""
    events = [{**event, "name": "step", "stage": "START"} for event in timed([alloc(HEAP, 512) for _ in range(60)])]
    data = pickle.dumps(snapshot([], [events], external_annotations=events), 4)
    with pytest.raises(ValueError, match="its annotations are events"):
        through_columns(data, many=0)


def test_blocks_that_are_events_too() -> None:
    blocks = [{**block(HEAP + 512 * i, 512), "action": "alloc", "addr": HEAP + 512 * i, "stream": 0} for i in range(60)]
    value = snapshot([segment(blocks)], [blocks])
    assert content(through_columns(pickle.dumps(value, 4), many=0)) == content(through_dicts(pickle.dumps(value)))
    data = pickle.dumps(value, 2)  # the blocks are read together too
    with pytest.raises(ValueError, match="the same entries in lists of two kinds"):
        through_columns(data, many=0)


def test_frames_of_events_that_are_no_part_of_a_trace() -> None:
    """Devices of a name follow from the frames of what is read, not from what else is in the file."""
    frames = [{"name": "f", "filename": "torch_npu/npu.py", "line": 1}]
    plain, other = (timed([alloc(HEAP, 512, frames=list(own)) for _ in range(60)]) for own in ([], frames))
    data = pickle.dumps(snapshot([], [plain], other=[other]), 4)
    recording = through_columns(data, many=0)
    assert [device.name for device in recording.meta.devices] == ["cuda:0"]
    assert content(recording) == content(through_dicts(data))


def test_a_frame_that_ends_inside_of_the_first_instruction() -> None:
    body = b"".join(pickle_whole._frames(pickle.dumps(many_segments(3), 4)))
    data = b"".join(b"\x95" + struct.pack("<Q", len(part)) + part for part in (b"\x80", b"\4" + body))
    with pytest.raises(FormatError, match="a frame ends inside an entry"):
        through_columns(data, many=0)


PIECES = (
    b"}\x94", b"]\x94", b"(", b"(", b"h\0", b"h\1", b"h\2", b"h\3", b"K\1", b"N", b"\x8c\1a\x94", b"a", b"e",
    b"e", b"s", b"u", b"K\1K\2\x86\x94", b"0", b"t", b"2", b"q\0", b"]\x94(h\1h\1e", b"}\x94(h\1K\1u",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_any_instructions(seed: int) -> None:
    """Whatever is let through leaves the machine with the same; and nothing that leaves another thing is."""
    made = random.Random(seed)
    ran = 0
    for _ in range(1500):
        body = BEGIN + b"".join(made.choices(PIECES, k=made.randrange(9)))
        ran += agrees([body])
    assert ran > 100


def test_they_count_against_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built by them is built in the machine too."""
    data = pickle.dumps(many_segments(900), 4)
    machine = Machine(PickleStream(io.BytesIO(data), len(data), torch_snapshot.Progress()), len(data))
    slow = Machine(PickleStream(io.BytesIO(data), len(data), torch_snapshot.Progress()), len(data))
    ahead = []
    machine.run(lambda m: ahead.append(torch_snapshot._segments_at_once(m)) or ahead[-1])
    slow.run()
    assert ahead[0] > 1000
    assert slow.built <= machine.built <= 1.2 * slow.built
