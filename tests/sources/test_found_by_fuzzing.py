"""What damaged files brought to light, made by hand and small."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
from typing import Any

import pytest

from memstrata.capture.format.problems import FormatError

from .comparing import content, one_by_one, recording_of, through_columns, through_dicts
from .snapshots import HEAP, START_US, alloc, plain_unpickled, small, snapshot

READS = [through_columns, one_by_one]
BARE = pickle.dumps(small(), 3)
"""A pickle without frames."""


def test_an_entry_built_once_more_does_not_hold_what_came_later() -> None:
    """A number of the memo used again, and then a reference to an event that refers to what it stood for before."""
    events = [alloc(HEAP + 512 * i, 512, time_us=START_US + i, user_metadata="step") for i in range(40)]
    data = pickle.dumps(snapshot([], [events]), 4)
    ops = [(op.name, argument, at) for op, argument, at in pickletools.genops(data)]
    first = next(at for name, argument, at in ops if name == "SHORT_BINUNICODE" and argument == "step")
    step = sum(name == "MEMOIZE" for name, _, at in ops if at < first)
    event = step + 6  # a later event's own dict, far from the first
    again = b"X\x0d\0\0\0device_traces]]" + b"X\x05\0\0\0laterr" + struct.pack("<I", step) + b"0"
    refused = 0
    for number in range(event, event + 12):
        changed = _whole(data[:-1] + again + b"j" + struct.pack("<I", number) + b"aas.")
        if type(plain_unpickled(changed)["device_traces"][0][0]) is not dict:
            continue
        expected = content(through_dicts(changed))
        assert expected["events/metadata"] == ["step"]
        assert content(one_by_one(changed)) == expected
        with pytest.raises(FormatError, match="numbers two entries alike, and refers to one before them"):
            through_columns(changed)
        refused += 1
    assert refused > 3


def _whole(data: bytes) -> bytes:
    """The same pickle in one frame."""
    assert data[2] == 0x95
    return data[:3] + struct.pack("<Q", len(data) - 11) + data[11:]


@pytest.mark.parametrize("read", READS)
def test_a_frame_ends_between_two_instructions_or_the_file_is_refused(read: Any) -> None:
    """Python's fast unpickler drops bytes where one does not, and its plain one refuses it."""
    data = pickle.dumps(small(), 4)
    between = {at - 11 for _, _, at in pickletools.genops(data)}
    whole = content(read(data))
    for length in range(0, len(data) - 11, 3):
        changed = data[:3] + struct.pack("<Q", length) + data[11:]
        if length in between:
            assert content(read(changed)) == whole, length
        else:
            with pytest.raises(FormatError, match="a frame ends inside an entry"):
                read(changed)


@pytest.mark.parametrize("read", READS)
def test_a_frame_begins_anywhere_but_inside_a_frame(read: Any) -> None:
    whole = content(read(BARE))
    framed = _whole(BARE[:2] + b"\x95" + bytes(8) + BARE[2:])
    places = [at for _, _, at in pickletools.genops(BARE) if at >= 2]
    for at in places[::3]:
        end = places[min(len(places) - 1, places.index(at) + 5)]
        header = b"\x95" + struct.pack("<Q", end - at)
        assert content(read(BARE[:at] + header + BARE[at:])) == whole, at
        if at > 2:
            with pytest.raises(FormatError, match="a frame begins inside a frame"):
                read(_whole(framed[: at + 9] + header + framed[at + 9 :]))


@pytest.mark.parametrize("dumps", [pickle.dumps, pickle._dumps])  # type: ignore[attr-defined]
@pytest.mark.parametrize("read", READS)
def test_long_texts_stand_outside_of_frames(dumps: Any, read: Any) -> None:
    """As both of Python's picklers write them."""
    notes = ["x" * 70_000, "y", "z" * 300_000]
    value = snapshot([], [[alloc(HEAP + 512 * i, 512, user_metadata=notes[i % 3] + str(i)) for i in range(9)]])
    data = dumps(value, 4)
    assert data.count(b"\x95") > 3
    assert content(read(data)) == content(recording_of(value, len(data)))


@pytest.mark.parametrize(
    "tail",
    [b"(\x941", b"(r\xe8\3\0\0001", b"(p1000\n1", b"(N0\x941", b"((1\x941", b"(\x80\4\x941",
     b"(\x95" + bytes(8) + b"\x941", b"("],
    ids=["memoize", "put", "text put", "pop", "pop mark", "protocol", "frame", "stop"],
)  # fmt: skip
def test_a_mark_is_no_value(tail: bytes) -> None:
    """There is nothing to note, and nothing to end with, where a mark is on top."""
    data = BARE[:-1] + tail + b"."
    with pytest.raises((pickle.UnpicklingError, IndexError)):
        pickle._Unpickler(io.BytesIO(data)).load()  # type: ignore[attr-defined]
    for read in READS:
        with pytest.raises(FormatError, match="a value is missing"):
            read(data)
