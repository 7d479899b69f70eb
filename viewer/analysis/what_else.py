"""What else than checkpointing would make room, each by itself: by shapes for one rank, and over a recording, where the
allocations that would not be there are taken out of the measured curve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.plan import ModelShape, Plan
from memstrata.capture.format.schema import NONE, Category, Phase

from ..model.query import AllocationQuery
from ..model.run import Run
from .budget import state
from .kept import words
from .kernels import FLOAT32, Kernels, ModelFacts
from .model_facts import facts_of
from .parallel import Parallel
from .prediction import predict
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
    """The measured curve without some allocations: its new peak, and which they are. An estimate: what takes their
    place is not counted beyond `share`."""

    name: str
    peak_bytes: int
    saved_bytes: int
    query: AllocationQuery
    text: str


def without(run: Run) -> tuple[Without, ...]:
    """Over a recording: each change by itself, the largest gain at the peak first; changes without any are left out."""
    found = (_chunked(run), _gradients(run), _eight_bit(run), _offloaded(run))
    real = [each for each in found if each is not None and each.saved_bytes > SMALLEST * run.peak_bytes]
    return tuple(sorted(real, key=lambda each: -each.saved_bytes))


def _taken(run: Run, name: str, rows: np.ndarray[tuple[int], np.dtype[np.int64]], share: float,
           text: str) -> Without | None:  # fmt: skip
    """The curve less `share` of these rows' bytes while they live."""
    if not len(rows) or not run.n_events:
        return None
    change = np.zeros(run.n_events + 2, np.int64)
    sizes = (run.allocations.bytes[rows] * share).astype(np.int64)
    np.add.at(change, np.clip(run.allocations.start[rows], 0, run.n_events + 1), sizes)
    np.add.at(change, np.clip(run.allocations.end[rows], 0, run.n_events + 1), -sizes)
    peak = int((run.curve - np.cumsum(change)[: len(run.curve)]).max())
    query = AllocationQuery(rows=tuple(rows.tolist()))
    return Without(name, peak, run.peak_bytes - peak, query, text)


def _chunked(run: Run) -> Without | None:
    """What the loss keeps outside layers: its own results, and tensors as wide as the vocabulary."""
    table, strings = run.recording.saved_tensors, run.recording.strings
    saved, vocabulary = run.attribution.saved, str(facts_of(run).vocabulary or "")
    rows = []
    for row in np.flatnonzero((saved != NONE) & (run.attribution.layer == NONE)).tolist():
        op, last = words(strings[int(table.op[saved[row]])]), strings[int(table.shape[saved[row]])].rpartition(",")[2]
        if op in _LOSS or (vocabulary and last == vocabulary):
            rows.append(row)
    text = f"the loss in {CHUNKS} chunks keeps no whole log-probabilities; copies made on the way are not counted"
    return _taken(run, "cross-entropy in chunks", np.array(rows, np.int64), 1 - 1 / CHUNKS, text)


def _gradients(run: Run) -> Without | None:
    rows = np.flatnonzero(run.attribution.category == Category.gradient)
    share = 1 - 1 / max(len(run.layers), 1)
    return _taken(
        run, "optimizer in backward", rows, share, "gradients of one layer at a time; no accumulation, no clip by norm"
    )


def _eight_bit(run: Run) -> Without | None:
    rows = np.flatnonzero(run.attribution.category == Category.optimizer_state)
    return _taken(run, "8-bit optimizer states", rows, EIGHT_BIT_SHARE, "moments of one byte instead of four")


def _offloaded(run: Run) -> Without | None:
    """What stays kept under a plan, but for two segments' share."""
    segments = len(plan_in_force(run).segments)
    if segments < 3:
        return None
    born = run.attribution.phase == Phase.forward
    rows = np.flatnonzero((run.attribution.category == Category.activation) & born)
    return _taken(
        run,
        "boundaries offloaded",
        rows,
        1 - 2 / segments,
        "boundaries in host memory but for two; time is not counted",
    )
