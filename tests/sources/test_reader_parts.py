"""Parts of the reader by themselves: lists known by their words, places of entries, long numbers, small files."""

from __future__ import annotations

import io
import pickle
import pickletools
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstrata.capture.format.problems import FormatError
from memstrata.viewer.sources import open_file, pickle_bodies, torch_snapshot
from memstrata.viewer.sources.pickle_bodies import Bodies
from memstrata.viewer.sources.pickle_machine import Machine
from memstrata.viewer.sources.pickle_stream import SLACK, PickleStream
from memstrata.viewer.sources.pickle_window import Scratch
from memstrata.viewer.sources.progress import Progress

from . import made_snapshots
from .comparing import content, one_by_one, through_columns, through_dicts
from .snapshots import small, written


def body(numbers: list[int]) -> bytes:
    """A list of references, as Python writes it."""
    row = [b"h" + bytes([n]) if n < 256 else b"j" + struct.pack("<I", n) for n in numbers]
    return b"(" + b"".join(row) + b"e" if len(row) != 1 else row[0] + b"a"


def looked_up(bodies: Bodies, parts: list[bytes]) -> list[int]:
    """The numbers of these lists, which stand in one window."""
    data = b"".join(parts)
    ends = np.cumsum([len(part) for part in parts])
    begins = ends - [len(part) for part in parts]
    return bodies.numbers(data + bytes(SLACK), begins, ends).tolist()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_lists_have_one_number_each_however_often_and_long(seed: int) -> None:
    rng = random.Random(seed)
    pool = [
        [rng.choice([3, 90, 300, 70_000]) for _ in range(rng.choice([0, 1, 2, 9, 50, 60, 400, 900]))]
        for _ in "12345678"
    ]
    bodies = Bodies()
    for _ in range(3):
        chosen = rng.choices(pool, k=40)
        numbers = looked_up(bodies, [body(row) for row in chosen])
        assert [bodies.references[n] for n in numbers] == chosen
    assert len(bodies.references) <= len(pool)


def test_lists_that_differ_in_one_byte_are_told_apart() -> None:
    first = [1 + i % 200 for i in range(60)]
    parts = [body(first)]
    for i in range(60):
        parts.append(body([*first[:i], 250, *first[i + 1 :]]))
    bodies = Bodies()
    once = looked_up(bodies, parts)
    assert once == list(range(61))
    assert looked_up(bodies, parts[::-1]) == once[::-1]
    assert looked_up(bodies, [parts[7]] * 5) == [once[7]] * 5


def test_lists_of_one_print_are_compared_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        pickle_bodies._Kept, "prints", lambda self, data, begins, lengths: np.ones(len(begins), np.uint64)
    )
    parts = [body([7] * n) for n in (20, 21, 28, 29)]
    parts += [parts[0][:-1] + b"h\x07e", body([7] * 19 + [8])]
    for known in parts:
        bodies = Bodies()
        looked_up(bodies, [known, known])
        numbers = looked_up(bodies, parts)
        assert [bodies.references[n] for n in numbers] == [
            [7] * 20,
            [7] * 21,
            [7] * 28,
            [7] * 29,
            [7] * 21,
            [7] * 19 + [8],
        ]
        longer = known + b"N"
        assert looked_up(bodies, [longer, known]) == [-1, bodies[known]]


def test_what_only_looks_like_a_known_list_is_none() -> None:
    good = body([5] * 40)
    bodies = Bodies()
    assert looked_up(bodies, [good, good]) == [0, 0]
    for i in range(1, len(good) - 1, 2):
        assert looked_up(bodies, [good[:i] + b"N" + good[i + 1 :], good]) == [-1, 0]


def test_only_so_many_lists_are_kept_as_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_bodies, "_KEPT", 5)
    parts = [body([i, i + 1, i + 2, i + 3]) for i in range(30)]
    bodies = Bodies()
    for _ in range(3):
        assert looked_up(bodies, parts * 2) == list(range(30)) * 2
    assert [len(kept._row_of) for kept in bodies._kept] == [5, 0]


@pytest.mark.parametrize("n", [1, 7, 8, 9, 500, (1 << 18) - 1, (1 << 18) + 3, 600_000])
def test_places_of_pairs_are_found_across_parts(n: int) -> None:
    rng = np.random.default_rng(n)
    data = bytes(rng.choice(np.frombuffer(b"}\x94q.", np.uint8), n + 1))
    at = min(3, n - 1)
    found = Scratch().pairs(data, at, n, [0x94, 0x71])
    for second, places in zip(b"\x94q", found):
        assert places.tolist() == [i for i in range(at, n) if data[i] == 0x7D and data[i + 1] == second]


@pytest.mark.parametrize("window", [64, 200, 300])
def test_long_numbers_at_the_end_of_a_window_are_whole(window: int) -> None:
    for shift in range(60):
        value = ["x" * shift, *((1 << 1500) + i for i in range(6)), *(-(1 << 70) - i for i in range(6))]
        data = pickle.dumps(value, 4)
        assert Machine(PickleStream(io.BytesIO(data), len(data), Progress(), window), len(data)).run() == value


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), window=st.sampled_from([64, 700, 1 << 20]))
def test_small_files_read_entry_by_entry_are_the_same(seed: int, window: int) -> None:
    rng = random.Random(seed)
    data = made_snapshots.pickled(rng, made_snapshots.snapshot(rng, 30))

    def outcome(read: Any) -> Any:
        try:
            return content(read())
        except ValueError as error:
            return str(error).removeprefix("snap.pickle cannot be read as a memory snapshot: ").rstrip(".")

    assert outcome(lambda: one_by_one(data, window)) == outcome(lambda: through_dicts(data))


def test_real_small_files_read_the_same_either_way(snapshots: Path) -> None:
    found = [path for path in snapshots.glob("*.pickle") if path.stat().st_size < 2 * torch_snapshot.MANY]
    assert found
    for path in found:
        data = path.read_bytes()
        assert content(one_by_one(data)) == content(through_columns(data)) == content(open_file(path))


REFUSED = {
    "GLOBAL": b"cos\nsystem\n", "INST": b"(ios\nsystem\n", "STACK_GLOBAL": b"\x8c\x02os\x8c\x06system\x93",
    "REDUCE": b"N)R", "BUILD": b"NNb", "OBJ": b"(No", "NEWOBJ": b"N)\x81", "NEWOBJ_EX": b"N)}\x92",
    "EXT1": b"\x82\x01", "EXT2": b"\x83\x01\0", "EXT4": b"\x84\x01\0\0\0", "PERSID": b"Pstorage\n",
    "BINPERSID": b"NQ", "BINBYTES": b"B\x01\0\0\0x", "SHORT_BINBYTES": b"C\x01x",
    "BINBYTES8": b"\x8e\x01" + bytes(7) + b"x", "BYTEARRAY8": b"\x96\x01" + bytes(7) + b"x",
    "EMPTY_SET": b"\x8f", "FROZENSET": b"(\x91", "ADDITEMS": b"](\x90",
    "NEXT_BUFFER": b"\x97", "READONLY_BUFFER": b"N\x98",
}  # fmt: skip
BOMBS = {
    "memo far out": b"Nr\xff\xff\xff\x7f0", "text memo": b"Np4294967290\n0", "no memo": b"j\xff\xff\xff\x7f0",
    "nested": b"](" * 300, "text": b"X\xf0\xff\xff\xff", "long text": b"\x8d" + b"\xff" * 8,
    "number": b"\x8b\xff\xff\xff\x7f", "frame": b"\x95" + b"\xff" * 7 + b"\x00",
    "numbers as names": b"}(" + b"".join(b"J" + struct.pack("<i", i) + b"N" for i in range(5000)) + b"u0",
}  # fmt: skip


@pytest.mark.parametrize("part", [*REFUSED, *BOMBS])
@pytest.mark.parametrize("protocol", [2, 4])
def test_hostile_parts_give_one_sentence_either_way(tmp_path: Path, part: str, protocol: int) -> None:
    data = pickle.dumps(small(), protocol)
    inserted = REFUSED.get(part) or BOMBS[part]
    starts = [at for op, _, at in pickletools.genops(data) if op.name == "EMPTY_LIST"]
    for at in (starts[0], starts[len(starts) // 2], starts[-1]):
        hostile = data[:at] + inserted + data[at:]
        path = written(tmp_path, hostile if protocol == 2 else unframed(data, at, inserted))
        said = set()
        for read in (one_by_one, through_columns):
            with pytest.raises(FormatError) as caught:
                read(path.read_bytes())
            said.add(str(caught.value))
        with pytest.raises(FormatError) as caught:
            open_file(path)
        assert said == {str(caught.value)}
        assert "Error" not in str(caught.value) and str(caught.value).endswith(".")
        if part in REFUSED:
            assert f"({part} at byte " in str(caught.value)


def unframed(data: bytes, at: int, inserted: bytes) -> bytes:
    """The pickle of one frame with something put in, and no frame any more."""
    assert data[2] == 0x95
    return data[:2] + data[11:at] + inserted + data[at:]
