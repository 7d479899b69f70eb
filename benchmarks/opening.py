"""From a file to the first painted frame of the real window: CPU time, its parts, and how long the window stands still.

usage: opening.py [EVENTS ...]   default: 100,000 1,000,000 4,000,000

The CPU time is that of the whole process, window and job together. The wait is that of a 20 ms timer in the window's
thread, until the frame is painted and in the seconds after it, while other groupings and axes are made ready: what the
thread itself did between two ticks in CPU time, which does not count what other programs take, and by the clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = (100_000, 1_000_000, 4_000_000)
ROUNDS = 3
STAGES = {"Reading": "reading", "Building": "tables", "Pairing": "pairing", "Finding": "categories", "Adding": "bands"}
PAGE = "page and paint"

_OPEN = """
import json, os, sys, time
os.environ["QT_QPA_PLATFORM"] = "offscreen"
from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from memstrata.viewer import window
from memstrata.viewer.charts.timeline import Timeline
path, then = sys.argv[1], float(sys.argv[2])
stages, cpu, last = {}, time.process_time, []
busy, clock = [0.0, 0.0], [0.0, 0.0]
painted = []
class Watch(QObject):
    def eventFilter(self, widget, event):
        if event.type() == QEvent.Type.Paint and not painted and isinstance(widget.parent(), Timeline):
            QTimer.singleShot(0, lambda: painted or painted.append((cpu(), time.perf_counter())))
        return False
def tick():
    now = time.thread_time(), time.perf_counter()
    for longest, begin, end in zip((busy, clock), last, now):
        longest[bool(painted)] = max(longest[bool(painted)], end - begin)
    last[:] = now
app = window.application()
shown = window.Window()
shown.resize(1600, 900)
shown.show()
app.processEvents()
watch, timer = Watch(), QTimer(interval=20)
app.installEventFilter(watch)
timer.timeout.connect(tick)
timer.start()
shown.jobs.progressed.connect(
    lambda _number, _part, stage: stages.setdefault(stage.split()[0], cpu()), Qt.ConnectionType.DirectConnection
)
shown.jobs.ended.connect(lambda _number: stages.setdefault("ended", cpu()))
tick()
start = cpu()
shown.open_paths([path])
while not painted:
    app.processEvents()
    time.sleep(0.001)
until = time.perf_counter() + then
while time.perf_counter() < until:
    app.processEvents()
    time.sleep(0.001)
total = painted[0][0] - start
print(json.dumps({"total": total, "start": start, "stages": stages, "busy": busy, "clock": clock}))
shown.close()
"""


def opened(path: Path, then: float = 2.0) -> dict[str, Any]:
    """What one opening in a fresh interpreter took."""
    done = subprocess.run([sys.executable, "-c", _OPEN, str(path), str(then)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def parts(found: dict[str, Any]) -> dict[str, float]:
    """Seconds of CPU time of each stage, in order; they sum to the total."""
    begins = sorted((at, word) for word, at in found["stages"].items() if word in STAGES or word == "ended")
    ends = [*(at for at, _ in begins[1:]), found["start"] + found["total"]]
    out: dict[str, float] = {"start": begins[0][0] - found["start"]}
    for (at, word), end in zip(begins, ends):
        name = STAGES.get(word, PAGE)
        out[name] = out.get(name, 0.0) + end - at
    return out


def rows(sizes: tuple[int, ...] = SIZES) -> Iterator[str]:
    """All rows, on generated files that are deleted afterwards; each the quickest of some rounds."""
    from generate import write

    first: tuple[int, float] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for events in sizes:
            path = Path(folder) / "snapshot.pickle"
            write(events, path)
            found = min((opened(path) for _ in range(ROUNDS)), key=lambda each: float(each["total"]))
            total = float(found["total"])
            linear = f"   {total / first[1]:5.2f} x for {events / first[0]:.2f} x the events" if first else ""
            first = (events, total)
            yield f"open {events:9,} events: file to first painted frame {total:6.3f} s CPU{linear}"
            split = parts(found)
            yield "     " + ", ".join(f"{name} {seconds:.3f}" for name, seconds in split.items())
            after = total - sum(split.get(name, 0.0) for name in ("start", "reading", "tables"))
            yield f"     after the columns are read {after:6.3f} s"
            for when, busy, clock in zip(("until then", "after it"), found["busy"], found["clock"]):
                wait = f"{busy * 1e3:.0f} ms at work, {clock * 1e3:.0f} ms by the clock"
                yield f"     longest wait of the window {when}: {wait}"


if __name__ == "__main__":
    for line in rows(tuple(int(float(size)) for size in sys.argv[1:]) or SIZES):
        print(line, flush=True)
