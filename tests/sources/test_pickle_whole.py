"""Small snapshots that Python's own unpickler reads: only such as can do no harm, and each exactly as it stands."""

from __future__ import annotations

import contextlib
import gc
import io
import pickle
import random
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from memstrata.capture.format.problems import FormatError
from memstrata.viewer.sources import pickle_abridged, pickle_whole
from memstrata.viewer.sources.pickle_abridged import Abridged, sample
from memstrata.viewer.sources.pickle_whole import value

from .comparing import as_it_is, content, one_by_one, through_dicts
from .made_snapshots import snapshot as made_up
from .snapshots import HEAP, alloc, plain_unpickled, small, snapshot, timed
from .test_reader import outcome

pytestmark = pytest.mark.skipif(not pickle_whole._SOUND, reason="the patterns of this Python prove nothing")


@pytest.fixture(params=[True, False], ids=["abridged", "as it is"], autouse=True)
def abridged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Small pickles are abridged too, though it does not pay; or none is."""
    monkeypatch.setattr(pickle_abridged, "sample", lambda bodies: [b"x"] * request.param)
    return bool(request.param)


FRAMES = [{"name": f"f{i}", "filename": "m.py", "line": i} for i in range(20)]


def framed(*bodies: bytes) -> bytes:
    """A pickle whose frames hold these instructions."""
    return b"\x80\4" + b"".join(b"\x95" + struct.pack("<Q", len(body)) + body for body in bodies)


def holding(body: bytes) -> bytes:
    """A dict with something under `x`."""
    return framed(b"}\x94(\x8c\1x\x94" + body + b"u.")


def test_real_files_are_read_at_once(snapshot_file: Path) -> None:
    data = snapshot_file.read_bytes()
    if len(data) <= pickle_whole.MOST:
        assert value(data) == plain_unpickled(data)
        assert content(as_it_is(data)) == content(through_dicts(data))


@pytest.mark.parametrize("protocol", [4, 5])
def test_made_up_snapshots_are_read_at_once_where_they_are_plain(protocol: int) -> None:
    read = 0
    for seed in range(60):
        data = pickle.dumps(made_up(random.Random(seed)), protocol)
        found = value(data)
        read += found is not None
        assert found is None or found == plain_unpickled(data)
    assert read > 30


def repeating(stacks: int) -> bytes:
    """A file of 90 events of so many stacks, each time in a list of its own."""
    own = [[FRAMES[i % stacks % 20], FRAMES[i % stacks // 20], *FRAMES[5:]] for i in range(90)]
    events = timed([alloc(HEAP + 512 * i, 512, frames=frames) for i, frames in enumerate(own)])
    return pickle.dumps(snapshot([], [events]), 4)


def test_lists_that_come_again_are_one(abridged: bool) -> None:
    data = repeating(3)
    made = value(data)
    assert made == plain_unpickled(data)
    lists = len({id(event["frames"]) for event in made["device_traces"][0]})
    saved = len(data) - len(Abridged([data]).bodies[0])
    assert (lists < 8 and saved > 1000) if abridged else (lists == 90 and saved == 0)


def test_numbers_that_look_like_lists_stay_what_they_are() -> None:
    """A list of references, the beginnings of one, and one in two numbers, again and again."""
    stack = b"]\x94(" + b"h\1" * 8 + b"e"
    odd = (b"]\x94(\0\0\0\0\1", b"]\x94(h\1h\1\1", b"\1]\x94(\x8a\x8a\x94(")
    entries = [b"\x8c\2s%c\x94%b\x8c\2n%c\x94\x8a\x08%b" % (65 + i, stack, 65 + i, odd[i % 3]) for i in range(20)]
    data = holding(b"}\x94(" + b"".join(entries) + b"u")
    assert value(data) == plain_unpickled(data)
    assert len(value(data)["x"]) == 40


@pytest.mark.parametrize("abridged", [True], indirect=True)
def test_a_file_is_abridged_if_much_in_it_comes_again(abridged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert sample([repeating(3)[11:]])
    assert not sample([repeating(90)[11:]])
    assert not sample([])
    once = repeating(90)[11:]
    assert sample([once] * (pickle_abridged.LARGE // len(once) + 1))
    assert not sample([pickle_abridged.LARGE * b"N"])


def test_frames_that_end_anywhere_between_instructions() -> None:
    body = pickle.dumps(small(), 4)[11:]
    expected, read = plain_unpickled(framed(body)), 0
    for at in range(1, len(body), 3):
        data = framed(body[:at], body[at:])
        found = value(data)
        read += found is not None
        assert found is None or found == expected == pickle._loads(data)  # type: ignore[attr-defined]
    assert read > 50


BOMB = b"".join(b"J" + struct.pack("<i", 8191 * i) + b"N" for i in range(9))
SHIFTED = b"".join(b"h\1J" + struct.pack("<i", 8191 * i) for i in range(9))
"""A number is a key if this begins where a value should be."""
MANY_LONGS = b"".join(b"\x8a\x10" + (i * (2**61 - 1)).to_bytes(16, "little") + b"N" for i in range(9))


@pytest.mark.parametrize(
    "body",
    [
        b"cos\nsystem\n",
        b"\x8c\2os\x94\x8c\6system\x94\x93",
        b"\x8c\2os\x94Q",
        b"Pos\n",
        b"]\x94)R",
        b"]\x94N\x81",
        b"]\x94]\x94b",
        b"\x82\1",
        b"\x97",
        b"Nr\xff\xff\xff\x7f",
        b"]r\xff\xff\xff\x7f",
        b"]\x94q\xff",
        b"\x8a\xff" + b"\1" * 255,
        b"\x8b\4\0\0\0\1\0\0\0",
        b"X\xff\xff\xff\x7fabc\x94",
        b"\x8d\1\0\0\0\0\0\0\0a\x94",
        b"B\1\0\0\0a",
        b"\x96\4\0\0\0\0\0\0\0abcd\x94",
        b"]\x94(NNe2",
        b"]\x94(e",
        b"]\x94(h\1h\1ea0",
        b"}\x94(u",
        b"\x8f\x94",
        b"}\x94(" + BOMB + b"u",
        b"}\x94(" + MANY_LONGS + b"u",
        b"}\x94(h\1h\1" + BOMB + b"u",
        b"}\x94(h\1" + BOMB + b"Nu",
        b"}\x94(]\x94h\1" + BOMB + b"u",
        b"}\x94(h\1(u" + SHIFTED + b"h\1(uu",
        b"}\x94(h\1(e" + SHIFTED + b"h\1(eu",
        b"Nh\0J\1\0\0\0h\1s",
        b"\x8c\x19" + 25 * b"k" + b"0h\1",
        b"X\x19\0\0\0" + 25 * b"k" + b"0h\1",
        b"}\x94h\1NsK\1Ns",
        b"}\x94NNs",
        b"}\x94K\1Ns",
        b"}\x94(G\x3f\xf0\0\0\0\0\0\0Nu",
        b"}\x94(NNu",
        b"}\x94(K\1K\2\x86\x94Nu",
        b"}\x94(h\1K\x41K\2\x86\x94u",
        b"}\x94(h\1J\1\0\0\0K\2\x86\x94u",
        b"h\1\x85\x94h\2\x86\x94",
        b"h\1h\1\x87\x94",
        b"(h\1h\1h\1h\1t\x94",
        b"\x95" + bytes(8) + b"N",
    ],
)
def test_what_could_do_harm_is_left_to_the_machine(body: bytes) -> None:
    data = holding(body)
    assert not pickle_whole._plain([data[11:]])
    assert value(data) is None
    assert value(framed(b"]\x94(" + body + b"e.")) is None


@pytest.mark.parametrize("first", [b"h\1h\1a", b"h\1(h\1e", b"h\1(h\1h\1u", b"]\x94", b"]\x94h\1a"])
def test_a_number_that_could_be_a_key_is_never_reached(first: bytes) -> None:
    """What fills something that is no container, or has one as a key, is an error before the numbers come."""
    assert value(holding(b"}\x94(" + first + SHIFTED + b"h\1u")) is None
    watching = _Watching(b"\x80\4" + holding(b"}\x94(" + first + SHIFTED + b"h\1u")[11:])
    with pytest.raises((TypeError, AttributeError)):
        watching.load()
    assert watching.keys <= {str, list}


def test_other_files_are_left_to_the_machine() -> None:
    good = pickle.dumps(small(), 4)
    assert value(good) == small()
    for length in range(len(good)):
        assert value(good[:length]) is None
    assert value(good + b"N.") is None
    assert value(good.replace(b"\x8c\6frames", b"\x8c\7frames")) is None
    assert value(pickle.dumps(small(), 3)) is None
    assert value(b"\x80\2" + good[2:]) is None
    assert value(framed(b"]\x94", b"(h\0e.")) is not None
    assert value(b"\x80\4\x95" + struct.pack("<Q", 1 << 62) + good[11:]) is None


def test_many_keys_that_fall_into_one_slot_take_no_time() -> None:
    """Numbers that are alike modulo 2**61 - 1 have one hash: a dict of 20,000 of them takes half a minute."""
    keys = b"".join(b"\x8a\x0b" + (i * (2**61 - 1)).to_bytes(11, "little") + b"N" for i in range(20_000))
    start = time.process_time()
    assert value(holding(b"}\x94(" + keys + b"u")) is None
    assert time.process_time() - start < 1


def test_lists_that_seem_to_begin_in_references_take_no_time() -> None:
    """Each `]` here would begin a list that goes on to the end, if such numbers were looked at as references."""
    start = time.process_time()
    assert value(holding(b"N" + 40_000 * b"j]\x94(j")) is None
    assert value(holding(b"NX" + struct.pack("<I", 200_000) + 40_000 * b"j]\x94(j" + b"\x94N")) is None
    assert time.process_time() - start < 1


def test_what_is_not_plain_is_not_looked_at_for_each_frame() -> None:
    """It is an instruction that begins and ends where frames do, and so are all behind it."""
    start = time.process_time()
    assert value(framed(b"}\x94(\x8c\1x\x94N", *10_000 * [b"h\1\x94"], b"u.")) is None
    assert value(framed(b"}\x94(\x8c\1x\x94N", b"h\1\x94", *50_000 * [b""], b"u.")) is None
    assert time.process_time() - start < 1


def test_a_list_that_no_instruction_makes_stands_for_none() -> None:
    """A number ends like a list's beginning, and a real list is in what would be its reference; then it comes truly."""
    looks_like_one = b"]\x94(ju]\x94(h\1h\1e"
    data = holding(b"]\x94(}\x94(h\1J" + looks_like_one + looks_like_one + b"e")
    with pytest.raises(pickle.UnpicklingError, match="680811893"):
        plain_unpickled(data)
    assert value(data) is None


def test_long_texts_are_left_to_the_machine() -> None:
    """Equal ones would be compared byte by byte wherever one is a key: half a million times in the largest file."""
    for length in (4000, 5000):
        text = b"X" + struct.pack("<I", length) + length * b"k" + b"\x94"
        found = value(holding(b"N" + text + b"N" + text + b"N" + b"h\2Nh\3N"))
        assert found == (None if length == 5000 else {"x": None, length * "k": None})


def test_what_the_machine_reads_otherwise() -> None:
    """A pair as a name, and more lists inside lists than it lets through: no harm, and nothing looks there."""
    pair = framed(b"}\x94(\x8c\x08segments\x94]\x94\x8c\1p\x94K\1K\2\x86\x94h\4Nu.")
    nested = framed(b"}\x94(\x8c\x08segments\x94]\x94\x8c\1p\x94" + 300 * b"]\x94(" + b"h\0" + 300 * b"e" + b"u.")
    assert value(pair) == {"segments": [], "p": (1, 2), (1, 2): None}
    for data in (pair, nested):
        assert as_it_is(data).meta.kind == "snapshot"
        with pytest.raises(FormatError):
            one_by_one(data)


def test_where_patterns_prove_nothing_the_machine_reads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(small(), 4)
    at_once = content(as_it_is(data))
    monkeypatch.setattr(pickle_whole, "_SOUND", False)
    assert value(data) is None
    assert content(as_it_is(data)) == at_once


def test_what_the_machine_finds_too_much_is_not_built() -> None:
    """The memo counts as well: three megabytes of lists, or of records of one name, that are nothing but noted."""
    for many in (1_500_000 * b"]\x94", 500_000 * b"}\x94h\1Ns"):
        data = framed(b"}\x94(\x8c\x08segments\x94]\x94(" + many + b"eu.")
        assert len(data) <= pickle_whole.MOST
        assert value(data) is None


def test_what_would_be_built_is_bounded() -> None:
    assert value(framed(b"]\x94(" + 1000 * b"}\x94" + b"e.")) == [{}] * 1000
    assert value(framed(b"]\x94(" + 1_000_000 * b"}\x94" + b"e.")) is None


def test_a_list_that_is_appended_to_is_not_one_with_its_like(abridged: bool) -> None:
    stack = b"]\x94(" + b"h\1" * 8 + b"e"
    for more in (b"h\1a", b"(h\1h\1e"):
        data = framed(b"}\x94(\x8c\1x\x94" + stack + more + b"\x8c\1y\x94" + stack + b"u.")
        assert len(plain_unpickled(data)["x"]) > len(plain_unpickled(data)["y"]) == 8
        assert value(data) == (None if abridged else plain_unpickled(data))
    data = framed(b"}\x94(\x8c\1x\x94" + stack + b"\x8c\1y\x94" + stack + b"u.")
    assert value(data) == {"x": ["x"] * 8, "y": ["x"] * 8}


@pytest.mark.parametrize("ask", [b"\0", b"\1", b"\0\0\0\0Q]\x94(h\1ea0\x8b\4\0\0\0\1"])
def test_only_what_is_abridged_asks(ask: bytes) -> None:
    """The file has instructions as they are put in place of a list."""
    data = holding(b"]\x94(\x8b\4\0\0\0" + ask + b"\0\0\0Q\x94h\1e")
    assert value(data) is None


def test_nothing_of_it_stays_until_cycles_are_looked_for() -> None:
    data = repeating(3)
    gc.collect()
    gc.disable()
    try:
        assert value(data) is not None
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "hiding",
    [b"\x8a\7%s\0", b"X\6\0\0\0%s\x94", b"\x8c\6%s\x94", b"J%s", b"G%s\0\0"],
    ids=["long", "text", "short", "int", "float"],
)
def test_what_only_looks_like_a_list_stays_what_it_is(hiding: bytes) -> None:
    """Bytes of a list of references inside of a number or a text."""
    stack = b"]\x94(h\1e"
    for inside in (stack, b"]\x94(h", b"a" + stack[:-1]):
        body = b"\x8c\1a\x94" + hiding % inside
        data = framed(b"}\x94(\x8c\1x\x94N" + body + b"\x8c\1y\x94" + stack + b"\x8c\1z\x94" + stack + b"u.")
        right_or_none(data)


class _Watching(pickle._Unpickler):  # type: ignore[name-defined, misc]
    """Notes what is used as a key, also if the pickle turns out to be wrong later."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.keys: set[type] = set()

    def _set(self, items: list[Any]) -> None:
        for key, entry in zip(items[::2], items[1::2], strict=True):
            self.keys.add(type(key))
            self.stack[-1][key] = entry

    def load_setitems(self) -> None:
        self._set(self.pop_mark())

    def load_setitem(self) -> None:
        entry = self.stack.pop()
        self._set([self.stack.pop(), entry])

    dispatch = {**pickle._Unpickler.dispatch, ord("u"): load_setitems, ord("s"): load_setitem}  # type: ignore[attr-defined]


KEYS = [b"h\0", b"h\1", b"h\2", b"j\3\0\0\0", b"\x8c\1k\x94", b"\x8c\x16" + b"k" * 22 + b"\x94", b"X\1\0\0\0k\x94"]
ATOMS = [b"K\5", b"M\5\1", b"J\1\1\1\1", b"\x8a\1\5", b"N", b"\x88", b"K\1K\2\x86\x94", b"G" + bytes(8)]
CONTAINERS = [b"]\x94", b"}\x94", b"(", b"e", b"u", b"a", b"]\x94(h\0h\1e", b"]\x94(K\1e", b"}\x94(h\0K\1h\0K\2h\1K\3u",
              b"}\x94(", b"}\x94(", b"]\x94(", b"}\x94h\0K\1s"]  # fmt: skip
ANY = [*KEYS, *ATOMS, *CONTAINERS, b"s", b"K\1K\x41\x86\x94", b"0", b"\x94", b"h\1K\3s"]


def program(rng: random.Random) -> list[bytes]:
    """Instructions, most of them in an order that is let through."""
    out = [b"\x8c\1a\x94", b"}\x94", b"]\x94"]
    for _ in range(rng.randint(0, 25)):
        if rng.random() < 0.01:
            out.append(rng.choice(ANY))
        elif rng.random() < 0.5:
            out += [rng.choice(KEYS), rng.choice(rng.choice([ATOMS, KEYS, CONTAINERS]))]
        else:
            out.append(rng.choice(CONTAINERS))
    return out


def test_numbers_are_never_keys() -> None:
    """Of any program that is let through, right or wrong: so none can make them fall into one slot."""
    rng, through, right, used = random.Random(5), 0, 0, set()
    for _ in range(20_000):
        parts = program(rng)
        cut = rng.randint(0, len(parts))
        bodies = [b"".join(parts[:cut]), b"".join([*parts[cut:], b"."])]
        if not pickle_whole._plain(bodies):
            continue
        through += 1
        watching = _Watching(b"\x80\4" + b"".join(bodies))
        with contextlib.suppress(Exception):
            watching.load()
        used |= watching.keys
        right += right_or_none(framed(*bodies))
    assert used == {str, tuple, list, dict}
    assert through > 5000 and right > 200


def right_or_none(data: bytes) -> bool:
    """Whether the value is that of Python's unpickler; if that gives up, there is none."""
    found = value(data)
    try:
        expected = plain_unpickled(data)
    except Exception:
        assert found is None
        return False
    assert found is None or repr(found) == repr(expected)
    return found is not None


def test_reading_at_once_and_one_by_one_are_the_same() -> None:
    for seed in range(40):
        data = pickle.dumps(made_up(random.Random(seed)), 4)
        assert outcome(lambda: as_it_is(data)) == outcome(lambda: one_by_one(data))  # noqa: B023
