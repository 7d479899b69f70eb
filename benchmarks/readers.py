"""How fast snapshots load, against Python's unpickler in the same run: CPU time, memory, and how long a thread waits.

usage: readers.py [EVENTS...]   default: 10,000 100,000 1,000,000 4,000,000
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

SIZES = (10_000, 100_000, 1_000_000, 4_000_000)
ROUNDS = 3

_LOAD = """
import gc, pickle, resource, sys, time
import numpy
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
_PAINT = """
import os, sys, time
os.environ["QT_QPA_PLATFORM"] = "offscreen"
from memstrata.viewer import window
from memstrata.viewer.state.loading import open_run
from memstrata.viewer.state.view_state import opened
from memstrata.viewer.model.grouping import preferred
app = window.application()
shown = window.Window()
shown.resize(1600, 900)
shown.show()
app.processEvents()
start = time.process_time()
run = open_run(sys.argv[1])
shown.session.set(opened(shown.session.state, run, preferred(run)))
app.processEvents()
shown.grab()
print(time.process_time() - start)
shown.close()
"""


def measured(code: str, *arguments: str) -> list[float]:
    """The numbers that a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def longest_wait(path: Path) -> float:
    """The longest gap of a 20 ms timer in another thread while the file is read, in seconds."""
    from memstrata.viewer.sources import open_file

    gaps, done = [0.0], threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not done.wait(0.02):
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    thread = threading.Thread(target=tick)
    thread.start()
    open_file(path)
    done.set()
    thread.join()
    return max(gaps)


def loading(path: Path, events: int) -> Iterator[str]:
    """Rows of one file: best of some rounds, the ways by turns."""
    ways = ("memstrata", "pickle, gc off", "pickle")
    times: dict[str, list[float]] = {way: [] for way in ways}
    memory: dict[str, float] = {}
    for _ in range(ROUNDS):
        for way in ways:
            seconds, memory[way] = measured(_LOAD, way, str(path))
            times[way].append(seconds)
    best = {way: min(times[way]) for way in ways}
    ours, quick, usual = (best[way] for way in ways)
    yield f"load {events:9,} events  {ours:6.3f} s CPU   {ours / quick:5.2f} x pickle with gc off ({quick:.3f} s)"
    yield f"     {ours / usual:5.2f} x pickle as people call it ({usual:.3f} s)"
    mib, theirs = memory["memstrata"] / 1024, memory["pickle"] / 1024
    yield f"     peak memory {mib:7.1f} MiB   {mib / theirs:5.2f} x pickle ({theirs:.1f} MiB)"
    yield f"     longest wait of a 20 ms timer in another thread {longest_wait(path) * 1e3:5.1f} ms"
    yield f"     file to first painted frame {min(measured(_PAINT, str(path))[0] for _ in range(ROUNDS)):6.3f} s CPU"


def rows(sizes: tuple[int, ...] = SIZES) -> Iterator[str]:
    """All rows, on generated files that are deleted afterwards."""
    from generate import write

    with tempfile.TemporaryDirectory() as folder:
        for events in sizes:
            path = Path(folder) / "snapshot.pickle"
            write(events, path)
            yield from loading(path, events)


if __name__ == "__main__":
    for line in rows(tuple(int(float(size)) for size in sys.argv[1:]) or SIZES):
        print(line, flush=True)
