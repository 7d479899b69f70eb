"""What else than checkpointing would make room, each by itself: by shapes for one rank, and over a recording, where the
allocations that would not be there are taken out of the measured curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.plan import ModelShape, Plan, Ranges
from memstrata.capture.format.schema import B1, I64, NONE, Category, Phase

from ..model.curves import live_bytes
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .budget import state
from .in_flight import in_flight
from .kept import words
from .kernels import FLOAT32, Kernels, ModelFacts
from .model_facts import facts_of
from .parallel import Parallel
from .place import TRANSIENT
from .planner import Outcome, Planner
from .predicted_curve import at_every_position
from .prediction import predict
from .segment_effect import segment_lives
from .shape import plan_in_force

EIGHT_BIT_SHARE = 0.75
"""Two moments of four bytes become two of one (block-wise scales, 0.2%, not counted)."""
CHUNKS = 16
SMALLEST = 0.001
"""Share of the peak below which a gain is not worth a line."""
_LOSS = frozenset(("log softmax", "nll loss", "cross entropy loss"))


@dataclass(frozen=True)
class Alternative:
    """By how much one change lowers what one rank holds; always an estimate."""

    name: str
    saved_bytes: int
    text: str


def alternatives(
    shape: ModelShape, plan: Plan, parallel: Parallel, kernels: Kernels, facts: ModelFacts
) -> tuple[Alternative, ...]:
    """By shapes, largest first; what cannot apply is left out."""
    _, gradients, optimizer = state(shape.parameters, parallel)
    own, cut = parallel.stage(shape, plan)
    boundaries = predict(own, cut).boundary_bytes
    logits = own.tokens * facts.vocabulary * FLOAT32 // parallel.tensor if kernels.loss == "whole" else 0
    found = (
        Alternative(
            "cross-entropy in chunks", logits - logits // CHUNKS,
            f"chunks: the float32 copy of the logits for a {CHUNKS}th of the tokens at a time",
        ),
        Alternative(
            "optimizer in backward", gradients - gradients // len(shape.layers),
            "optimizer in backward: gradients of one layer at a time; no accumulation and no clipping by norm",
        ),
        Alternative(
            "8-bit optimizer states", optimizer // 2,
            "8-bit states: two moments of one byte instead of four, beside a float32 master weight",
        ),
        Alternative(
            "boundaries offloaded", boundaries - 2 * boundaries // max(len(cut.segments), 1),
            "offload: boundaries wait in host memory but for two, one copy out and one back for each",
        ),
    )  # fmt: skip
    return tuple(sorted((each for each in found if each.saved_bytes > 0), key=lambda each: -each.saved_bytes))


@dataclass(frozen=True)
class Without:
    """The step without some allocations: its new peak, and which they are. An estimate: what takes their place is not
    counted beyond `share`."""

    name: str
    peak_bytes: int
    saved_bytes: int
    query: AllocationQuery
    text: str
    share: float
    """Of these allocations' bytes that is not there."""


@dataclass(frozen=True, eq=False)
class Under:
    """A step under a plan, on top of which something else is changed: the recorded one unless a plan is tried."""

    run: Run
    curve: I64
    """Bytes at each position, the highest moment where a segment is recomputed."""
    boundaries: I64
    """Rows of the allocations that wait between the segments."""
    held_until: I64
    """Position at which each of them is let go."""
    segments: int
    planner: Planner | None = None
    """Of the plan that is tried, with its `ranges` of layers; None for the step as recorded."""
    ranges: Ranges = ()


def as_recorded(run: Run) -> Under:
    """The step as it is. What stays kept under a plan in force are its boundaries."""
    segments = len(plan_in_force(run).segments)
    born = run.attribution.phase == Phase.forward
    rows = np.flatnonzero((run.attribution.category == Category.activation) & born)
    rows = rows if segments else rows[:0]
    return Under(run, run.curve, rows, run.allocations.end[rows], segments)


def under_plan(planner: Planner, outcome: Outcome) -> Under:
    """The step as a plan would make it."""
    run = planner.run
    lives = [life for first, last in outcome.ranges for life in segment_lives(planner.facts, first, last)]
    rows = np.concatenate([life.held for life in lives] or [np.empty(0, np.int64)])
    until = np.concatenate([life.held_until for life in lives] or [np.empty(0, np.int64)])
    held = np.full(len(run.allocations), NONE, np.int64)
    np.maximum.at(held, rows, until)
    rows = np.flatnonzero((held >= 0) & (run.attribution.category != Category.input))
    curve = at_every_position(*outcome.line(), run.n_events)
    return Under(run, curve, rows, held[rows], len(outcome.ranges), planner, outcome.ranges)


def without(run: Run, under: Under | None = None) -> tuple[Without, ...]:
    """Over a recording, or over what a plan would make of it: each change by itself, the largest gain at the peak
    first; changes without any are left out."""
    base = under or as_recorded(run)
    found = (_chunked(base), _gradients(base), _eight_bit(base), _offloaded(base))
    real = [each for each in found if each is not None and each.saved_bytes > SMALLEST * run.peak_bytes]
    return tuple(sorted(real, key=lambda each: -each.saved_bytes))


def _taken(base: Under, name: str, rows: I64, share: float, text: str, end: I64 | None = None) -> Without | None:
    """The curve less `share` of these rows' bytes while they live."""
    run = base.run
    if not len(rows) or not run.n_events:
        return None
    end = run.allocations.end[rows] if end is None else end
    change = np.zeros(run.n_events + 2, np.int64)
    sizes = np.rint(run.allocations.bytes[rows] * share).astype(np.int64)
    np.add.at(change, np.clip(run.allocations.start[rows], 0, run.n_events + 1), sizes)
    np.add.at(change, np.clip(end, 0, run.n_events + 1), -sizes)
    peak, before = int((base.curve - np.cumsum(change)[: len(base.curve)]).max()), int(base.curve.max())
    return Without(name, peak, before - peak, AllocationQuery(rows=tuple(rows.tolist())), text, share)


def _chunked(base: Under) -> Without | None:
    """What the loss keeps outside layers, its own results and tensors as wide as the vocabulary, and what is as large
    and lives between the layers' forward and their backward: the logits, and the gradients of both."""
    run = base.run
    table, strings = run.recording.saved_tensors, run.recording.strings
    saved, vocabulary = run.attribution.saved, str(facts_of(run).vocabulary or "")
    rows = []
    for row in np.flatnonzero((saved != NONE) & (run.attribution.layer == NONE)).tolist():
        op, last = words(strings[int(table.op[saved[row]])]), strings[int(table.shape[saved[row]])].rpartition(",")[2]
        if op in _LOSS or (vocabulary and last == vocabulary):
            rows.append(row)
    found = np.union1d(np.array(rows, np.int64), _as_large(run, rows))
    text = (
        f"head and loss for a {CHUNKS}th of the tokens at a time: logits, log-probabilities and their gradients; the"
        " head's gradient, which then adds up chunk by chunk, is not counted"
    )
    return _taken(base, "cross-entropy in chunks", found, 1 - 1 / CHUNKS, text)


def _as_large(run: Run, rows: list[int]) -> I64:
    """What comes and goes outside layers, made no earlier than the first of these, and is as large as the largest."""
    if not rows:
        return np.empty(0, np.int64)
    largest, first = int(run.allocations.bytes[rows].max()), int(run.allocations.start[rows].min())
    passing = np.isin(run.attribution.category, sorted(TRANSIENT)) & (run.attribution.layer == NONE)
    logits = (run.allocations.start == first - 1) | (run.allocations.start >= first)
    return np.flatnonzero(passing & logits & (run.allocations.bytes == largest) & ~run.allocations.before)


def _gradients(base: Under) -> Without | None:
    rows = np.flatnonzero(base.run.attribution.category == Category.gradient)
    share = 1 - 1 / max(len(base.run.layers), 1)
    return _taken(
        base, "optimizer in backward", rows, share, "gradients of one layer at a time; no accumulation, no clip by norm"
    )


def _eight_bit(base: Under) -> Without | None:
    rows = np.flatnonzero(base.run.attribution.category == Category.optimizer_state)
    return _taken(base, "8-bit optimizer states", rows, EIGHT_BIT_SHARE, "moments of one byte instead of four")


def _offloaded(base: Under) -> Without | None:
    """What waits between the segments, but for two segments' share."""
    if base.segments < 3:
        return None
    text = "boundaries in host memory but for two; time is not counted"
    return _taken(base, "boundaries offloaded", base.boundaries, 1 - 2 / base.segments, text, base.held_until)


@dataclass(frozen=True)
class Stage:
    """One stage of a pipeline, by what was measured: an estimate, since the step itself ran in one piece."""

    layers: tuple[int, int]
    """First layer, last layer + 1."""
    in_flight: int
    """Microbatches whose activations it holds at once, if each is as large as the recorded batch."""
    kept_bytes: int
    """What one of them keeps until its backward."""
    peak_bytes: int
    """All waiting ones, and the one that runs at its own highest moment."""
    query: AllocationQuery


def stages(run: Run, parallel: Parallel, under: Under | None = None) -> tuple[Stage, ...]:
    """Activations of each stage where the layers are dealt out evenly, one forward and one backward each (1F1B); the
    first has what lies before the layers, the last what lies after. Under a plan that is tried its segments are cut at
    the edges of stages. ValueError with one sentence where there are more stages than layers, or none."""
    layers = len(run.layers)
    if not 1 <= parallel.pipeline <= max(layers, 1):
        raise ValueError(f"pipeline={parallel.pipeline} is more than the {layers} layers of this model")
    count = -(-layers // parallel.pipeline)
    activation = np.isin(run.attribution.category, sorted(ACTIVATIONS))
    stage = _stage_of_allocations(run, activation, count, parallel.pipeline)
    out = []
    for number, flight in enumerate(in_flight(parallel)):
        first, stop = (min(edge * count, layers) for edge in (number, number + 1))
        mine = activation & (stage == number)
        if under is None or under.planner is None:
            kept = live_bytes(run.allocations, run.n_events, mine & (run.attribution.phase == Phase.forward))
            whole = live_bytes(run.allocations, run.n_events, mine)
        else:
            whole = live_bytes(run.allocations, run.n_events, mine) + _changed(under.planner, under.ranges, first, stop)
            kept = whole[: int(under.planner.facts.asked_positions.min(initial=run.n_events))]
        waiting, highest = int(kept.max(initial=0)), int(whole.max(initial=0))
        query = AllocationQuery(rows=tuple(np.flatnonzero(mine).tolist()))
        out.append(Stage((first, stop), flight, waiting, (flight - 1) * waiting + highest, query))
    return tuple(out)


def _stage_of_allocations(run: Run, activation: B1, count: int, pipeline: int) -> I64:
    """By the layer, `count` in each stage; outside layers the first stage has what was made before them."""
    stage = np.where(run.attribution.layer >= 0, run.attribution.layer // max(count, 1), NONE)
    began = run.allocations.start[activation & (stage >= 0)]
    early = run.allocations.start < int(began.min(initial=run.n_events))
    return np.where(stage >= 0, stage, np.where(early, 0, pipeline - 1)).astype(np.int64)


def _changed(planner: Planner, ranges: Ranges, first: int, stop: int) -> I64:
    """What the segments, or the parts of them, in these layers change of the activations at each position."""
    cut = ((max(a, first), min(b, stop)) for a, b in ranges)
    return planner.activations_added([planner.effect(a, b) for a, b in cut if a < b])
