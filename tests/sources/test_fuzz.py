"""Damaged and hostile pickles: a sentence, or exactly what Python's unpickler reads; in bounded time and memory.

`make fuzz` runs many more cases than `make test`. MEMSTRATA_FUZZ is their number; MEMSTRATA_SEED the first seed: each
part of the cases has its own, so that the same cases come again.
"""

from __future__ import annotations

import functools
import os
import resource
import struct
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from memstrata.capture.format.problems import FormatError

from .comparing import content, recording_of
from .damages import KINDS, PLACE, WAYS, WHICH, Case, cases, index, original
from .snapshots import plain_unpickled

CASES = int(os.environ.get("MEMSTRATA_FUZZ", "2000"))
SEED = int(os.environ.get("MEMSTRATA_SEED", "0"))
PARTS = max(4, CASES // 2500)
SECONDS = 5.0
"""The longest a case of some kilobytes may take, on a machine that does other things too."""
BYTES = 1 << 30
"""How much the memory of the whole process may grow in all parts together."""


def most_memory() -> int:
    """The most bytes this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


before = functools.cache(most_memory)


def drawn(
    part: int, examples: int, **of: st.SearchStrategy[Any]
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Runs a function for so many examples, the same ones each time."""
    how = settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    return lambda check: seed(SEED + part)(how(given(**of)(check)))


@pytest.mark.parametrize("part", range(PARTS))
def test_damage_gives_a_sentence_or_what_the_unpickler_reads(part: int) -> None:
    before()
    outcomes: Counter[Any] = Counter()

    @drawn(part, CASES // PARTS, case=cases())
    def check(case: Case) -> None:
        data, start = case.data(), time.process_time()
        outcomes.update(kind for kind, _ in case.damages)
        try:
            got = content(case.read(data, case.window))
        except FormatError as error:
            text = str(error)
            assert text.startswith("snap.pickle ") and text.endswith(".") and "\n" not in text
            outcomes["sentence"] += 1
        else:
            assert got == content(recording_of(plain_unpickled(data), len(data)))
            outcomes["read"] += 1
        finally:
            assert time.process_time() - start < SECONDS

    check()
    grown, done = most_memory() - before(), outcomes["sentence"] + outcomes["read"]
    print(f"{done:,} cases, {outcomes['read']} of them read; memory grew by {grown >> 20} MiB")
    assert grown < BYTES
    assert done >= CASES // PARTS
    assert outcomes["sentence"] > done // 4
    assert outcomes["read"] > done // 100
    assert all(outcomes[kind] > done // 200 for kind in KINDS)


def test_a_pickle_that_would_run_code_never_does(tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    call = b"cos\nsystem\n(X" + struct.pack("<I", len(str(proof)) + 6) + f"touch {proof}".encode() + b"tR"

    @drawn(0, 300, which=WHICH, place=PLACE, way=WAYS)
    def check(which: int, place: int, way: tuple[Callable[[bytes, int], Any], int]) -> None:
        data = bytearray(original(which))
        at = max(2, index(data, place))
        data[at:at] = call
        try:
            way[0](bytes(data), way[1])
        except FormatError:
            pass
        assert not proof.exists()

    check()
