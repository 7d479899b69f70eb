"""What one checkpoint segment changes in a measured step.

In forward the tensors that only the segment's own layers save die with the layer that saves them last; whatever the
segment starts from is held until its backward is done. When backward first asks for one of its tensors, its layers
run again up to their last pack (a checkpoint stops there): on top of what is alive then come the forward's own
growth and temporaries, as measured. What is made again dies where it died in the measured backward.

A selective checkpoint keeps the outputs of some operators from forward on, those too that no backward needs, until
their call comes again in the recomputation and hands them out; calls after the last pack never come again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import B1, I64, NONE

from .operators import Kept
from .step_facts import StepFacts

RANDOM_STATE_BYTES = 5056
"""What a checkpoint keeps to draw the same random numbers again on a CPU: torch's generator state."""


@dataclass(frozen=True, eq=False)
class SegmentEffect:
    """Changes of the curve, as bytes added from a position on. Effects of segments that do not overlap add up."""

    positions: I64
    deltas: I64
    """Of all bytes."""
    activation_deltas: I64
    cached_deltas: I64
    """Of what a selective checkpoint's cache holds."""
    recomputed: tuple[tuple[int, int, int], ...]
    """For each time it runs again: (position, bytes of the highest moment of the recomputation over what was alive
    before it, bytes made again and alive after it)."""
    seconds: float
    """Of forward run again in one step, as recorded."""
    checkpoints: int
    """How often it runs again in one step."""
    layers_again: int
    """Forwards of layers that are run again in one step."""


@dataclass(frozen=True, eq=False)
class _Piece:
    """Changes of one kind: from `start` to `stop` `bytes` more."""

    start: I64
    stop: I64
    bytes: I64
    activation: I64
    """Bytes of it that are activations."""
    cached: I64 | None = None
    """Bytes that a selective checkpoint's cache holds, none where this is None."""


def segment_effect(facts: StepFacts, first: int, last: int, kept: Kept | None = None) -> SegmentEffect:
    """The effect of one segment of layers first .. last - 1 (rows of the layers), in every pass; `kept` says what a
    selective checkpoint keeps inside."""
    pieces: list[_Piece] = []
    recomputed: list[tuple[int, int, int]] = []
    seconds, checkpoints, layers_again = 0.0, 0, 0
    for a, b in _passes(facts, first, last):
        more, moment, time = _one_pass(facts, a, b, kept)
        pieces += more
        recomputed += moment
        if facts.in_step[a]:
            seconds += time
            checkpoints += len(moment)
            layers_again += (b - a) * len(moment)
    start, stop, size, activation = (
        np.concatenate([getattr(piece, name) for piece in pieces] or [np.empty(0, np.int64)])
        for name in ("start", "stop", "bytes", "activation")
    )
    none = [np.zeros(len(piece.start), np.int64) if piece.cached is None else piece.cached for piece in pieces]
    cached = np.concatenate(none or [np.empty(0, np.int64)])
    return SegmentEffect(
        np.concatenate([start, stop]),
        np.concatenate([size, -size]),
        np.concatenate([activation, -activation]),
        np.concatenate([cached, -cached]),
        tuple(recomputed),
        seconds,
        checkpoints,
        layers_again,
    )


@dataclass(frozen=True, eq=False)
class SegmentLives:
    """Which allocations live otherwise in one pass of a segment: rows of the run's allocations, with positions."""

    dropped: I64
    dropped_at: I64
    released: I64
    """Where what is made again for each dropped one dies."""
    recompute: int
    """Where the segment runs again, before the state at this position."""
    born: I64
    """All that the runs made until the last pack, in order: what happens again."""
    stopped: int
    held: I64
    held_until: I64


def segment_lives(facts: StepFacts, first: int, last: int) -> list[SegmentLives]:
    """What one segment of layers first .. last - 1 makes of single allocations, in every pass that backward needs."""
    found = []
    for a, b in _passes(facts, first, last):
        packs = slice(int(facts.packs_of_run[a]), int(facts.packs_of_run[b]))
        asked, row, run = facts.packs.asked[packs], facts.packs.row[packs], facts.packs.run[packs]
        if not (asked >= 0).any():
            continue
        born = np.append(facts.birth_run, NONE)[row]
        own = (row >= 0) & (born >= a) & (born < b)
        again, released = _highest(row[own], facts.packs.released[packs][own])
        stop, _ = _drop_positions(facts, again, _last(row[own], run[own]), b)
        stopped = int(facts.packs.position[packs].max())
        made = facts.birth_order[int(facts.born_in_run[a]) : int(facts.born_in_run[b])]
        held = np.append(np.unique(row[(row >= 0) & ~own]), facts.inputs_of_run[a]).astype(np.int64)
        until = np.maximum(facts.run.allocations.end[held], _done(facts, packs))
        made = np.sort(made[facts.run.allocations.start[made] <= stopped])
        recompute = int(asked[asked >= 0].min())
        found.append(SegmentLives(again, stop, released, recompute, made, stopped, held, until))
    return found


def _passes(facts: StepFacts, first: int, last: int) -> Iterable[tuple[int, int]]:
    """Ranges of runs that are recomputed together: layers of the segment that ran one after the other."""
    layer = facts.runs.layer
    inside = (layer >= first) & (layer < last)
    follows = np.append(False, inside[1:] & inside[:-1] & (layer[1:] == layer[:-1] + 1))
    begins = np.flatnonzero(inside & ~follows)
    for begin in begins.tolist():
        end = begin + 1
        while end < len(layer) and follows[end]:
            end += 1
        yield begin, end


def _one_pass(
    facts: StepFacts, a: int, b: int, kept: Kept | None
) -> tuple[list[_Piece], list[tuple[int, int, int]], float]:
    """The changes where runs a .. b - 1 are one segment."""
    packs = slice(int(facts.packs_of_run[a]), int(facts.packs_of_run[b]))
    asked = facts.packs.asked[packs]
    if not (asked >= 0).any():  # nothing of it takes part in backward
        return [], [], 0.0
    row, run = facts.packs.row[packs], facts.packs.run[packs]
    known = row >= 0
    born = np.append(facts.birth_run, NONE)[row]
    own = known & (born >= a) & (born < b)
    done = _done(facts, packs)
    recompute = int(asked[asked >= 0].min())
    stopped = int(facts.packs.position[packs].max())
    saved = np.unique(row[own])
    if kept is not None:
        own &= ~np.append(kept.outputs, False)[row]
    again, released = _highest(row[own], facts.packs.released[packs][own])
    pieces = [
        _dropped(facts, again, _last(row[own], run[own]), b),
        _made_again(facts, again, recompute, released),
        _held(facts, a, np.unique(row[known & ~np.isin(row, saved)]), done),
        _random_state(facts, a, done),
    ]
    handed, handed_bytes = np.empty(0, np.int64), 0
    if kept is not None:
        outputs = _born(facts, a, b)
        outputs = outputs[kept.outputs[outputs]]
        unsaved = outputs[~np.isin(outputs, saved)]
        pieces += [_cached(facts, outputs), _unsaved(facts, unsaved, recompute, done, stopped)]
        handed = unsaved[facts.run.allocations.start[unsaved] <= stopped]
        handed = handed[facts.run.allocations.end[handed] <= recompute]
        handed_bytes = int(facts.run.allocations.bytes[handed].sum())
    growth = _growth(facts, a, b, stopped, kept, handed)
    made = int(facts.run.allocations.bytes[again].sum()) - handed_bytes
    return pieces, [(recompute, growth, made)], _seconds(facts, a, b, packs, kept)


def _seconds(facts: StepFacts, a: int, b: int, packs: slice, kept: Kept | None) -> float:
    """Forward of runs a .. b - 1 up to the last pack, without the calls that do not happen again."""
    last = int(facts.packs.time[packs].max())
    time = last - int(facts.runs.start_time[b - 1])
    time += int((facts.runs.stop_time[a : b - 1] - facts.runs.start_time[a : b - 1]).sum())
    if kept is None:
        return time / 1e9
    rows = _born(facts, a, b)
    rows = rows[facts.run.allocations.start[rows] <= int(facts.packs.position[packs].max())]
    return max(time / 1e9 - float(kept.seconds[rows].sum()), 0.0)


def _born(facts: StepFacts, a: int, b: int) -> I64:
    """Allocations made in runs a .. b - 1."""
    return facts.birth_order[int(facts.born_in_run[a]) : int(facts.born_in_run[b])]


def _cached(facts: StepFacts, outputs: I64) -> _Piece:
    """What the checkpoint's cache holds is a category of its own for as long as it lives, never an activation."""
    size = facts.run.allocations.bytes[outputs]
    activation = np.where(facts.is_activation[outputs], -size, 0)
    start, end = facts.run.allocations.start[outputs], facts.run.allocations.end[outputs]
    return _Piece(start, end, 0 * size, activation, size)


def _unsaved(facts: StepFacts, rows: I64, recompute: int, done: int, stopped: int) -> _Piece:
    """Kept though no backward of the segment needs them: until they are handed out, or with the checkpoint."""
    end, size = facts.run.allocations.end[rows], facts.run.allocations.bytes[rows]
    until = np.where(facts.run.allocations.start[rows] <= stopped, recompute, done)
    return _Piece(end, np.maximum(end, until), size, 0 * size, size)


def _done(facts: StepFacts, packs: slice) -> int:
    """Where the last node of the segment is done in backward, and with it all that the checkpoint holds."""
    asked, row = facts.packs.asked[packs], facts.packs.row[packs]
    latest = asked == asked.max()
    rows = row[latest & (row >= 0)]
    rows = rows[~_saved_elsewhere(facts, rows, packs)]
    if len(rows):
        return int(facts.run.allocations.end[rows].max())
    after = facts.asked_positions
    then = int(np.searchsorted(after, asked.max(), side="right"))
    return int(after[then]) if then < len(after) else int(facts.packs.released[packs].max())


def _saved_elsewhere(facts: StepFacts, rows: I64, packs: slice) -> B1:
    """Whether each of these allocations is also saved before the segment: then it dies later than the segment."""
    before = facts.packs.row[: packs.start]
    return np.isin(rows, before) | np.isin(rows, facts.outer_packs[0])


def _highest(row: I64, value: I64) -> tuple[I64, I64]:
    """(distinct rows, the highest value of each)."""
    rows, where = np.unique(row, return_inverse=True)
    out = np.full(len(rows), NONE, np.int64)
    np.maximum.at(out, where, value)
    return rows, out


def _last(row: I64, run: I64) -> I64:
    return _highest(row, run)[1]


def _dropped(facts: StepFacts, rows: I64, last_run: I64, b: int) -> _Piece:
    """The originals: alive until the layer that saves them last is done, or until others that save them are. In truth
    each dies with the last variable of the model's own code that names it. A recording cannot say when that is, because
    autograd holds the tensor longer: so inside a layer's forward this is the most that can be alive."""
    end = facts.run.allocations.end[rows]
    stop, survives = _drop_positions(facts, rows, last_run, b)
    size = facts.run.allocations.bytes[rows]
    alive = np.where(survives, stop, facts.run.allocations.start[rows])
    activation = _Piece(alive, end, 0 * size, np.where(facts.is_activation[rows], -size, 0))
    whole = _Piece(stop, end, -size, 0 * size)
    return _both(whole, activation)


def _drop_positions(facts: StepFacts, rows: I64, last_run: I64, b: int) -> tuple[I64, B1]:
    """(where each original dies, whether others than the segment keep it that long)."""
    end = facts.run.allocations.end[rows]
    stop = facts.runs.stop[last_run]
    stop = np.where(facts.is_autocast[rows], np.maximum(stop, _cache_exit(facts)), stop)
    later_from = int(facts.packs_of_run[b])
    others = np.append(facts.packs.row[later_from:], facts.outer_packs[0])
    released = np.append(facts.packs.released[later_from:], facts.outer_packs[1])
    shared = np.isin(others, rows)
    place = np.searchsorted(rows, others[shared])
    survives = np.zeros(len(rows), np.bool_)
    survives[place] = True
    np.maximum.at(stop, place, released[shared])
    return np.minimum(stop, end), survives


def _both(one: _Piece, other: _Piece) -> _Piece:
    return _Piece(*(np.append(getattr(one, n), getattr(other, n)) for n in ("start", "stop", "bytes", "activation")))


def _cache_exit(facts: StepFacts) -> int:
    """Where autocast drops its copies of weights: where those end that nothing saved, else with the last layer run."""
    cached = np.flatnonzero(facts.is_autocast)
    unsaved = cached[~np.isin(cached, facts.packs.row)]
    ends = facts.run.allocations.end[unsaved]
    return int(ends.max()) if len(ends) else int(facts.runs.stop[-1])


def _made_again(facts: StepFacts, rows: I64, recompute: int, released: I64) -> _Piece:
    size = facts.run.allocations.bytes[rows]
    start = np.full(len(rows), recompute, np.int64)
    return _Piece(start, np.maximum(released, start), size, np.where(facts.is_activation[rows], size, 0))


def _held(facts: StepFacts, a: int, saved: I64, done: int) -> _Piece:
    """What the segment starts from: saved inside or not, a checkpoint holds it to the end."""
    unsaved = facts.inputs_of_run[a]
    rows = np.append(saved, unsaved)
    end, size = facts.run.allocations.end[rows], facts.run.allocations.bytes[rows]
    stop = np.maximum(end, done)
    held = _Piece(end, stop, size, np.where(facts.is_activation[rows], size, 0))
    end, start, size = facts.run.allocations.end[unsaved], facts.run.allocations.start[unsaved], size[len(saved) :]
    now = np.where(facts.is_input[unsaved], 0, size)  # saved by the checkpoint, so an activation now
    counted = _Piece(start, np.maximum(end, done), 0 * size, now)
    return _both(held, counted)


def _random_state(facts: StepFacts, a: int, done: int) -> _Piece:
    size = RANDOM_STATE_BYTES if facts.run.recording.meta.source == "cpu" else 0
    start = facts.runs.start[a : a + 1]
    return _Piece(start, np.array([done]), np.array([size]), np.zeros(1, np.int64))


def _growth(facts: StepFacts, a: int, b: int, stopped: int, kept: Kept | None, handed: I64) -> int:
    """The highest moment of runs a .. b - 1 up to the position `stopped`, counting only what they make again; what is
    `handed` out of the cache, and not saved, is let go of where it died in forward."""
    rows = _born(facts, a, b)
    allocations = facts.run.allocations
    rows = rows[allocations.start[rows] <= stopped]
    if kept is not None:
        rows = rows[~kept.inside[rows]]
    begin = int(facts.runs.start[a])
    width = stopped - begin + 2
    size = allocations.bytes.astype(np.float64)
    gone = np.append(rows, handed)
    delta = np.bincount(allocations.start[rows] - begin, size[rows], width)
    delta = delta - np.bincount(np.minimum(allocations.end[gone] - begin, width), size[gone], width + 1)[:width]
    return int(delta[: width - 1].cumsum().max(initial=0))
