"""How fast snapshots load, against Python's unpickler in the same run: CPU time, memory, and how long a thread waits.

By default of 10,000 to 4,000,000 events; the unpickler takes 3 GB for the last one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import aims

from memstrata.viewer.arguments import script_parser, whole_number

SIZES = (10_000, 100_000, 1_000_000, 4_000_000)
SMALL = (300, 1_000, 3_000, 10_000)
ROUNDS = 3
SNAPSHOTS = Path(__file__).resolve().parents[2] / "shared" / "snapshots"

_LOAD = """
import gc, pickle, resource, sys, time
from memstrata.viewer.pages import numpy_with_small_pages
numpy_with_small_pages()  # as the command does
from memstrata.viewer.sources import open_file
class Refusing(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(name)
def most():  # what Linux calls ru_maxrss begins with the parent's own, which made the file
    try:
        return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
how, path = sys.argv[1:]
before = most()
if how == "pickle, gc off":
    gc.disable()
start = time.process_time()
if how == "memstrata":
    kept = open_file(path)
else:
    with open(path, "rb") as file:
        kept = Refusing(file).load()
print(time.process_time() - start, most() - before)
"""
UNPICKLED = (_LOAD, "pickle, gc off")
"""For `measured`, with a path behind them: CPU seconds of Python's own reader without its collector, and memory."""
_SMALL = """
import gc, os, pickle, sys, time
from memstrata.viewer.pages import numpy_with_small_pages
numpy_with_small_pages()
sys.path.insert(0, sys.argv[1])
from plain_tables import Plain
from memstrata.viewer.sources import open_file
from memstrata.viewer.sources.progress import Progress
from memstrata.viewer.sources.torch_snapshot import recording_of
class Refusing(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(name)
def unpickled(path):
    with open(path, "rb") as file:
        return Refusing(file).load()
def recording(path):
    gc.disable()  # as open_file does
    try:
        return recording_of(unpickled(path), os.path.getsize(path), Progress())
    finally:
        gc.enable()
def plain(path):
    return Plain(unpickled(path))
def seconds(read, path):
    start = time.process_time()
    kept = read(path)
    taken = time.process_time() - start
    del kept
    return taken
for path in sys.argv[2:]:
    ways = (open_file, unpickled, recording, plain)
    rounds = [[seconds(way, path) for way in ways] for _ in range(25)]
    print(*map(min, zip(*rounds)), len(open_file(path).events))
"""


def measured(code: str, *arguments: str) -> list[float]:
    """The numbers that a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def longest_wait(path: Path) -> tuple[float, float]:
    """How long another thread waits at most while the file is read, in seconds.

    (CPU time the reader took between two ticks of that thread, the same by the clock), the tick's own 2 ms included.
    The first does not count what other programs take from both.
    """
    from memstrata.viewer.sources import open_file

    reader = time.pthread_getcpuclockid(threading.get_ident())
    gaps, done, never = [(0.0, 0.0)], threading.Event(), threading.Lock()
    never.acquire()

    def tick() -> None:
        while not done.is_set():
            before = time.clock_gettime(reader), time.perf_counter()
            never.acquire(timeout=0.002)
            gaps.append((time.clock_gettime(reader) - before[0], time.perf_counter() - before[1]))

    thread = threading.Thread(target=tick)
    thread.start()
    open_file(path)
    done.set()
    thread.join()
    return max(gap[0] for gap in gaps), max(gap[1] for gap in gaps)


def loading(path: Path, events: int, per_event: dict[int, float]) -> Iterator[str]:
    """Rows of one file: best of some rounds, the ways by turns. Notes the seconds for each event."""
    ways = ("memstrata", "pickle, gc off", "pickle")
    times: dict[str, list[float]] = {way: [] for way in ways}
    memory: dict[str, float] = {}
    for _ in range(ROUNDS):
        for way in ways:
            seconds, memory[way] = measured(_LOAD, way, str(path))
            times[way].append(seconds)
    best = {way: min(times[way]) for way in ways}
    ours, quick, usual = (best[way] for way in ways)
    per_event[events] = ours / events

    def told(aim: aims.Aim, figure: float) -> str:
        return aim.told(figure) if events == 1_000_000 else ""

    against = f"{ours / quick:5.2f} x pickle with gc off ({quick:.3f} s)"
    yield f"load {events:9,} events  {ours:6.3f} s CPU   {against}{told(aims.LOAD, ours / quick)}"
    against = f"{ours / usual:5.2f} x pickle as people call it ({usual:.3f} s)"
    yield f"     {against}{told(aims.LOAD_AS_CALLED, ours / usual)}"
    mib, theirs = memory["memstrata"] / 1024, memory["pickle"] / 1024
    against = f"{mib / theirs:5.2f} x pickle ({theirs:.1f} MiB)"
    yield f"     peak memory {mib:7.1f} MiB   {against}{told(aims.LOAD_MEMORY, mib / theirs)}"
    cpu, clock = longest_wait(path)
    wait = f"{cpu * 1e3:5.1f} ms of the reader's CPU time ({clock * 1e3:.1f} ms by the clock)"
    yield f"     longest wait of another thread {wait}{told(aims.WAIT, cpu * 1e3)}"


def small(folder: Path) -> Iterator[str]:
    """Rows of small files, from file to recording, against an Unpickler that refuses globals.

    Of its dicts the project's own code makes the same recording, so that reading is all that differs; `plain_tables`
    makes columns without checks, as one would write it down; and alone it has made nothing that could be shown.
    """
    from generate import write

    paths = [folder / f"generated-{events}.pickle" for events in SMALL]
    for events, path in zip(SMALL, paths):
        write(events, path)
    found = sorted(SNAPSHOTS.glob("*.pickle")) if SNAPSHOTS.is_dir() else []
    both = []
    for path in (*paths, *found):
        ours, alone, same, plain, events = measured(_SMALL, str(Path(__file__).parent), str(path))
        if events > 12_000:
            continue
        both.append((ours, same))
        told = aims.SMALL.told(ours / same) if path == paths[-1] else ""
        yield (
            f"small {path.name:42} {events:6,.0f} events {ours * 1e3:6.1f} ms CPU   {ours / same:5.2f} x "
            f"Unpickler and the same recording ({same * 1e3:.1f} ms)   {ours / plain:5.2f} x and plain tables "
            f"({plain * 1e3:.1f} ms)   {ours / alone:5.2f} x Unpickler alone{told}"
        )
    yield together(both)


def together(files: list[tuple[float, float]]) -> str:
    """The row of all small files: (seconds of ours, of an Unpickler and the same recording) of each."""
    ours, same = (sum(times) for times in zip(*files))
    quicker = sum(own <= other for own, other in files)
    most = max(own - other for own, other in files)
    return (
        f"small files together {ours * 1e3:.1f} ms CPU   {ours / same:5.2f} x Unpickler and the same recording; "
        f"{quicker} of {len(files)} take no longer, the others at most {most * 1e3:.1f} ms"
        f"{aims.SMALL_ALL.told(ours / same)}"
    )


def rows(sizes: tuple[int, ...] = SIZES) -> Iterator[str]:
    """All rows, on generated files that are deleted afterwards."""
    from generate import write

    per_event: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        yield from small(Path(folder))
        for events in sizes:
            path = Path(folder) / "snapshot.pickle"
            write(events, path)
            yield from loading(path, events, per_event)
    rates = "   ".join(f"{events:,}: {seconds * 1e6:.2f}" for events, seconds in per_event.items())
    yield f"load, microseconds of CPU time for each event   {rates}"


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("events", nargs="*", type=whole_number, help="sizes of the files, such as 1e6")
    for line in rows(tuple(parser.parse_args().events) or SIZES):
        print(line, flush=True)
    print(*aims.summary(), sep="\n")
