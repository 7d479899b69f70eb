"""How fast the allocator is replayed, in events per second of CPU time.

Each real trace at hand is played, and a sample's step again and again.

A trace has three events for an allocation (made, free requested, free completed); the replay acts on two of them.
Both counts are printed. A replay includes everything from the columns of operations to the columns of addresses.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from memstrata.viewer.analysis.allocator.config import STOCK, Config, parse
from memstrata.viewer.analysis.allocator.fast import FastAllocator
from memstrata.viewer.analysis.allocator.memory import RecordedMemory, SimulatedMemory
from memstrata.viewer.analysis.allocator.recorded import Recorded, recorded
from memstrata.viewer.analysis.allocator.reference import ReferenceAllocator
from memstrata.viewer.analysis.allocator.sequence import Op, Sequence, empty_state, sequence
from memstrata.viewer.arguments import script_parser, whole_number
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 5
SHORTEST = 300
"""Traces with fewer events say nothing about speed."""


def cpu_seconds(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def line(name: str, seconds: float, operations: int, events: int, reference: float | None = None) -> str:
    ratio = "" if reference is None else f"   plain model {reference / seconds:4.1f} x slower"
    return (
        f"{name:50} {events:9,} events {seconds * 1e3:8.1f} ms   {events / seconds / 1e6:5.2f} M events/s"
        f"   {operations / seconds / 1e6:5.2f} M operations/s{ratio}"
    )


def traces() -> None:
    """Each real trace, with the recorded answers of cudaMalloc and every address compared."""
    for path in sorted((ROOT.parent / "shared" / "snapshots").glob("torch*.pickle")):
        recording = open_file(path)
        for row in range(len(recording.meta.devices)):
            run = Run(recording, row)
            if run.n_events < SHORTEST:
                continue
            known = recorded(run)
            fast, plain = cpu_seconds(lambda k=known: play(k)), cpu_seconds(lambda k=known: play_plain(k), 2)
            print(line(f"{path.stem} {row}", fast, len(known.sequence), run.n_events, plain), flush=True)


def play(known: Recorded) -> object:
    memory = RecordedMemory(known.moves)
    return FastAllocator(known.sequence, known.config, memory, known.state, want=known.want).run()


def play_plain(known: Recorded) -> object:
    return ReferenceAllocator(known.sequence, known.config, RecordedMemory(known.moves), known.state).run()


def repeated(run: Run, events: int) -> Sequence:
    """The step of a recording over and over, everything freed at its end."""
    one = recorded(run).sequence
    made, freed = one.id[one.kind == Op.alloc], one.id[one.kind == Op.free]
    left = np.setdiff1d(made, freed)
    kept = np.isin(one.id, made)
    kind = np.concatenate([one.kind[kept], np.full(len(left), Op.free)])
    number = np.searchsorted(np.sort(made), np.concatenate([one.id[kept], left]))
    size = np.concatenate([one.bytes[kept], np.zeros(len(left), np.int64)])
    times = -(-events * 2 // (3 * len(kind)))
    offset = np.repeat(np.arange(times) * len(made), len(kind))
    return sequence(np.tile(kind, times), np.tile(number, times) + offset, np.tile(size, times))


def long(events: int) -> None:
    """A what-if of a long run under three settings."""
    played = repeated(Run(open_file(ROOT / "samples" / "before.mstrata")), events)
    for config in (STOCK, parse("expandable_segments:True"), parse("max_split_size_mb:128")):
        seconds = cpu_seconds(lambda c=config: simulate(played, c), 2)
        print(line(f"what-if, {config.text or 'stock'}", seconds, len(played), len(played) * 3 // 2), flush=True)


def simulate(played: Sequence, config: Config) -> object:
    return FastAllocator(played, config, SimulatedMemory(), empty_state()).run()


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("events", nargs="?", type=whole_number, default=1_000_000, help="of the long one (1000000)")
    asked = parser.parse_args()
    traces()
    long(asked.events)
