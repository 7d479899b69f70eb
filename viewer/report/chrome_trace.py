"""A timeline for Perfetto and chrome://tracing: spans nested by thread, and bytes by category as counters.

The format is the Trace Event Format of Chrome: `X` complete events, `C` counters, `i` instants, times in microseconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memstrata.capture.format.schema import I64, NONE, MarkKind

from ..look.words import phase_text
from ..model.curves import columns
from ..model.run import Run

MOST_POINTS = 20_000
"""Counter samples; between them the highest of each stretch is kept, so no peak is lost."""
STEP_TRACK = 0
"""The thread number of the row with the phases of the step."""

Event = dict[str, Any]


def chrome_trace(run: Run) -> dict[str, Any]:
    """The object to be written as JSON. Without times an event counts as a microsecond, and the file says so."""
    events = [_named("process_name", STEP_TRACK, run.name or "memstrata"), _named("thread_name", STEP_TRACK, "step")]
    events += _spans(run) + _counters(run) + _marks(run)
    unit = "time" if run.times is not None else "event order"
    other = {"device": run.device.name, "axis": unit, "peak_bytes": run.peak_bytes}
    return {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}


def _named(kind: str, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": 0, "tid": thread, "args": {"name": name}}


def _start(run: Run) -> int:
    """Unix ns of microsecond 0: what happened first, be it a span or an event."""
    times = [run.spans.start_time, run.events.time if run.events.time is not None else np.empty(0, np.int64)]
    return min((int(t.min()) for t in times if len(t)), default=0)


def _spans(run: Run) -> list[Event]:
    recording, spans, start = run.recording, run.spans, _start(run)
    paths = recording.modules.path
    out = []
    for row in range(len(spans)):
        module = int(spans.module[row])
        phase = phase_text(int(spans.phase[row]))
        name = phase if module == NONE else recording.strings[int(paths[module])] or (recording.meta.model or "model")
        begin, end = int(spans.start_time[row]), int(spans.end_time[row])
        thread = int(recording.spans.thread[spans.row[row]])
        event = {
            "ph": "X",
            "name": name,
            "cat": phase,
            "pid": 0,
            "tid": STEP_TRACK if module == NONE else max(thread, 1),
        }
        if run.times is None:
            begin, end, scale = int(spans.start_position[row]), int(spans.end_position[row]), 1.0
        else:
            begin, end, scale = begin - start, end - start, 1e-3
        event |= {"ts": begin * scale, "dur": (end - begin) * scale, "args": {"call": int(spans.call[row])}}
        out.append(event)
    return out


def _ticks(run: Run, positions: I64) -> list[float]:
    """Microseconds at which each position's state begins."""
    if run.events.time is None or run.times is None:
        return positions.astype(np.float64).tolist()
    first = (int(run.events.time[0]) - _start(run)) / 1e3 if run.n_events else 0.0
    out: list[float] = (first + run.times[positions] * 1e6).tolist()
    return out


def _counters(run: Run) -> list[Event]:
    positions = np.unique(np.append(columns(run.curve, 0, run.n_events, MOST_POINTS).position, run.peak_position))
    grouping = run.grouping("category")
    sums = run.groups_at("category", positions.tolist())
    shown = [i for i in range(len(grouping)) if sums[i].any()]
    out = []
    for column, (tick, position) in enumerate(zip(_ticks(run, positions), positions.tolist(), strict=True)):
        args = {grouping.names[i]: int(sums[i, column]) for i in shown}
        out.append({"ph": "C", "name": "active bytes", "pid": 0, "ts": tick, "args": args})
        if run.reserved is not None:
            held = {"reserved": int(run.reserved[position])}
            out.append({"ph": "C", "name": "reserved bytes", "pid": 0, "ts": tick, "args": held})
    return out


def _marks(run: Run) -> list[Event]:
    peak = _ticks(run, np.array([run.peak_position], np.int64))[0]
    out = [_instant(f"peak of {run.peak_bytes:,} bytes", peak)]
    if run.times is None:
        return out
    marks, start = run.recording.marks, _start(run)
    for row in np.flatnonzero(marks.time >= start).tolist():
        text = run.recording.strings[int(marks.text[row])]
        kind = MarkKind(int(marks.kind[row])).name
        out.append(_instant(f"{kind}: {text}", (int(marks.time[row]) - start) / 1e3))
    return out


def _instant(name: str, tick: float) -> Event:
    return {"ph": "i", "s": "g", "name": name, "pid": 0, "tid": STEP_TRACK, "ts": tick}
