"""Damaged and hostile pickles: a sentence, or exactly what Python's unpickler reads; in bounded time and memory.

`make fuzz` runs many more cases than `make test`; MEMSTRATA_FUZZ is their number, MEMSTRATA_SEED the first seed.
"""

from __future__ import annotations

import functools
import io
import os
import pickle
import pickletools
import random
import resource
import struct
import time
from collections import Counter
from pathlib import Path
from typing import Any

from memstrata.capture.format.problems import FormatError

from . import made_snapshots
from .comparing import content, recording_of, through_columns
from .snapshots import plain_unpickled, small

CASES = int(os.environ.get("MEMSTRATA_FUZZ", "2000"))
SEED = int(os.environ.get("MEMSTRATA_SEED", "0"))
SECONDS = 5.0
"""The longest a case of some kilobytes may take, on a machine that does other things too."""
BYTES = 1 << 30
"""How much the memory of the whole process may grow."""
_OPCODES = [op.code.encode("latin-1") for op in pickletools.opcodes]
REAL = Path(__file__).resolve().parents[3] / "shared" / "snapshots"


@functools.cache
def originals() -> list[bytes]:
    """Whole files to damage: made-up ones in every way of writing, and the small real ones where they are at hand."""
    made = [
        made_snapshots.pickled(rng, made_snapshots.snapshot(rng, rng.choice([8, 40, 90])))
        for rng in map(random.Random, range(80))
    ]
    made += [pickle.dumps(small(), protocol) for protocol in range(6)]
    real = sorted(REAL.glob("*.pickle"), key=lambda path: path.stat().st_size)[:4] if REAL.is_dir() else []
    return made + [path.read_bytes() for path in real]


def case(rng: random.Random) -> bytes:
    """One damaged or hostile file."""
    data = bytearray(rng.choice(originals()))
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        rng.choice(DAMAGES)(rng, data)
    return bytes(data)


def flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice([1, 1, 3, 20])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    data[at : at + rng.randint(0, 9)] = rng.randbytes(rng.randint(0, 9))


def cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randint(1, len(data)) :]


def instruction(rng: random.Random, data: bytearray) -> None:
    argument = rng.choice([b"", b"\0", b"\x05", rng.randbytes(4), b"os\nsystem\n", b"17\n"])
    at = rng.randrange(len(data))
    data[at:at] = rng.choice(_OPCODES) + argument


def move(rng: random.Random, data: bytearray) -> None:
    at, size = rng.randrange(len(data)), rng.randint(1, 400)
    part = data[at : at + size]
    to = rng.randrange(len(data))
    data[to:to] = part * rng.choice([1, 1, 30])


def graft(rng: random.Random, data: bytearray) -> None:
    other = rng.choice(originals())
    at = rng.randrange(len(other))
    to = rng.randrange(len(data))
    data[to : to + rng.randint(0, 200)] = other[at : at + rng.randint(1, 2000)]


def nest(rng: random.Random, data: bytearray) -> None:
    at, n = rng.randrange(len(data)), rng.choice([50, 3000, 30_000])
    data[at:at] = rng.choice([b"]" * n + b"a" * n, b"(" * n, b"}" * n, b"(" * n + b"t" * n, b")" + b"\x85" * n + b"N",
                              b"]" * n, b"2" * n])  # fmt: skip


def memo_bomb(rng: random.Random, data: bytearray) -> None:
    at, n = rng.randrange(len(data)), rng.choice([100, 5000])
    numbers = (rng.randrange(1 << rng.choice([3, 8, 16, 31])) for _ in range(n))
    bomb = b"N" + b"".join(b"r" + struct.pack("<I", number) for number in numbers) + b"0"
    data[at:at] = rng.choice([bomb, b"]" + b"\x94" * n, b"]q\1" + b"(" + b"h\1" * n + b"e"])


def claim(rng: random.Random, data: bytearray) -> None:
    op, form = rng.choice([(b"X", "<I"), (b"\x8d", "<Q"), (b"\x8b", "<I"), (b"\x8a", "<B"), (b"T", "<I"),
                           (b"\x95", "<Q"), (b"r", "<I"), (b"j", "<I"), (b"\x8c", "<B")])  # fmt: skip
    size = struct.calcsize(form)
    number = rng.choice([0, 1, len(data), (1 << 8 * size) - 1, rng.getrandbits(8 * size)]) & ((1 << 8 * size) - 1)
    at = rng.randrange(len(data))
    data[at:at] = op + struct.pack(form, number)


DAMAGES = [flip, flip, flip, overwrite, cut, instruction, instruction, move, graft, nest, memo_bomb, claim]


def plain(data: bytes) -> Any:
    """What Python's unpickler makes of the file, or None if it cannot or the result is no snapshot that can be read."""
    try:
        return content(recording_of(plain_unpickled(data), len(data)))
    except Exception:
        return None


class _Twin(pickle._Unpickler):  # type: ignore[name-defined, misc]
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError


def has_frame_in_frame(data: bytes) -> bool:
    """CPython's C unpickler loses its place in a file at a frame inside a frame; its twin in Python refuses those."""
    try:
        _Twin(io.BytesIO(data)).load()
    except pickle.UnpicklingError as error:
        return "frame" in str(error)
    return False


def test_damage_gives_a_sentence_or_what_the_unpickler_reads() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes: Counter[str] = Counter()
    for seed in range(SEED, SEED + CASES):
        rng = random.Random(seed)
        data = case(rng)
        start = time.process_time()
        try:
            got = content(through_columns(data, window=rng.choice([200, 3000, 1 << 20])))
        except FormatError as error:
            text = str(error)
            assert text.startswith("snap.pickle ") and text.endswith(".") and "\n" not in text, (seed, text)
            outcomes["sentence"] += 1
            continue
        finally:
            assert time.process_time() - start < SECONDS, seed
        outcomes["read"] += 1
        expected = plain(data)
        outcomes["only here"] += expected is None
        if expected is not None and got != expected:
            assert has_frame_in_frame(data), seed
            outcomes["disputed"] += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(f"{dict(outcomes)}, memory grew by {grown >> 20} MiB")
    assert grown < BYTES
    assert outcomes["sentence"] > CASES // 4
    assert outcomes["read"] > CASES // 100


def test_a_pickle_that_would_run_code_never_does(tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    call = b"cos\nsystem\n(X" + struct.pack("<I", len(str(proof)) + 6) + f"touch {proof}".encode() + b"tR"
    for seed in range(300):
        rng = random.Random(seed)
        data = bytearray(rng.choice(originals()))
        at = rng.randrange(2, len(data))
        data[at:at] = call
        try:
            through_columns(bytes(data), window=rng.choice([200, 1 << 20]))
        except FormatError:
            pass
        assert not proof.exists(), seed
