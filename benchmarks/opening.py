"""From a file to painted frames of the real window: CPU time, its parts, and how long the window stands still.

Of a large file the first frame shows the bytes of all allocations together, and the second one the page of the run,
whose bands say what they are; of others the first is that page. The CPU time is that of the whole process, window and
job together; `pickle.load` of the same file with its collector off takes turns with it, as the ratio says more than
seconds on a machine that does other things too. What the kernel took of it is for reading, and for memory that was not
touched before, which in a virtual machine can cost far more than what is done with it. By the clock it is what a user
waits. The longest stretch of work is what the window's thread did between two ticks of a 5 ms timer in it, until the
page is painted and in the seconds after it, while other groupings and axes are made ready: in CPU time, which does not
count what other programs take, and by the clock.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aims
from readers import UNPICKLED, measured

from memstrata.viewer.arguments import script_parser, whole_number

SIZES = (100_000, 1_000_000, 4_000_000)
ROUNDS = 3
STAGES = {"Reading": "reading", "Building": "tables", "Pairing": "pairing", "Finding": "categories", "Adding": "bands"}
PAGE = "page and paint"
FIRST, PAGE_PAINTED = "first painted frame", "page of the run painted"

_OPEN = """
import json, os, sys, time
os.environ["QT_QPA_PLATFORM"] = "offscreen"
from memstrata.viewer.pages import numpy_with_small_pages
numpy_with_small_pages()  # as the command does
from PySide6.QtCore import Qt, QTimer, Signal
from memstrata.viewer import window
from memstrata.viewer.charts.timeline import Timeline
from memstrata.viewer.charts.preview_chart import PreviewChart
path, then = sys.argv[1], float(sys.argv[2])
stages, cpu, last = {}, time.process_time, []
busy, clock = [0.0, 0.0], [0.0, 0.0]
first, painted, kernel = [], [], lambda: os.times().system
def watched(kind, note):
    class Watched(kind):
        was_painted = Signal()
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.was_painted.connect(note, Qt.ConnectionType.QueuedConnection)  # once all of the frame is
        def paintEvent(self, event):
            super().paintEvent(event)
            if not painted:
                self.was_painted.emit()
    return Watched
def now():
    return cpu(), time.perf_counter(), kernel()
def note_first():
    first.extend(() if first else now())
def note():
    note_first()
    if not painted:
        painted.extend(now())
        QTimer.singleShot(int(then * 1000), app.quit)
def tick():
    now = time.thread_time(), time.perf_counter()
    for longest, begin, end in zip((busy, clock), last, now):
        longest[bool(painted)] = max(longest[bool(painted)], end - begin)
    last[:] = now
from memstrata.viewer.panels import chart_panel, preview_page
chart_panel.Timeline = watched(Timeline, note)
preview_page.PreviewChart = watched(PreviewChart, note_first)
app = window.application()
shown = window.Window()
shown.resize(1600, 900)
shown.show()
app.processEvents()
timer = QTimer(interval=5, timerType=Qt.TimerType.PreciseTimer)
timer.timeout.connect(tick)
timer.start()
shown.jobs.progressed.connect(lambda _number, _part, stage: stages.setdefault(stage.split()[0], cpu()))
shown.jobs.ended.connect(lambda _number: stages.setdefault("ended", cpu()))
tick()
start, begun, own = cpu(), time.perf_counter(), kernel()
shown.open_paths([path])
app.exec()
found = {"total": painted[0] - start, "wall": painted[1] - begun, "kernel": painted[2] - own, "start": start}
found["first"] = [first[0] - start, first[1] - begun, first[2] - own]
print(json.dumps({**found, "stages": stages, "busy": busy, "clock": clock}))
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


def _file(source: int | str, folder: str) -> Path:
    """A file that is there, or one that is made with so many events."""
    from generate import write

    if isinstance(source, str):
        return Path(source)
    path = Path(folder) / "snapshot.pickle"
    write(source, path)
    return path


def rows(sources: Sequence[int | str] = SIZES) -> Iterator[str]:
    """All rows; files that are generated are deleted afterwards."""
    before: tuple[int, dict[str, float]] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            path = _file(source, folder)
            found = [(opened(path), measured(*UNPICKLED, str(path))[0]) for _ in range(ROUNDS)]
            yield f"open {source:>9,} events" if isinstance(source, int) else f"open {path.name}"
            least = {}
            is_judged = source == 1_000_000
            for name, pick in ((FIRST, _first), (PAGE_PAINTED, _page)):
                aim = aims.FIRST_FRAME if is_judged and name == FIRST else None
                yield from _frame(name, [(pick(one), unpickled) for one, unpickled in found], aim)
                least[name] = min(pick(one)[0] for one, _ in found)
            if isinstance(source, int):
                if before:
                    more, grown = source / before[0], {name: size / before[1][name] for name, size in least.items()}
                    told = ", ".join(f"{name} {times:.2f} x" for name, times in grown.items())
                    yield f"     for {more:.2f} x the events: {told}{aims.LINEAR.told(grown[FIRST] / more)}"
                before = (source, least)
            yield from _details([one for one, _ in found], aims.STANDSTILL if is_judged else None)


def _first(one: dict[str, Any]) -> tuple[float, float, float]:
    cpu, wall, kernel = one["first"]
    return cpu, wall, kernel


def _page(one: dict[str, Any]) -> tuple[float, float, float]:
    return one["total"], one["wall"], one["kernel"]


def _frame(name: str, found: list[tuple[tuple[float, float, float], float]], aim: aims.Aim | None) -> Iterator[str]:
    """A frame's CPU time, by the clock, what the kernel took of it, and against the unpickler, each of `found`'s
    rounds being (those three, the unpickler's CPU time)."""
    cpu, wall, kernel = zip(*(times for times, _ in found))
    spent = f"{min(cpu):.3f} s CPU ({min(c - k for c, k in zip(cpu, kernel)):.3f} s without the kernel)"
    told = f"{min(wall):.3f} s at best, {statistics.median(wall):.3f} s in the median"
    yield f"     {name}: {spent}, by the clock {told}{aim.told(min(cpu)) if aim else ''}"
    least = min(cpu) / min(unpickled for _, unpickled in found)
    median = statistics.median(times[0] / unpickled for times, unpickled in found)
    yield f"     {least:6.2f} x pickle with gc off by the quickest of each, {median:.2f} x in the median of the rounds"


def _details(found: list[dict[str, Any]], aim: aims.Aim | None) -> Iterator[str]:
    """Of the quickest round, by part; how long the window stood still."""
    split = parts(min(found, key=lambda one: float(one["total"])))
    yield "     " + ", ".join(f"{name} {seconds:.3f}" for name, seconds in split.items())
    for place, when in enumerate(("until the page is painted", "after it")):
        busy, clock = ([one[how][place] * 1e3 for one in found] for how in ("busy", "clock"))
        waits = ", ".join(f"{wait:.0f}" for wait in busy)
        told = aim.told(min(busy)) if aim and not place else ""
        yield f"     longest stretch of work in the window {when}: {waits} ms, {min(clock):.0f} ms by the clock{told}"


def _file_or_events(text: str) -> str | int:
    return text if Path(text).is_file() else whole_number(text)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    sizes = " ".join(f"{size:,}" for size in SIZES)
    parser.add_argument("what", nargs="*", type=_file_or_events, help=f"files, or numbers of events (default: {sizes})")
    for line in rows(parser.parse_args().what or SIZES):
        print(line, flush=True)
    print(*aims.summary(), sep="\n")
