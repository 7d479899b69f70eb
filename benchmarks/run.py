"""What recording costs and how fast files open, as ratios measured in one run."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import aims
import opening
import readers
import torch
import torch.nn.functional as F
import view

from memstrata.capture import Recorder, record_step
from memstrata.capture.demo import DemoConfig
from memstrata.capture.format import files, schema
from memstrata.capture.models.hybrid import HybridDecoder
from memstrata.capture.models.text import batches
from memstrata.viewer.arguments import folder_to_write, script_parser
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 5


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def demo_step(checkpointing: bool) -> Callable[[], float]:
    """One training step of the demo model, as a function without arguments."""
    config = DemoConfig()
    torch.manual_seed(config.seed)
    model = HybridDecoder(config.model, checkpointing)
    optimizer = torch.optim.AdamW(model.parameters())
    data = batches(config.seed, config.batch, config.tokens)

    def step() -> float:
        inputs, targets = next(data)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def recording_cost(folder: Path) -> Iterator[str]:
    """Median step time unrecorded and recorded, alternating in the same run."""
    for name, checkpointing in (("before", False), ("after", True)):
        step, path = demo_step(checkpointing), folder / f"{name}.mstrata"
        step()
        plain, recorded, whole = [], [], []
        for _ in range(ROUNDS):
            plain.append(seconds(step))
            start = time.perf_counter()
            with Recorder(path):
                recorded.append(seconds(step))
            whole.append(time.perf_counter() - start)
        base, inside, total = (statistics.median(times) for times in (plain, recorded, whole))
        yield f"step {name:6}  unrecorded {base:6.3f} s   recorded {inside:6.3f} s   ratio {inside / base:5.2f}"
        yield f"             with start, tables and file {total:6.3f} s   ratio {total / base:5.2f}"


def armed_cost(folder: Path) -> Iterator[str]:
    """What waiting for an out-of-memory error adds to each step; plain steps before and after it in the same run."""
    step = demo_step(False)
    step()
    plain = [seconds(step) for _ in range(ROUNDS)]
    armed = record_step(folder / "armed.mstrata", on="oom", keep=2)(step)
    waiting = [seconds(armed) for _ in range(2 * ROUNDS)][2:]
    del armed
    plain += [seconds(step) for _ in range(ROUNDS)]
    base, idle = statistics.median(plain), statistics.median(waiting)
    yield f"armed idle step  unrecorded {base:6.3f} s   armed    {idle:6.3f} s   ratio {idle / base:5.2f}"


def idle_cost(folder: Path) -> Iterator[str]:
    """What the decorator adds to a call after the recorded one."""

    def function() -> None:
        pass

    decorated = record_step(folder / "idle.mstrata", warmup=0)(function)
    decorated()
    calls = 200_000

    def loop(call: Callable[[], None]) -> None:
        for _ in range(calls):
            call()

    plain = min(seconds(lambda: loop(function)) for _ in range(3))
    idle = min(seconds(lambda: loop(decorated)) for _ in range(3))
    yield f"inert decorator  {(idle - plain) / calls * 1e9:6.0f} ns per call"


def sizes(folder: Path) -> Iterator[str]:
    """Bytes per event of the file and of the tables in memory."""
    for name in ("before", "after"):
        path = folder / f"{name}.mstrata"
        recording = files.read(path)
        held = sum(getattr(t, f.name).nbytes for _, t in recording.tables() for f in schema.columns_of(type(t)))
        n = len(recording.events)
        file = path.stat().st_size
        yield f"size {name:6}  {n:6,} events   file {file / n:5.1f} B per event   tables {held / n:5.1f} B per event"


def samples_open() -> Iterator[str]:
    """From file to the curves by category, for each sample and each snapshot at hand."""
    found = sorted((ROOT / "samples").glob("*.mstrata"))
    found += sorted((ROOT.parent / "shared" / "snapshots").glob("*.pickle"))
    for path in found:
        read = min(seconds(lambda p=path: open_file(p)) for _ in range(3))
        recording = open_file(path)

        def ready(recording: object = recording) -> None:
            run = Run(recording)  # type: ignore[arg-type]
            run.categories_at(run.peak_position)

        model = min(seconds(ready) for _ in range(3))
        size = path.stat().st_size
        yield f"open {path.name:42} {size / 1e6:6.2f} MB   read {read * 1e3:7.1f} ms   model {model * 1e3:6.1f} ms"


def main(folder: Path) -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    parts = (
        recording_cost(folder),
        armed_cost(folder),
        idle_cost(folder),
        sizes(folder),
        samples_open(),
        readers.rows(),
        opening.rows(),
        view.lines(),
        aims.summary(),
    )
    for part in parts:
        for line in part:
            print(line, flush=True)


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("folder", nargs="?", type=folder_to_write, help="where to measure (default: a temporary one)")
    if asked := parser.parse_args().folder:
        main(asked)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
