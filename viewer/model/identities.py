"""The accounting identities that must hold for every run, checked by arithmetic of their own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memstrata.capture.format.schema import I64

from .curves import at_positions
from .grouping import available
from .run import Run

_DENSE = 4096
"""Up to so many events every position is checked, in longer runs that many of them."""


def check(run: Run) -> list[str]:
    """What does not add up, one sentence each; empty if everything does.

    active = sum over the table = sum over categories = sum over layers and outside, at every instant, and never below
    zero; `baseline_bytes` = what was alive before; reserved >= active and reserved = active + rounding + cached,
    unless the file contradicts itself, which must then be among the problems.
    """
    where = _positions(run)
    return [*_rows(run, where), *_groups(run, where), *_figures(run), *_reserved(run)]


def _positions(run: Run) -> I64:
    if run.n_events <= _DENSE:
        return np.arange(run.n_events + 1, dtype=np.int64)
    chosen = np.linspace(0, run.n_events, _DENSE).astype(np.int64)
    return np.unique(np.append(chosen, run.peak_position))


def _rows(run: Run, where: I64) -> Iterator[str]:
    allocations = run.allocations
    one_group = np.zeros(len(allocations), np.int32)
    if not np.array_equal(at_positions(allocations, one_group, 1, where)[0], run.curve[where]):
        yield "the rows of the table do not sum to the curve"
    if len(run.curve) != run.n_events + 1 or int(run.curve.min()) < 0:
        yield "the curve is below zero or has the wrong length"
    if (allocations.start >= allocations.end).any() or (allocations.bytes < 0).any():
        yield "an allocation ends before it begins, or has negative bytes"


def _groups(run: Run, where: I64) -> Iterator[str]:
    for key in available(run):
        if not np.array_equal(run.groups_at(key, where).sum(axis=0), run.curve[where]):
            yield f"the groups by {run.grouping(key).title} do not sum to the curve"


def _figures(run: Run) -> Iterator[str]:
    before = int(run.allocations.bytes[run.allocations.start == 0].sum())
    if before != run.baseline_bytes:
        yield f"baseline {run.baseline_bytes}, but the rows alive at the start hold {before}"
    if sum(run.categories_at(run.peak_position).values()) != run.peak_bytes:
        yield "the categories at the peak do not sum to it"
    if not 0.0 <= run.coverage_at(run.peak_position) <= 1.0:
        yield "the coverage at the peak is not a share"


def _reserved(run: Run) -> Iterator[str]:
    known = {problem.code for problem in run.problems}
    if run.reserved is not None and (run.reserved < run.curve).any() and "reserved_below_active" not in known:
        yield "less is reserved than active"
    state = run.end_state
    if state is None or known & {"blocks_do_not_fill_segments", "end_state_differs", "sizes_differ"}:
        return
    if run.reserved is not None and state.reserved_bytes != int(run.reserved[-1]):
        yield "reserved memory at the end differs from its segments"
    if state.active_bytes != run.end_bytes:
        yield f"{run.end_bytes} bytes are active at the end, but the blocks hold {state.active_bytes}"
    if state.reserved_bytes - state.active_bytes - state.rounding_bytes != state.cached_bytes:
        yield "cached memory is not what is left of reserved memory"
