"""What one recorded step says about its layers, laid out for asking what any checkpoint plan would make of it.

A *layer run* is one forward of one layer; runs are numbered in order of time. A *pack* is one saving of a storage by
autograd inside the forward; it is *released* when the backward node that asked for it is done.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from memstrata.capture.format.schema import B1, I32, I64, NONE, Category, Fate, Phase, StorageKind

from ..model.matching import Matcher
from ..model.query import ACTIVATIONS
from ..model.run import Run

_LASTING = (StorageKind.parameter, StorageKind.buffer, StorageKind.gradient, StorageKind.optimizer_state)
"""Storages that outlive the step whoever saves them."""


@dataclass(frozen=True, eq=False)
class LayerRuns:
    """One row for each forward of a layer, in order of time; they do not overlap."""

    layer: I32
    start: I64
    """Position at which it begins."""
    stop: I64
    start_time: I64
    stop_time: I64

    def __len__(self) -> int:
        return len(self.layer)

    def at_time(self, time: I64) -> I64:
        """The run that was going on at each of these times (ns), -1 between runs."""
        k = np.searchsorted(self.start_time, time, side="right") - 1
        return np.where((k >= 0) & (time <= self.stop_time[k]), k, NONE).astype(np.int64)

    def of_birth(self, start: I64) -> I64:
        """The run in which allocations with these start positions were made, -1 outside runs."""
        k = np.searchsorted(self.start, start, side="left") - 1
        return np.where((k >= 0) & (start <= self.stop[k]), k, NONE).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Packs:
    """One row for each pack inside a layer run, in order of time."""

    run: I64
    time: I64
    position: I64
    """After the events that had happened when it was packed."""
    row: I64
    """Allocation, -1 for what outlives the step (parameters) or could not be found."""
    asked: I64
    """Position at which backward first asked for it, -1 never."""
    released: I64
    """Position at which the node that asked for it was done with it."""


@dataclass(frozen=True, eq=False)
class StepFacts:
    """The facts of one run. Rows are those of `run.allocations`."""

    run: Run
    runs: LayerRuns
    packs: Packs
    packs_of_run: I64
    """Packs of run k are rows packs_of_run[k] .. packs_of_run[k + 1] of `packs`."""
    birth_run: I64
    """Of each allocation."""
    born_in_run: I64
    """`birth_order[born_in_run[k] : born_in_run[k + 1]]` are the allocations made in run k."""
    birth_order: I64
    inputs_of_run: tuple[I64, ...]
    """Allocations that are there when each run begins, that nothing saved, and that no earlier run found: what a
    checkpoint that begins with this run would hold."""
    asked_positions: I64
    """All positions at which backward asked for something, sorted."""
    is_activation: B1
    is_autocast: B1
    is_input: B1
    outer_packs: tuple[I64, I64]
    """(allocation, released) of packs outside layer runs."""

    in_step: B1
    """Whether each run is one of the step with the peak: what is said of a step is said of that one."""
    in_pass: B1
    """Whether it is one of the pass with the peak."""


def why_not(run: Run) -> str:
    """One sentence where no plan can be predicted from this recording; empty where it can."""
    if not len(run.layers):
        return "The recording knows no layers, so no plan can be predicted from it: record the step with @record_step."
    if run.events.time is None or not len(run.spans):
        return "The recording has no times, so nothing in it can be laid to a layer's forward."
    fates = run.saved_bytes_by_fate()
    again = fates[Fate.dropped] + fates[Fate.rematerialized]
    if again or run.recording.meta.plan or (run.spans.phase == Phase.recompute).any():
        return "The step was recorded with checkpoints in force: a plan is predicted from a recording without them."
    if fates[Fate.offloaded]:
        return "Saved tensors were offloaded in this step: a plan is predicted from a recording that keeps them."
    if not (run.spans.phase == Phase.backward).any():
        return "No backward was recorded, so what checkpointing would do cannot be predicted."
    runs = layer_runs(run)
    if not len(runs):
        return "No layer's forward was seen, so no plan can be predicted."
    if (runs.start_time[1:] < runs.stop_time[:-1]).any():
        return "Layers ran inside one another, so the recording does not say what a segment would recompute."
    return ""


def layer_runs(run: Run) -> LayerRuns:
    """The forwards of the layers."""
    spans = run.spans
    modules = np.append(run.layers.modules, np.int32(-2))
    chosen = np.flatnonzero(
        (spans.phase == Phase.forward) & (spans.layer >= 0) & (spans.module == modules[spans.layer])
    )
    chosen = chosen[np.argsort(spans.start_time[chosen], kind="stable")]
    return LayerRuns(
        spans.layer[chosen],
        spans.start_position[chosen],
        spans.end_position[chosen],
        spans.start_time[chosen],
        spans.end_time[chosen],
    )


def step_facts(run: Run) -> StepFacts:
    """The facts of a recording of which `why_not` says nothing; ValueError with its sentence otherwise."""
    if sentence := why_not(run):
        raise ValueError(sentence)
    runs = layer_runs(run)
    packs, inside = _packs(run, runs)
    birth = np.where(run.allocations.before, NONE, runs.of_birth(run.allocations.start))
    order = np.argsort(birth, kind="stable")
    saved = np.zeros(len(run.allocations) + 1, np.bool_)
    saved[packs.row] = True
    inner = _taken(packs, inside)
    return StepFacts(
        run=run,
        runs=runs,
        packs=inner,
        packs_of_run=np.searchsorted(inner.run, np.arange(len(runs) + 1)).astype(np.int64),
        birth_run=birth,
        born_in_run=np.searchsorted(birth[order], np.arange(len(runs) + 1)).astype(np.int64),
        birth_order=order.astype(np.int64),
        inputs_of_run=_inputs(run, runs, saved[:-1]),
        asked_positions=np.unique(packs.asked[packs.asked >= 0]),
        is_activation=np.isin(run.attribution.category, sorted(ACTIVATIONS)),
        is_autocast=run.attribution.category == Category.autocast_cache,
        is_input=run.attribution.category == Category.input,
        outer_packs=(packs.row[~inside], packs.released[~inside]),
        in_step=run.passes.in_peak_step(runs.start_time),
        in_pass=run.passes.in_peak_pass(runs.start_time),
    )


def _packs(run: Run, runs: LayerRuns) -> tuple[Packs, B1]:
    """All packs of the forward in order of time, and whether each was made inside a layer run."""
    table = run.recording.saved_tensors
    chosen = np.flatnonzero(table.phase == Phase.forward)
    chosen = chosen[np.argsort(table.time[chosen], kind="stable")]
    time = table.time[chosen]
    never = table.unpack_time[chosen] == NONE
    asked = np.where(never, NONE, run.events.started(table.unpack_time[chosen]))
    row = Matcher(run.events, run.allocations).alive(table.address[chosen], time)
    row = np.where(_lasting(run, table.known[chosen]) | (table.address[chosen] == 0), NONE, row)
    found = Packs(runs.at_time(time), time, run.events.started(time), row, asked, _released(run, row, asked))
    return found, found.run >= 0


def _lasting(run: Run, known: I32) -> B1:
    kinds = np.append(run.recording.known_storages.kind, np.uint8(255))[known]
    return np.isin(kinds, [int(kind) for kind in _LASTING])


def _released(run: Run, row: I64, asked: I64) -> I64:
    """A storage dies with the last node that asked for it; other nodes are done when the next one asks."""
    n = run.n_events + 1
    end = np.append(run.allocations.end, n)[row]
    last = np.full(len(run.allocations) + 1, NONE, np.int64)
    np.maximum.at(last, row, asked)
    following = np.append(np.unique(asked[asked >= 0]), n)
    then = following[np.minimum(np.searchsorted(following, asked, side="right"), len(following) - 1)]
    released: I64 = np.where((asked < 0) | (asked == last[row]), end, np.minimum(end, then))
    return released


def _taken(packs: Packs, rows: B1) -> Packs:
    return Packs(**{f.name: getattr(packs, f.name)[rows] for f in fields(Packs)})


def _inputs(run: Run, runs: LayerRuns, saved: B1) -> tuple[I64, ...]:
    """For each run what it finds that was made in this forward, or given to the model, and that nothing saved."""
    allocations = run.allocations
    begins = _forward_begins(run, runs)
    first = np.searchsorted(runs.start, allocations.start, side="left")
    found = np.minimum(first, len(runs) - 1)
    passing = np.isin(run.attribution.category, (Category.temporary, Category.unattributed))
    passing &= ~allocations.before & (allocations.start > begins[found])
    given = run.attribution.category == Category.input
    held = ~saved & (passing | given) & (first < len(runs)) & (runs.start[found] < allocations.end)
    rows = np.flatnonzero(held)
    rows = rows[np.argsort(found[rows], kind="stable")]
    edges = np.searchsorted(found[rows], np.arange(len(runs) + 1))
    return tuple(rows[a:b] for a, b in pairwise(edges))


def _forward_begins(run: Run, runs: LayerRuns) -> I64:
    """Position at which the outermost module around each run begins."""
    spans = run.spans
    outer = np.flatnonzero((spans.phase == Phase.forward) & (spans.module == 0))
    starts = spans.start_position[outer]
    if not len(starts):
        return np.zeros(len(runs), np.int64)
    return starts[np.maximum(np.searchsorted(starts, runs.start, side="right") - 1, 0)]
