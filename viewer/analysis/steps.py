"""The steps of a recording one by one: what each needed, what it left behind, and how fast steps run unrecorded."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I64, NONE, Category

from ..model.query import AllocationQuery
from ..model.run import Run

NAMED = 3
"""Groups named for the growth of one step."""


@dataclass(frozen=True)
class Remainder:
    """Bytes of one category from one place that are alive after a step and were not after the step before; negative
    where there are fewer."""

    category: Category
    frame: str
    bytes: int


@dataclass(frozen=True)
class StepFigures:
    """One step. Memory is that of one device, None for a step that was only timed."""

    index: int | None
    recorded: bool
    seconds: float | None
    """None for a step that was cut off."""
    tokens: int | None
    loss: float | None
    peak_bytes: int | None = None
    peak_position: int | None = None
    end_bytes: int | None = None
    """Alive when it ended."""
    growth_bytes: int | None = None
    """How much more than when the recorded step before it ended; None for the first one."""
    remainders: tuple[Remainder, ...] = ()
    """What that growth is made of, the largest first; they sum to it."""
    query: AllocationQuery | None = None
    """What is alive at its peak."""

    @property
    def tokens_per_second(self) -> float | None:
        """None where tokens or time are not known."""
        return self.tokens / self.seconds if self.tokens is not None and self.seconds else None


@dataclass(frozen=True)
class SteadyState:
    """The first recorded step against the median of the later complete ones."""

    peak_bytes: int
    """How much more the first needed."""
    seconds: float
    """How much longer it took."""


def steps_of(run: Run) -> tuple[StepFigures, ...]:
    """All steps of a recording in order of time, on the device of this run."""
    table = run.recording.steps
    figures: list[StepFigures] = []
    before: int | None = None
    for row in range(len(table)):
        step = _timed(run.recording, row)
        if step.recorded and "time" in run.capabilities:
            start, end = _positions(run, row)
            step = _measured(run, step, start, end, before)
            before = end
        figures.append(step)
    return tuple(figures)


def steady_state(steps: tuple[StepFigures, ...]) -> SteadyState | None:
    """None unless at least two complete steps were recorded."""
    whole = [s for s in steps if s.recorded and s.seconds is not None and s.peak_bytes is not None]
    if len(whole) < 2:
        return None
    peaks = [s.peak_bytes for s in whole if s.peak_bytes is not None]
    seconds = [s.seconds for s in whole if s.seconds is not None]
    return SteadyState(round(peaks[0] - median(peaks[1:])), seconds[0] - median(seconds[1:]))


def throughput(recording: Recording) -> float | None:
    """Tokens per second of the unrecorded steps whose tokens are known, at least two of them; None if unknown.

    The first step of a run, slowed by lazy initialisation, is left out.
    """
    table = recording.steps
    known = ~table.recorded & (table.tokens >= 0) & (table.end_time != NONE) & (table.index != 0)
    seconds = float((table.end_time - table.start_time)[known].sum()) / 1e9
    return float(table.tokens[known].sum()) / seconds if known.sum() >= 2 and seconds > 0 else None


def steps_timed(recording: Recording) -> int:
    """How many unrecorded steps the step time is the median of; of more than two the first of a run does not count."""
    table = recording.steps
    timed = ~table.recorded & (table.end_time != NONE)
    number = int(timed.sum())
    return int((timed & (table.index != 0)).sum()) if number > 2 else number


def _timed(recording: Recording, row: int) -> StepFigures:
    table = recording.steps
    index, tokens, end = int(table.index[row]), int(table.tokens[row]), int(table.end_time[row])
    loss = float(table.loss[row])
    return StepFigures(
        index=None if index == NONE else index,
        recorded=bool(table.recorded[row]),
        seconds=None if end == NONE else (end - int(table.start_time[row])) / 1e9,
        tokens=None if tokens == NONE else tokens,
        loss=None if np.isnan(loss) else loss,
    )


def _positions(run: Run, row: int) -> tuple[int, int]:
    """Between which positions the step ran; one that was cut off ran to the end."""
    table = run.recording.steps
    start = int(run.events.before_tick(table.start_time[row : row + 1])[0])
    if table.end_time[row] == NONE:
        return start, run.n_events
    return start, max(start, int(run.events.started(table.end_time[row : row + 1])[0]))


def _measured(run: Run, step: StepFigures, start: int, end: int, before: int | None) -> StepFigures:
    peak = start + int(np.argmax(run.curve[start : end + 1]))
    grown = None if before is None else int(run.curve[end] - run.curve[before])
    return StepFigures(
        step.index, step.recorded, step.seconds, step.tokens, step.loss, int(run.curve[peak]), peak,
        int(run.curve[end]), grown, () if before is None else _remainders(run, before, end),
        AllocationQuery(position=peak),
    )  # fmt: skip


def _remainders(run: Run, before: int, end: int) -> tuple[Remainder, ...]:
    """What is alive after minus what was alive before, by category and by the user's line that allocated it."""
    frames = run.grouping("frame")
    labels = run.attribution.category.astype(np.int64) * len(frames) + frames.labels
    sums: dict[int, int] = {}
    for sign, position in ((1, end), (-1, before)):
        alive = run.allocations.alive(position)
        found, where = np.unique(labels[alive], return_inverse=True)
        sizes: I64 = np.zeros(len(found), np.int64)
        np.add.at(sizes, where, run.allocations.bytes[alive])
        for label, size in zip(found.tolist(), sizes.tolist(), strict=True):
            sums[label] = sums.get(label, 0) + sign * size
    order = sorted((label for label, size in sums.items() if size), key=lambda label: -sums[label])
    return tuple(
        Remainder(Category(label // len(frames)), frames.names[label % len(frames)], sums[label]) for label in order
    )
