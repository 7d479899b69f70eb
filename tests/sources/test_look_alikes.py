"""Entries that look like those before them and are not: read together they must stay what each of them is."""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from typing import Any

import pytest

from memstrata.capture.format.plain_values import Run
from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.torch_records import ENTRY_FIELDS
from memstrata.viewer.model import run as model
from memstrata.viewer.sources.pickle_machine import Machine
from memstrata.viewer.sources.pickle_records import RecordReader
from memstrata.viewer.sources.pickle_stream import PickleStream
from memstrata.viewer.sources.progress import Progress

from .comparing import content, one_by_one, through_columns, through_dicts
from .snapshots import FRAMES, HEAP, START_US, alloc, block, plain_unpickled, segment, snapshot


def events(count: int, **more: Any) -> list[dict[str, Any]]:
    """Allocations with a list of two frames of their own each, the last field of the entry."""
    made = [alloc(HEAP + 512 * i, 512, frames=list(FRAMES), time_us=START_US + i, **more) for i in range(count)]
    return [{**{key: e[key] for key in e if key != "frames"}, "frames": e["frames"]} for e in made]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_an_empty_list_before_one_more_field_does_not_hold_its_name(protocol: int) -> None:
    """In the file the name and the text behind an empty list are two references, as the two frames of a full one."""
    made = events(90)
    for event in made[3::3]:
        event["frames"] = []
        event["note"] = "late"
    recording = through_columns(pickle.dumps(snapshot([], [made]), protocol))
    stacks = recording.events.stack.tolist()
    assert [stack < 0 for stack in stacks] == [i >= 3 and i % 3 == 0 for i in range(90)]
    assert content(recording) == content(through_dicts(pickle.dumps(snapshot([], [made]), protocol)))


@pytest.mark.parametrize("read", [through_columns, one_by_one])
def test_one_of_two_frames_appended_to_the_other_is_no_stack(read: Any) -> None:
    data = pickle.dumps(snapshot([], [events(60)]), 3)
    lists = [*re.finditer(rb"\](?:q.|r.{4})\(((?:h.|j.{4}){2})e", data, re.DOTALL)]
    assert len(lists) > 50
    last = lists[-2]
    changed = data[: last.start(1) - 1] + last[1] + b"a" + data[last.end() :]
    with pytest.raises(FormatError, match="is damaged at byte"):
        read(changed)


@pytest.mark.parametrize("length", [1, 3, 4, 5, 6, 7, 8, 9, 12])
def test_texts_that_differ_in_their_last_letter_only_stay_apart(length: int) -> None:
    made = events(200)
    texts = ["x" * (length - 1) + chr(ord("a") + i % 26) for i in range(200)]
    for event, text in zip(made, texts):
        event["user_metadata"] = text
    recording = through_columns(pickle.dumps(snapshot([], [made]), 4))
    assert [recording.strings[number] for number in recording.events.metadata.tolist()] == texts


@pytest.mark.parametrize("first", [0, 1])
def test_one_text_in_the_place_of_another_is_not_taken_for_it(first: int) -> None:
    """Two layouts of one shape in one table: where one has its note the other has its compile context."""
    made = events(120)
    for i, event in enumerate(made):
        event["user_metadata" if i // 2 % 2 == first else "compile_context"] = "text"
        event["frames"] = event.pop("frames")
    recording = through_columns(pickle.dumps(snapshot([], [made]), 4))
    for column, rest in ((recording.events.metadata, first), (recording.events.compile_context, 1 - first)):
        assert [number >= 0 for number in column.tolist()] == [i // 2 % 2 == rest for i in range(120)]
        assert {recording.strings[number] for number in column.tolist() if number >= 0} == {"text"}


@pytest.mark.parametrize("count", [1, 2])
def test_of_one_event_nothing_is_said_to_have_come_before_it(count: int) -> None:
    """Where only the state was recorded there is one event, and all other blocks are older; that is no news."""
    blocks = [block(HEAP, 512), block(HEAP + 512, 1024)]
    trace = [alloc(HEAP + (1 << 30) + 512 * i, 512, time_us=START_US + i) for i in range(count)]
    run = model.Run(one_by_one(pickle.dumps(snapshot([segment(blocks)], [trace]), 4)))
    told = {problem.code: problem.count for problem in run.problems}
    assert run.baseline_bytes == 1536
    assert told.get("before_first_event") == (None if count == 1 else 2)


@pytest.mark.parametrize("name", ["user_metadata", "one", "other", "compile_context"])
@pytest.mark.parametrize("read", [through_columns, one_by_one])
def test_a_field_does_not_refer_to_what_its_own_entry_holds_later(name: str, read: Any) -> None:
    """Of an event the dict has a number of the memo before its fields, and its list of frames the next one."""
    text = "note"
    made = [
        {"user_metadata": text, "one": text, "other": text, "compile_context": text, **event} for event in events(200)
    ]
    data = pickle.dumps(snapshot([], [made]), 4)
    data = data[:2] + data[11:]  # in one frame before, in none now
    ops = [(op.name, argument, at) for op, argument, at in pickletools.genops(data)]
    dicts = [i for i, (op, _, _) in enumerate(ops) if op == "EMPTY_DICT" and ops[i + 1][0] == "MEMOIZE"]
    event = dicts[-3]  # the last two are the settings
    own = sum(op == "MEMOIZE" for op, _, _ in ops[:event])
    field = event + 4 + 2 * list(made[0]).index(name)
    at = ops[field][2]
    assert (ops[event + 2][0], ops[field][0]) == ("MARK", "BINGET")

    def referring_to(number: int) -> bytes:
        return data[:at] + b"j" + number.to_bytes(4, "little") + data[at + 2 :]

    assert content(read(referring_to(ops[field][1]))) == content(through_dicts(data))
    with pytest.raises(FormatError, match="it refers to"):
        read(referring_to(own + 1))


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("parts", ["dict", "list", "both"])
def test_an_entry_that_numbers_its_parts_otherwise_keeps_these_numbers(parts: str, odd: bool) -> None:
    """No writer leaves a number of the memo out; where a file does, what it refers to is still found."""
    made = events(60)
    if odd:
        made[19]["more"] = (1, 2)  # the next one begins a stretch
    data = pickle.dumps(snapshot([], [made]), 2)
    entries = [*re.finditer(rb"\}q(.)\([^}]{20,90}\]q(.)\((?:h.){2}e(?=u)", data, re.DOTALL)]
    which = next(i for i, entry in enumerate(entries) if entry.start() > data.index(b"more")) if odd else 20
    changed = bytearray(data)
    if parts != "dict":
        changed[entries[which].start(2)] = 0xFA
    if parts != "list":
        changed[entries[which].start(1)] = 0xF9
    whole = bytes(changed[:-1]) + b"X\x05\0\0\0otherh" + (b"\xf9" if parts == "dict" else b"\xfa") + b"s."
    assert type(plain_unpickled(whole)["other"]) is (dict if parts == "dict" else list)
    assert content(through_columns(whole)) == content(one_by_one(whole)) == content(through_dicts(whole))


@pytest.mark.parametrize("period", [2, 3, 4])
@pytest.mark.parametrize("protocol", [2, 4])
def test_two_layouts_that_take_turns_are_both_learned(period: int, protocol: int) -> None:
    made = events(300)
    for event in made[::period]:
        event["more"] = 7
    data = pickle.dumps(snapshot([], [made]), protocol)
    reader = RecordReader(ENTRY_FIELDS)
    value = Machine(PickleStream(io.BytesIO(data), len(data), Progress()), len(data), reader).run()
    trace = value["device_traces"][0]
    assert sum(type(part) is dict for part in trace) <= 4
    assert sum(part.count if type(part) is Run else 1 for part in trace) == 300
    assert content(through_columns(data)) == content(one_by_one(data)) == content(through_dicts(data))
