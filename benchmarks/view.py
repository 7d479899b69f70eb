"""What a frame of the window costs, in CPU time, with every allocation of a long run in it.

Then the window's slider over checkpoint plans of 64 layers: a move, with everything it draws and writes.

The run is the step of a sample over and over, at the addresses a stock CUDA allocator gives it. A frame is a change
of the visible range and the painting of it at 1600 x 900. Beside it stands what Qt needs to paint as many plain
rectangles as there are allocations, in the same run: ratios are what to compare, times depend on the machine.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import aims
import numpy as np
from allocator import repeated
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from memstrata.capture.format import schema
from memstrata.capture.format.recording import Device, Recording
from memstrata.capture.format.schema import Action
from memstrata.capture.presets import Sizes, job
from memstrata.viewer.analysis.allocator.config import STOCK
from memstrata.viewer.analysis.allocator.fast import FastAllocator
from memstrata.viewer.analysis.allocator.memory import SimulatedMemory
from memstrata.viewer.analysis.allocator.recorded import recorded
from memstrata.viewer.analysis.allocator.sequence import Op, empty_state
from memstrata.viewer.arguments import script_parser, whole_number
from memstrata.viewer.charts.allocation_chart import ADDRESS, STACKED, AllocationChart, painter_of
from memstrata.viewer.charts.allocation_item import AllocationItem
from memstrata.viewer.charts.band_painter import paint_stack
from memstrata.viewer.charts.rectangles import Rectangles
from memstrata.viewer.charts.stacking import stack
from memstrata.viewer.charts.timeline import Timeline
from memstrata.viewer.model.bands import bands_of
from memstrata.viewer.model.curves import group_sums
from memstrata.viewer.model.paints import Paint
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file
from memstrata.viewer.state.array_table import ArrayTable, Column
from memstrata.viewer.state.scope import Scope
from memstrata.viewer.state.session import Session
from memstrata.viewer.state.view_state import opened
from memstrata.viewer.window import Window

ROOT = Path(__file__).resolve().parents[1]
SIZES = (10_000, 100_000, 1_000_000)
WIDTH, HEIGHT = 1600, 900
FRAMES = 20


def application() -> QApplication:
    made = QApplication.instance() or QApplication([])
    assert isinstance(made, QApplication)
    return made


def cpu_ms(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return (time.process_time() - start) * 1e3


def p95_of(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


def middle_and_p95(times: list[float]) -> str:
    return f"median {sorted(times)[len(times) // 2]:7.2f} ms   p95 {p95_of(times):7.2f} ms"


def told(aim: aims.Aim, figure: float, run: Run) -> str:
    """The end of a row whose aim is for a million allocations."""
    return aim.told(figure) if len(run.allocations) >= 1_000_000 else ""


def long_run(allocations: int) -> Run:
    """The step of a sample again and again, placed by a stock allocator."""
    step = Run(open_file(ROOT / "samples" / "before.mstrata"))
    played = repeated(step, 3 * allocations)
    made = recorded(step).sequence
    stacks = np.append(step.events.stack, -1)[made.event[made.kind == Op.alloc]]
    is_alloc = played.kind == Op.alloc
    columns = {f.name: np.full(len(played), -1) for f in schema.columns_of(schema.Events)}
    columns["action"] = np.where(is_alloc, Action.alloc, Action.free_completed)
    columns["address"] = FastAllocator(played, STOCK, SimulatedMemory(), empty_state()).run().address[played.id]
    sizes = np.zeros(played.count, np.int64)
    sizes[played.id[is_alloc]] = played.bytes[is_alloc]
    columns["bytes"] = sizes[played.id]
    columns["stack"] = np.where(is_alloc, stacks[played.id % len(stacks)], -1)
    columns["time"] = np.arange(len(played)) * 3_000
    columns["device"] = columns["stream"] = np.zeros(len(played), np.int64)
    dtypes = {f.name: f.metadata["dtype"] for f in schema.columns_of(schema.Events)}
    events = schema.Events(**{name: column.astype(dtypes[name]) for name, column in columns.items()})
    return Run(_recording(step.recording, events), name=f"{allocations:,}")


def _recording(like: Recording, events: schema.Events) -> Recording:
    """Only events and stacks, as in a plain snapshot."""
    kept = ("events", "frames", "stacks")
    none = {name: schema.from_rows(table, []) for name, table in schema.TABLES.items() if name not in kept}
    meta = replace(like.meta, kind="snapshot", source="snapshot", devices=(Device("cuda:0", 0),), problems=())
    return replace(like, meta=meta, events=events, **none)


def rectangles_ms(count: int) -> float:
    """As many plain rectangles of a few pixels, painted by Qt in one call."""
    random = np.random.default_rng(0)
    x, y = random.random(count) * WIDTH, random.random(count) * HEIGHT
    image, made = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32), Rectangles().put(x, y, x + 3, y + 3)

    def paint() -> None:
        painter = QPainter(image)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor("#4e79a7"))
        made.paint(painter)
        painter.end()

    return min(cpu_ms(paint) for _ in range(3))


def frames(widget: AllocationChart | Timeline, scope: Scope, top: float | None = None) -> list[float]:
    """Pans and zooms from the whole run down to a thousandth of it; with `top` half of that height is in sight, and
    moves too, so that nothing can be kept from the frame before."""
    axis, times = scope.axis, []
    low, high = float(axis.edges[0]), float(axis.edges[-1])
    for share in (0.999, 0.5, 0.1, 0.01, 0.001):
        width = (high - low) * share
        for number in range(FRAMES):
            part = (number + 0.37) / (FRAMES + 2)
            begin = low + (high - low - width) * part
            y = None if top is None else (top / 2 * part, top / 2 * (1 + part))

            def frame(x: tuple[float, float] = (begin, begin + width), y: tuple[float, float] | None = y) -> None:
                widget.view.setRange(xRange=x, yRange=y, padding=0)
                widget.viewport().repaint()

            times.append(cpu_ms(frame))
    return times


def dragged(chart: AllocationChart, scope: Scope) -> list[float]:
    """Pans from a picture that was finished, of which a part stays in sight."""
    axis, times = scope.axis, []
    low, high = float(axis.edges[0]), float(axis.edges[-1])
    for share in (0.5, 0.1, 0.01):
        width = (high - low) * share
        begin = low + (high - low - width) * 0.3
        chart.view.setXRange(begin, begin + width, padding=0)
        chart.viewport().repaint()
        chart.item.finish()
        for number in range(1, FRAMES + 1):
            x = begin + width * 0.02 * number

            def frame(x: tuple[float, float] = (x, x + width)) -> None:
                chart.view.setXRange(*x, padding=0)
                chart.viewport().repaint()

            times.append(cpu_ms(frame))
    return times


def shown_chart(scope: Scope, key: str) -> AllocationChart:
    chart = AllocationChart(scope)
    chart.resize(WIDTH, HEIGHT)
    chart.layout_key = key
    chart.made[key, scope.axis.key] = painter_of(scope.run, scope.axis, key)
    chart.show()
    application().processEvents()
    return chart


def layouts(scope: Scope, plain: float) -> Iterator[str]:
    """Frames, the finished picture, and hovering, in both layouts."""
    for key in (ADDRESS, STACKED):
        made = cpu_ms(lambda key=key: painter_of(scope.run, scope.axis, key))
        chart = shown_chart(scope, key)
        for how, times in (
            ("frames", frames(chart, scope)),
            ("both ways", frames(chart, scope, chart.top)),
            ("dragged", dragged(chart, scope)),
        ):
            p95 = p95_of(times)
            of = f"{p95 / plain:6.3f} of plain rectangles{told(aims.FRAME, p95, scope.run)}"
            yield f"{key:8} {how:9} {middle_and_p95(times)}   {of}"
        chart.whole_height()
        finished = cpu_ms(lambda item=chart.item: _finish(item))
        yield f"{key:8} finished picture {finished:7.1f} ms   laid out once in {made:7.1f} ms"
        times, search = hovers(chart), searching_ms(scope.run)
        of = f"{p95_of(times) / search:6.3f} of looking through all of them"
        yield f"{key:8} hover     {middle_and_p95(times)}   {of}{told(aims.HOVER, p95_of(times), scope.run)}"
        chart.hide()


def _finish(item: AllocationItem) -> None:
    item.finish()


def hovers(chart: AllocationChart | Timeline) -> list[float]:
    """What is under two hundred points, found and put into words."""
    random, times = np.random.default_rng(1), []
    (x0, x1), (y0, y1) = chart.view.viewRange()
    for x, y in zip(random.uniform(x0, x1, 200).tolist(), random.uniform(y0, y1 * 0.7, 200).tolist()):
        times.append(cpu_ms(lambda x=x, y=y: chart.hover_text(x, y)))
    return times


def searching_ms(run: Run) -> float:
    """Which allocations are alive at an instant, found in all of them one after the other."""
    positions = np.linspace(0, run.n_events, 20).astype(np.int64).tolist()
    return sorted(cpu_ms(lambda at=at: np.flatnonzero(run.allocations.alive(at))) for at in positions)[10]


def bands(scope: Scope) -> Iterator[str]:
    """The timeline as it opens, and 64 bands of 2,000 columns, which is the worst it can be asked for."""
    timeline = Timeline(scope)
    timeline.resize(WIDTH, HEIGHT)
    timeline.show()
    application().processEvents()
    plain = rectangles_ms(64 * 2000)
    times = frames(timeline, scope)
    p95 = p95_of(times)
    of = f"{p95 / plain:6.3f} of 128,000 plain rectangles{told(aims.FRAME, p95, scope.run)}"
    yield f"timeline frames   {middle_and_p95(times)}   {of}"
    yield f"timeline hover    {middle_and_p95(hovers(timeline))}"
    timeline.hide()
    run, labels = scope.run, np.arange(len(scope.run.allocations)) % 64
    sums = group_sums(run.allocations, labels, 64)
    paints = [Paint(f"#{(n * 2654435761) % (1 << 24):06x}") for n in range(64)]
    image, times = QImage(2000, HEIGHT, QImage.Format.Format_RGB32), []
    for number in range(FRAMES):
        positions = np.linspace(number * 31, run.n_events - number * 17, 2000).astype(np.int64)

        def frame(positions: np.ndarray = positions) -> None:
            painter = QPainter(image)
            made = stack(np.arange(2001.0), sums.at(positions), HEIGHT, HEIGHT / run.peak_bytes)
            paint_stack(painter, made, paints)
            painter.end()

        times.append(cpu_ms(frame))
    p95 = p95_of(times)
    of = f"{p95 / plain:6.3f} of as many plain rectangles{told(aims.BANDS, p95, run)}"
    yield f"64 bands of 2,000 {middle_and_p95(times)}   {of}"


def tables(run: Run) -> Iterator[str]:
    """Live sets, sorting and filtering."""
    positions = np.linspace(0, run.n_events, 100).astype(np.int64).tolist()
    for name, ask in (("checkpoints", run.live.at), ("a plain mask", run.allocations.alive)):
        times = [cpu_ms(lambda a=ask, p=p: a(p)) for p in positions]
        is_ours = told(aims.LIVE_SET, p95_of(times), run) if name == "checkpoints" else ""
        yield f"live set, {name:12} {middle_and_p95(times)}{is_ours}"
    sizes = run.allocations.bytes
    table = ArrayTable([Column("bytes", sizes, str), Column("allocated", run.allocations.start, str)])
    for order in (Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder):
        took = cpu_ms(lambda order=order: table.sort(0, order))
        yield f"table of {len(sizes):,} rows sorted {order.name:16} {took:7.1f} ms{told(aims.TABLE, took, run)}"
    took = cpu_ms(lambda: run.filtered(">1MiB forward"))
    yield f"filtered by words {took:7.1f} ms{told(aims.TABLE, took, run)}"


def lines(sizes: Sequence[int] = SIZES) -> Iterator[str]:
    """The whole table."""
    _app = application()  # Qt needs somebody to hold it
    for size in sizes:
        run = long_run(size)
        session = Session()
        plain = rectangles_ms(len(run.allocations))
        ready = cpu_ms(lambda run=run: bands_of(run, "frame"))
        session.set(opened(session.state, run, "frame"))
        scope = Scope(session, run)
        count = f"{len(run.allocations):,} allocations"
        yield f"{count}; as many plain rectangles {plain:.1f} ms; bands once {ready:.1f} ms"
        for part in (layouts(scope, plain), bands(scope), tables(run)):
            for line in part:
                yield f"  {line}"


def slider() -> str:
    """Moves over the plans of a dry run of 64 layers, once the window has prepared them."""
    app = application()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dry.mstrata"
        job("teaching", None, Sizes(tokens=1024, layers=64)).run(path)
        window = Window()
        window.resize(WIDTH, HEIGHT)
        window.show()
        window.open_paths([str(path)])
        while not window.session.state.runs:
            app.processEvents()
        page = window.content.currentWidget()
        page.bring_forward("what_if")
        while not page.scope.what_if.frontier:
            app.processEvents()
        panel, times = page.views["what_if"], []
        for length in (*range(1, 65), *range(64, 0, -1)):
            times.append(cpu_ms(lambda length=length: panel.slider.setValue(length)))
            app.processEvents()
        window.close()
    return f"slider over plans of 64 layers {middle_and_p95(times)}"


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("allocations", nargs="*", type=whole_number, help="how many (default: 10000 100000 1000000)")
    for text in lines(parser.parse_args().allocations or SIZES):
        print(text, flush=True)
    print(slider(), flush=True)
    print(*aims.summary(), sep="\n")
