"""Spans that no hook reports directly: the phases of the step, and each layer's backward."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from torch import nn

from .format.schema import NONE, Phase
from .step_log import Interval, ModuleCall, StepLog, Unpack


def phase_intervals(log: StepLog) -> list[Interval]:
    """The step cut into phases without gaps, and the recomputations inside backward.

    Rounds nest: an optimizer's closure runs forward and backward, an optimizer may step inside backward. Forward
    lasts beyond its modules until something else begins, since the loss is computed there.
    """
    cut: list[Interval] = []
    running: list[Phase] = []
    phase, start = Phase.other, log.start_time
    for time, kind, opens in _bounds(log):
        new = _next_phase(phase, kind, opens, running)
        if new != phase:
            cut.append(Interval(phase, start, time))
            phase, start = new, time
    cut.append(Interval(phase, start, log.end_time))
    return [interval for interval in cut if interval.end > interval.start] + _recomputations(log)


def _bounds(log: StepLog) -> list[tuple[int, Phase, bool]]:
    """(time, phase, whether it begins there), in order; at one instant an inner interval ends before its outer one."""
    bounds = []
    for number, interval in enumerate(log.intervals):
        end = interval.end if interval.end != NONE else log.end_time
        if end > interval.start:
            bounds += [(interval.start, True, number, interval.phase), (end, False, -number, interval.phase)]
    return [(time, phase, opens) for time, opens, _, phase in sorted(bounds)]


def _next_phase(phase: Phase, kind: Phase, opens: bool, running: list[Phase]) -> Phase:
    """The phase after a bound; `running` holds what has begun and not ended, and is kept."""
    if opens:
        running.append(kind)
        return kind
    running.reverse()
    running.remove(kind)  # the innermost of its kind: other threads may have begun something since
    running.reverse()
    if kind == Phase.forward and phase == Phase.forward:
        return phase
    return running[-1] if running else Phase.other


def _recomputations(log: StepLog) -> list[Interval]:
    """The recomputations in order, nested ones as one: those announced, and what modules ran outside of those."""
    announced = [Interval(i.phase, i.start, i.end if i.end != NONE else log.end_time) for i in log.recomputations]
    merged: list[Interval] = []
    for interval in sorted(announced + _silent_recomputations(log), key=lambda i: i.start):
        if merged and interval.start <= merged[-1].end:
            merged[-1].end = max(merged[-1].end, interval.end)
        else:
            merged.append(interval)
    return merged


def _silent_recomputations(log: StepLog) -> list[Interval]:
    """Maximal runs of recompute module calls on one thread."""
    merged: list[Interval] = []
    unpacked = sorted(unpack.end for unpack in log.unpacks)
    for call in sorted((c for c in log.calls if c.phase == Phase.recompute), key=lambda c: c.start):
        if merged and (call.start <= merged[-1].end or not _any_between(unpacked, merged[-1].end, call.start)):
            merged[-1].end = max(merged[-1].end, call.end)
        else:
            merged.append(Interval(Phase.recompute, call.start, call.end))
    return merged


def _any_between(times: list[int], start: int, end: int) -> bool:
    return bisect_left(times, start) < bisect_right(times, end)


def recomputed_segments(log: StepLog) -> list[list[nn.Module]]:
    """The outermost modules of each recomputation, in the order of forward: what a silent checkpoint recomputed."""
    recomputations = _recomputations(log)
    starts = [interval.start for interval in recomputations]
    segments: list[list[nn.Module]] = [[] for _ in recomputations]
    ends = [NONE] * len(recomputations)
    for call in sorted((c for c in log.calls if c.phase == Phase.recompute), key=lambda c: (c.start, -c.end)):
        number = bisect_right(starts, call.start) - 1
        if call.end > ends[number]:
            segments[number].append(call.module)
            ends[number] = call.end
    return segments[::-1]


def backward_calls(log: StepLog, owner: Callable[[nn.Module], nn.Module | None]) -> list[ModuleCall]:
    """The backward of each layer, from the moments at which autograd asked for what the layer had saved.

    A hook on the module would insert views into the graph; the unpack events cost nothing and keep nothing. A
    layer's backward begins when its first saved tensor is there (after any recomputation) and ends when the next
    layer's is asked for.
    """
    calls: list[ModuleCall] = []
    unpacks = sorted((u for u in log.unpacks if u.module is not None), key=lambda u: u.end)
    times = [unpack.end for unpack in unpacks]
    for backward in (i for i in log.intervals if i.phase == Phase.backward):
        end = backward.end if backward.end != NONE else log.end_time
        calls += _runs(unpacks[bisect_left(times, backward.start) : bisect_right(times, end)], end, owner)
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
