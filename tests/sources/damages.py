"""Damaged and hostile pickles, drawn by hypothesis as a few numbers each: what it shrinks and prints stays small."""

from __future__ import annotations

import functools
import pickle
import pickletools
import random
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from . import made_snapshots
from .comparing import as_it_is, one_by_one, through_columns
from .snapshots import small

_OPCODES = [op.code.encode("latin-1") for op in pickletools.opcodes]
_REAL = Path(__file__).resolve().parents[3] / "shared" / "snapshots"
_NESTED: list[Callable[[int], bytes]] = [
    lambda n: b"]" * n + b"a" * n, lambda n: b"(" * n, lambda n: b"}" * n, lambda n: b"(" * n + b"t" * n,
    lambda n: b")" + b"\x85" * n + b"N", lambda n: b"]" * n, lambda n: b"2" * n,
]  # fmt: skip
_SIZED = [(b"X", "<I"), (b"\x8d", "<Q"), (b"\x8b", "<I"), (b"\x8a", "<B"), (b"T", "<I"), (b"\x95", "<Q"), (b"r", "<I"),
          (b"j", "<I"), (b"\x8c", "<B")]  # fmt: skip
PLACE = st.integers(0, (1 << 24) - 1)
"""A place in a file of any length, as a fraction of it in units of 2**-24."""


@functools.cache
def originals() -> list[bytes]:
    """Whole files to damage: made-up ones in every way of writing, and the small real ones where they are at hand."""
    made = [
        made_snapshots.pickled(rng, made_snapshots.snapshot(rng, rng.choice([8, 40, 90])))
        for rng in map(random.Random, range(80))
    ]
    made += [pickle.dumps(small(), protocol) for protocol in range(6)]
    real = sorted(_REAL.glob("*.pickle"), key=lambda path: path.stat().st_size)[:4] if _REAL.is_dir() else []
    return made + [path.read_bytes() for path in real]


def original(which: int) -> bytes:
    """One of them, whatever the number."""
    return originals()[which % len(originals())]


def index(data: bytes | bytearray, place: int) -> int:
    """The byte at a place."""
    return place * len(data) >> 24


def flip(data: bytearray, place: int, bit: int, times: int, step: int) -> None:
    """Bits turn, so many, so many bytes and bits apart."""
    at = index(data, place)
    for i in range(times):
        data[(at + i * step) % len(data)] ^= 1 << (bit + i * step) % 8


def overwrite(data: bytearray, place: int, gone: int, new: bytes) -> None:
    """Some bytes become others."""
    at = index(data, place)
    data[at : at + gone] = new


def cut(data: bytearray, place: int) -> None:
    """The file ends early."""
    del data[max(1, index(data, place)) :]


def instruction(data: bytearray, place: int, op: bytes, argument: bytes) -> None:
    """One more instruction."""
    at = index(data, place)
    data[at:at] = op + argument


def move(data: bytearray, place: int, size: int, to: int, times: int) -> None:
    """A part stands elsewhere too."""
    at, behind = index(data, place), index(data, to)
    data[behind:behind] = data[at : at + size] * times


def graft(data: bytearray, which: int, place: int, size: int, to: int, gone: int) -> None:
    """A part of another file takes the place of some bytes."""
    other, behind = original(which), index(data, to)
    at = index(other, place)
    data[behind : behind + gone] = other[at : at + size]


def nest(data: bytearray, place: int, shape: int, depth: int) -> None:
    """Containers in containers, or marks, without end."""
    at = index(data, place)
    data[at:at] = _NESTED[shape](depth)


def memo_bomb(data: bytearray, place: int, how: int, bits: int, factor: int, times: int) -> None:
    """Numbers of the memo that are far apart, used up, or used again and again."""
    at = index(data, place)
    numbers = (i * factor & (1 << bits) - 1 for i in range(1, times + 1))
    bombs = [b"N" + b"".join(b"r" + struct.pack("<I", number) for number in numbers) + b"0", b"]" + b"\x94" * times,
             b"]q\1" + b"(" + b"h\1" * times + b"e"]  # fmt: skip
    data[at:at] = bombs[how]


def key_bomb(data: bytearray, place: int, how: int, factor: int, times: int, kind: int) -> None:
    """Keys that all fall into one slot of a dict, or take ever longer to look up, in their place or one beside it."""
    numbers = [(i * factor * ((1 << 61) - 1)).to_bytes(12, "little") for i in range(times)]
    keys = [b"".join(b"\x8a\x0c" + number + b"N" for number in numbers),
            b"".join(b"J" + number[:4] + b"h\1" for number in numbers),
            b"".join(b"h\1\x8a\x08" + number[:8] for number in numbers),
            b")\x94" + b"".join(b"h\1h\1\x86\x94" for _ in numbers[:25]) + b"N"]  # fmt: skip
    opened, closed = [(b"}\x94(", b"u"), (b"}\x94(h\1(u", b"h\1(uu"), (b"}\x94(", b"h\1u"), (b"(", b"d")][kind]
    at = index(data, place)
    data[at:at] = opened + keys[how] + closed


def framed(data: bytearray, cuts: list[int]) -> None:
    """The same in one frame or in several, as long as they are; what is damaged before keeps to the instructions."""
    body = bytes(data[11:]) if data[2:3] == b"\x95" else bytes(data[2:])
    places = sorted({0, len(body), *(index(body, cut) for cut in cuts)})
    parts = [body[a:b] for a, b in pairwise(places)]
    data[:] = b"\x80\4" + b"".join(b"\x95" + struct.pack("<Q", len(part)) + part for part in parts)


def claim(data: bytearray, place: int, sized: tuple[bytes, str], number: int | None) -> None:
    """A length or a number that nothing stands behind; without one, the length of the file."""
    op, form = sized
    at, most = index(data, place), (1 << 8 * struct.calcsize(form)) - 1
    data[at:at] = op + struct.pack(form, (len(data) if number is None else number) & most)


_OPERANDS = [b"", b"\0", b"\x05", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\x2c\x01\0\0", b"os\nsystem\n", b"17\n"]
_NUMBERS = [0, 1, None, 40, 300, 70_000, (1 << 31) - 1, 1 << 32, (1 << 62) + 1, (1 << 64) - 1]
_ARGUMENTS: dict[Callable[..., None], st.SearchStrategy[tuple[Any, ...]]] = {
    flip: st.tuples(PLACE, st.integers(0, 7), st.sampled_from([1, 1, 3, 20]), st.integers(1, 500)),
    overwrite: st.tuples(PLACE, st.integers(0, 9), st.binary(max_size=9)),
    cut: st.tuples(PLACE),
    instruction: st.tuples(PLACE, st.sampled_from(_OPCODES), st.sampled_from(_OPERANDS)),
    move: st.tuples(PLACE, st.integers(1, 400), PLACE, st.sampled_from([1, 1, 30])),
    graft: st.tuples(st.integers(0, 89), PLACE, st.integers(1, 2000), PLACE, st.integers(0, 200)),
    nest: st.tuples(PLACE, st.integers(0, len(_NESTED) - 1), st.sampled_from([50, 3000, 30_000])),
    memo_bomb: st.tuples(PLACE, st.integers(0, 2), st.sampled_from([3, 8, 16, 31]), st.integers(1, (1 << 31) - 1),
                         st.sampled_from([100, 5000])),
    key_bomb: st.tuples(PLACE, st.integers(0, 3), st.integers(1, 1 << 20), st.sampled_from([3, 200, 2000]),
                        st.integers(0, 3)),
    claim: st.tuples(PLACE, st.sampled_from(_SIZED), st.sampled_from(_NUMBERS)),
}  # fmt: skip
KINDS = list(_ARGUMENTS)
_OFTEN = st.sampled_from([flip, flip, *KINDS, instruction])
_HOW_MANY = st.sampled_from([1, 1, 1, 2, 5])
WHICH = st.integers(0, 89)
_READS = (through_columns, through_columns, one_by_one, as_it_is, as_it_is)
WAYS = st.sampled_from([(read, size) for read in _READS for size in (200, 3000, 1 << 20)])
"""(how a file is read, and in windows of how many bytes)."""


class Case(NamedTuple):
    """A file to damage, what is done to it in order, and how it is read."""

    which: int
    damages: list[tuple[Callable[..., None], tuple[Any, ...]]]
    read: Callable[[bytes, int], Any]
    window: int
    cuts: list[int] | None = None
    """Where frames end; as the damage leaves them, if there are none."""

    def data(self) -> bytes:
        """The damaged file."""
        data = bytearray(original(self.which))
        for damage, arguments in self.damages:
            if data:
                damage(data, *arguments)
        if data and self.cuts is not None:
            framed(data, self.cuts)
        return bytes(data)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any case, most with one damage."""
    read, window = draw(WAYS)
    kinds = [draw(_OFTEN) for _ in range(draw(_HOW_MANY))]
    cuts = draw(st.none() | st.lists(PLACE, max_size=2))
    return Case(draw(WHICH), [(kind, draw(_ARGUMENTS[kind])) for kind in kinds], read, window, cuts)
