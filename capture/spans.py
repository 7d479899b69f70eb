"""Spans that no hook reports directly: the phases of the step, and each layer's backward."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from .format.schema import NONE, Phase
from .step_log import Interval, ModuleCall, StepLog, Unpack


def phase_intervals(log: StepLog) -> list[Interval]:
    """The step cut into phases without gaps, and the recomputations inside backward."""
    bounds = [(t, Phase.forward, True) for t in log.root_times]
    for interval in log.intervals:
        end = interval.end if interval.end != NONE else log.end_time
        bounds += [(interval.start, interval.phase, True), (end, interval.phase, False)]
    cut: list[Interval] = []
    phase, start = Phase.other, log.start_time
    for time, kind, opens in sorted(bounds, key=lambda bound: bound[0]):
        new = _next_phase(phase, kind, opens)
        if kind == Phase.forward and phase != Phase.other:
            continue
        if new != phase:
            cut.append(Interval(phase, start, time))
            phase, start = new, time
    cut.append(Interval(phase, start, log.end_time))
    return [interval for interval in cut if interval.end > interval.start] + _recomputations(log)


def _next_phase(phase: Phase, kind: Phase, opens: bool) -> Phase:
    if opens:
        return kind
    return Phase.other if kind == phase else phase


def _recomputations(log: StepLog) -> list[Interval]:
    """Maximal runs of recompute module calls on one thread."""
    merged: list[Interval] = []
    for call in sorted((c for c in log.calls if c.phase == Phase.recompute), key=lambda c: c.start):
        if merged and call.start <= merged[-1].end:
            merged[-1].end = max(merged[-1].end, call.end)
        elif merged and not _unpacked_between(log.unpacks, merged[-1].end, call.start):
            merged[-1].end = call.end
        else:
            merged.append(Interval(Phase.recompute, call.start, call.end))
    return merged


def recomputed_segments(log: StepLog) -> list[list[nn.Module]]:
    """The outermost modules of each recomputation, in the order of forward: what a silent checkpoint recomputed."""
    segments = []
    for interval in reversed(_recomputations(log)):
        inside = [c for c in log.calls if c.phase == Phase.recompute and interval.start <= c.start <= interval.end]
        outermost = [c for c in inside if not any(o.start < c.start and c.end <= o.end for o in inside if o is not c)]
        segments.append([c.module for c in sorted(outermost, key=lambda c: c.start)])
    return segments


def _unpacked_between(unpacks: list[Unpack], start: int, end: int) -> bool:
    return any(start <= u.end <= end for u in unpacks)


def backward_calls(log: StepLog, owner: Callable[[nn.Module], nn.Module | None]) -> list[ModuleCall]:
    """The backward of each layer, from the moments at which autograd asked for what the layer had saved.

    A hook on the module would insert views into the graph; the unpack events cost nothing and keep nothing. A
    layer's backward begins when its first saved tensor is there (after any recomputation) and ends when the next
    layer's is asked for.
    """
    calls: list[ModuleCall] = []
    for backward in (i for i in log.intervals if i.phase == Phase.backward):
        end = backward.end if backward.end != NONE else log.end_time
        inside = [u for u in log.unpacks if backward.start <= u.end <= end and u.module is not None]
        calls += _runs(sorted(inside, key=lambda u: u.end), end, owner)
    return calls


def _runs(unpacks: list[Unpack], end: int, owner: Callable[[nn.Module], nn.Module | None]) -> list[ModuleCall]:
    calls: list[ModuleCall] = []
    for unpack in unpacks:
        layer = owner(unpack.module) if unpack.module is not None else None
        if layer is None or (calls and calls[-1].module is layer):
            continue
        if calls:
            calls[-1].end = unpack.start
        calls.append(ModuleCall(layer, Phase.backward, unpack.end, end, NONE))
    return calls
