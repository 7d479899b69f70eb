"""What a file costs to read does not grow faster than the file, and all that it builds counts. Where frames may be."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
from pathlib import Path
from typing import Any

import pytest

from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.torch_records import ENTRY_FIELDS
from memstrata.viewer.sources import packed, pickle_instructions, pickle_machine
from memstrata.viewer.sources.pickle_errors import PickleProblem
from memstrata.viewer.sources.pickle_machine import Machine
from memstrata.viewer.sources.pickle_records import RecordReader
from memstrata.viewer.sources.pickle_stream import PickleStream
from memstrata.viewer.sources.progress import Progress

from .comparing import content, one_by_one, through_columns, through_dicts
from .made_snapshots import CppWriter
from .snapshots import FRAMES, HEAP, START_US, alloc, plain_unpickled, snapshot

LATE = b"\x95" + struct.pack("<Q", 2) + b"N0"
"""A frame, announced where there is none."""


def traced(count: int) -> list[dict[str, Any]]:
    return [alloc(HEAP + 512 * i, 512, frames=list(FRAMES), time_us=START_US + i) for i in range(count)]


def with_inserted(data: bytes, inserted: bytes) -> bytes:
    """Bytes put in front of every second dict that follows another one."""
    found = [at for op, _, at in pickletools.genops(data) if op.name == "EMPTY_DICT" and data[at - 1 : at] == b"u"]
    parts = [data[begin:end] for begin, end in zip([2, *found[::2]], [*found[::2], len(data)])]
    return b"\x80\4" + inserted.join(parts)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where windows were opened since."""
    found: list[int] = []
    usual = RecordReader._open

    def noted(self: RecordReader, machine: Machine, at: int) -> Any:
        found.append(at)
        return usual(self, machine, at)

    monkeypatch.setattr(RecordReader, "_open", noted)
    return found


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("back", [1, 2, 30])
def test_references_to_entries_read_together_leave_the_window_open(opened: list[int], protocol: int, back: int) -> None:
    made = traced(300)
    for i in range(40, 300, 3):
        made[i]["more"] = {}  # as no layout has it
        made[i]["frames"] = made[i - back]["frames"]
    data = pickle.dumps({**snapshot([], [made]), "again": [made[7], made[98], made[7]["frames"]]}, protocol)
    recording = through_columns(data)
    assert len(opened) <= 4
    assert content(recording) == content(one_by_one(data)) == content(through_dicts(data))


def test_an_entry_that_is_changed_after_it_was_referred_to_is_damage() -> None:
    made = traced(100)
    data = pickle.dumps({**snapshot([], [made]), "again": made[70]}, 2)
    changed = data[:-2] + b"X\1\0\0\0aK\5s" + data[-2:]
    assert plain_unpickled(changed)["again"]["a"] == 5
    with pytest.raises(PickleProblem, match="changes an entry that was complete"):
        Machine(stream_of(changed), len(changed), RecordReader(ENTRY_FIELDS)).run()


def stream_of(data: bytes) -> PickleStream:
    return PickleStream(io.BytesIO(data), len(data), Progress())


def test_frames_announced_late_do_not_read_all_behind_them_again() -> None:
    read = []

    class Noted(PickleStream):
        def fill(self, keep: int, need: int = 0) -> None:
            super().fill(keep, need)
            read.append(self.end)

    data = b"\x80\4" + (b"N0" + LATE) * 2000 + b"X" + struct.pack("<I", 1 << 20) + b" " * (1 << 20) + b"."
    assert Machine(Noted(io.BytesIO(data), len(data), Progress()), len(data)).run() == " " * (1 << 20)
    assert len(read) > 2000 and sum(read) < 16 * len(data)


def test_frames_announced_late_open_no_windows(opened: list[int]) -> None:
    plain = pickle.dumps(snapshot([], [traced(400)]), 3)
    data = with_inserted(plain, LATE)
    assert data.count(LATE) > 190 and plain_unpickled(data) == plain_unpickled(plain)
    assert content(through_columns(data)) == content(through_dicts(plain))
    assert len(opened) <= 4


@pytest.mark.parametrize("odd", [b"]" * 500 + LATE, b"]" * 500])
def test_what_is_built_before_a_late_frame_or_a_stretch_counts(monkeypatch: pytest.MonkeyPatch, odd: bytes) -> None:
    monkeypatch.setattr(pickle_machine, "BUILT_FREE", 0)
    data = with_inserted(pickle.dumps(snapshot([], [traced(800)]), 3), odd)
    with pytest.raises(PickleProblem, match="builds many times its own size"):
        Machine(stream_of(data), len(data), RecordReader(ENTRY_FIELDS)).run()


def test_a_frame_begins_in_front_of_any_instruction_and_inside_none() -> None:
    plain = CppWriter().write(snapshot([], [traced(30)]))
    expected = content(through_dicts(plain))
    begins = {at for _, _, at in pickletools.genops(plain) if at}
    for at in range(plain.index(b"action"), len(plain)):
        parts = plain[2:at], plain[at:]
        data = b"\x80\4" + b"".join(b"\x95" + struct.pack("<Q", len(part)) + part for part in parts)
        if at in begins:
            assert content(through_columns(data)) == expected, at
        else:
            with pytest.raises(FormatError, match="a frame ends inside an entry"):
                through_columns(data)


@pytest.mark.parametrize(
    ("begin", "one", "each"),
    [(b"", b"N0", 1), (b"", b"(1", 1), (b"}", b"(u", 1), (b"]", b"(e", 1), (b"}K\1Ns", b"\x88Ns", 1),
     (b"}K\1Ns", b"(K\1Nu", 1), (b"Nq\0", b"q\0", 1), (b"", b"N" + LATE, 17)],
)  # fmt: skip
def test_what_leaves_nothing_behind_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, begin: bytes, one: bytes, each: int
) -> None:
    monkeypatch.setattr(pickle_machine, "VAIN_FREE", 20 * each)
    monkeypatch.setattr(pickle_machine, "VAIN_PER_BYTE", 0)

    def read(times: int) -> None:
        data = b"\x80\4" + begin + one * times + b"N."
        Machine(stream_of(data), len(data)).run()

    read(20)
    with pytest.raises(PickleProblem, match="does things and undoes them over and over"):
        read(21)


def test_the_limits_are_those_that_the_readme_states() -> None:
    text = " ".join((Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8").split())
    for said in (
        f"nest {pickle_instructions.MAX_MARKS} lists",
        f"texts of {pickle_instructions.MAX_TEXT >> 20} MiB and numbers of {pickle_instructions.MAX_NUMBER:,} bytes",
        f"build {pickle_machine.BUILT_FREE >> 20} MiB and {pickle_machine.BUILT_PER_BYTE} bytes more for each",
        f"unpack to {packed.UNPACKED_FREE >> 20} MiB and {packed.UNPACKED_PER_BYTE} times its size",
    ):
        assert said in text
