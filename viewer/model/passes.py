"""The passes of a run. A pass is a forward through the model with the backward that follows it: a step has one of each
micro-batch whose gradients it adds up, a recording those of all its steps.

What a pass saved is kept at once; what the next one saves takes its place. So a figure of what is kept, and of what
keeping it would cost, is that of one pass: the one with the peak, or, where that is a forward of which nothing is kept
(under `no_grad`, or inside of `torch.func.grad`), the one that saves the most.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I64, NONE, Phase

from .events import DeviceEvents
from .spans import SpanTable


@dataclass(frozen=True, eq=False)
class Passes:
    """One row for each pass, in order of time. They leave no gaps: the first reaches back to the beginning, the last to
    the end, and a step's last has its optimizer step."""

    start_time: I64
    """Unix time in ns."""
    start: I64
    """Position at which it begins."""
    step: I64
    """Number of its step among the recorded ones, from 0."""
    peak: int
    """Row of the pass with the highest moment of the run; of the one that saves the most where that one saves nothing.
    """
    has_peak: bool
    """Whether it is the one with that moment."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def of_peak_step(self) -> I64:
        """Rows of the passes of the step with the peak."""
        return np.flatnonzero(self.step == self.step[self.peak])

    def in_peak_pass(self, time: I64) -> B1:
        """Whether each time (ns) lies in the pass with the peak."""
        found: B1 = self._at(time) == self.peak
        return found

    def in_peak_step(self, time: I64) -> B1:
        """Whether each time (ns) lies in the step with the peak."""
        found: B1 = self.step[self._at(time)] == self.step[self.peak]
        return found

    def _at(self, time: I64) -> I64:
        return np.maximum(np.searchsorted(self.start_time, time, side="right") - 1, 0)

    @property
    def window(self) -> tuple[int, int | None]:
        """(first, last position) of the pass with the peak; None where it goes on to the end."""
        after = self.peak + 1
        return int(self.start[self.peak]), int(self.start[after]) if after < len(self) else None

    @property
    def text(self) -> str:
        """`pass 2 of 4 in recorded step 1 of 3, which has the peak`; empty where the run has just one pass."""
        rows, steps = self.of_peak_step, int(self.step[-1]) + 1
        one = f"pass {self.peak - int(rows[0]) + 1} of {len(rows)}" if len(rows) > 1 else ""
        step = f"recorded step {int(self.step[self.peak]) + 1} of {steps}" if steps > 1 else ""
        said = " in ".join(filter(None, (one, step)))
        return f"{said}, which {'has the peak' if self.has_peak else 'saves the most'}" if said else ""


def passes(recording: Recording, events: DeviceEvents, spans: SpanTable, peak_position: int) -> Passes:
    """A new one begins with each recorded step, and where a module runs forward again after a backward has begun."""
    starts = _step_starts(recording)
    edges: list[int] = []
    steps: list[int] = []
    times, modules, rounds = _forwards(spans)
    step_of = np.searchsorted(starts[1:], times, side="right")
    for step, begin in enumerate(starts.tolist()):
        mine = step_of == step
        edges += [begin, *_repeats(times[mine], modules[mine], rounds[mine])]
        steps += [step] * (len(edges) - len(steps))
    start_time = np.array(edges, np.int64)
    start = events.before_tick(start_time)
    start[0] = 0
    peak = max(int(np.searchsorted(start, max(peak_position - 1, 0), side="right")) - 1, 0)
    saved = _saved_bytes(recording, start_time)
    has_peak = bool(saved[peak] or not saved.any())
    return Passes(start_time, start, np.array(steps, np.int64), peak if has_peak else int(saved.argmax()), has_peak)


def _saved_bytes(recording: Recording, start_time: I64) -> I64:
    """What autograd packed in each pass: bytes, each time that it did."""
    table = recording.saved_tensors
    own = np.flatnonzero((table.storage != NONE) & (table.known == NONE))
    rows = np.maximum(np.searchsorted(start_time, table.time[own], side="right") - 1, 0)
    out = np.zeros(len(start_time), np.int64)
    np.add.at(out, rows, np.maximum(table.storage_bytes[own], 0))
    return out


def _step_starts(recording: Recording) -> I64:
    table = recording.steps
    starts = np.sort(table.start_time[table.recorded])
    return starts if len(starts) else np.zeros(1, np.int64)


def _forwards(spans: SpanTable) -> tuple[I64, I64, I64]:
    """Of each forward of a module, in order of time: when it began, the module, and how many backwards had begun."""
    rows = np.flatnonzero((spans.phase == Phase.forward) & (spans.module != NONE))
    rows = rows[np.argsort(spans.start_time[rows], kind="stable")]
    backward = np.sort(spans.start_time[(spans.phase == Phase.backward) & (spans.module == NONE)])
    times = spans.start_time[rows]
    return times, spans.module[rows].astype(np.int64), np.searchsorted(backward, times, side="right")


def _repeats(times: I64, modules: I64, rounds: I64) -> list[int]:
    """Times at which one of these forwards, all of one step, begins a pass that is not the step's first."""
    found: list[int] = []
    seen: set[int] = set()
    for first, last in _ranges(rounds):
        ran = set(modules[first:last].tolist())
        if seen & ran:
            found.append(int(times[first]))
            seen = set()
        seen |= ran
    return found


def _ranges(rounds: I64) -> list[tuple[int, int]]:
    edges = [0, *(np.flatnonzero(np.diff(rounds)) + 1).tolist(), len(rounds)]
    return list(pairwise(edges)) if len(rounds) else []
