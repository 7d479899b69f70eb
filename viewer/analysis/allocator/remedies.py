"""Which single change would have let an allocation pass that ran out of memory: each replayed to the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...look.units import bytes_text
from ...model.said import Said, quiet
from .config import Config, parse
from .memory import MOST
from .recorded import Recorded
from .replay import Replay, first_operations, replay
from .rules import ROUND_LARGE
from .sequence import Op, Sequence
from .verified import unverified
from .what_if import WhatIf, afresh, what_if

CHANGES = (
    "expandable_segments:True", "expandable_segments:False", "max_split_size_mb:128", "max_split_size_mb:512",
    "roundup_power2_divisions:8", "garbage_collection_threshold:0.8",
)  # fmt: skip
"""Settings tried one by one, those in force left out."""
EMPTIED = "torch.cuda.empty_cache() right before it"
TRIALS = 16
"""About so many replays are made; for telling how far it is."""

Trial = Callable[[Config, int | None, tuple[int, ...], Said], Replay]
"""A replay under these settings, with this capacity, with the cache emptied at these events besides."""


@dataclass(frozen=True)
class Change:
    """One change, and what came of it in a replay."""

    what: str
    runs_out_at: int | None
    """The event at which memory ran out then; -1 before the first, None where everything replayed passes."""
    peak_reserved_bytes: int
    unverified: tuple[str, ...] = ()
    more_bytes: int | None = None
    """Capacity added, where that is the change."""

    @property
    def passes(self) -> bool:
        """Whether everything that was replayed passes."""
        return self.runs_out_at is None


def of_what_if(known: Recorded, done: WhatIf, event: int, said: Said = quiet) -> tuple[Change, ...]:
    """Changes to a what-if that ran out of memory at this event (-1: before the first), each with the whole trace.

    Each figure is the one that the same what-if has when it is asked for.
    """
    played = done.replay

    def trial(config: Config, capacity: int | None, emptied: tuple[int, ...], said: Said) -> Replay:
        return what_if(known, config, capacity, done.empty_cache_at + emptied, said).replay

    return _changes(known, afresh(known), played.config, played.capacity, event, _Trials(trial, said))


def of_recording(known: Recorded, op: int, capacity: int | None, said: Said = quiet) -> tuple[Change, ...]:
    """Changes to a recording in which an operation ran out of memory, each replayed from an empty allocator up to it.

    What the program would have done after it is not in the file.
    """
    whole = known.sequence if known.state.reserved_bytes == 0 else afresh(known)
    until = int(np.flatnonzero(whole.id == known.sequence.id[op])[0]) + 1
    part = first_operations(whole, until)

    def trial(config: Config, capacity: int | None, emptied: tuple[int, ...], said: Said) -> Replay:
        return replay(part.with_empty_cache(*emptied) if emptied else part, config, capacity, said=said)

    event = int(known.sequence.event[op])
    return _changes(known, part, known.config, capacity, event, _Trials(trial, said))


class _Trials:
    """Replays, which say how far all of them are and can be called off within each."""

    def __init__(self, trial: Trial, said: Said) -> None:
        self._trial, self._said, self._made = trial, said, 0

    def __call__(self, config: Config, capacity: int | None, emptied: tuple[int, ...] = ()) -> Replay:
        made = self._made
        self._made += 1
        return self._trial(config, capacity, emptied, lambda part: self._said(min((made + part) / TRIALS, 1.0)))


def _changes(
    known: Recorded, played: Sequence, config: Config, capacity: int | None, event: int, trial: _Trials
) -> tuple[Change, ...]:
    if capacity is None:
        return ()
    out = []
    for text in CHANGES:
        changed = parse(text, config)
        if changed != config:
            out.append(_change(text, trial(changed, capacity), unverified(known, changed)))
    if event >= 0:
        out.append(_change(EMPTIED, trial(config, capacity, (event,)), unverified(known, config)))
    needed = _needed(played, config, capacity, trial)
    if needed is not None:
        done, more = needed
        out.append(_change(f"{bytes_text(more)} more for the allocator", done, unverified(known, config), more))
    return tuple(out)


def _change(what: str, done: Replay, marks: tuple[str, ...], more: int | None = None) -> Change:
    at = None if done.oom is None else int(done.sequence.event[done.oom])
    return Change(what, at, done.peak_reserved_bytes, marks, more)


def _needed(played: Sequence, config: Config, capacity: int, trial: _Trials) -> tuple[Replay, int] | None:
    """(replay, bytes more) for the least capacity, in steps of 2 MiB, with which all passes; None beyond all machines.

    Found between what is alive at most and what is reserved without a limit, by bisection: what is given back on the
    way depends on the capacity.
    """
    low = max(0, (_most_alive(played) - capacity - 1) // ROUND_LARGE)
    most = trial(config, None).peak_reserved_bytes
    high = max(low + 1, -(-(most - capacity) // ROUND_LARGE))
    while (done := trial(config, capacity + high * ROUND_LARGE)).oom is not None:
        low, high = high, 2 * high
        if capacity + high * ROUND_LARGE > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        tried = trial(config, capacity + middle * ROUND_LARGE)
        if tried.oom is None:
            high, done = middle, tried
        else:
            low = middle
    return done, high * ROUND_LARGE


def _most_alive(played: Sequence) -> int:
    """The most bytes that a sequence has asked for and not freed, at any moment: no capacity below them is enough."""
    size = np.zeros(max(played.count, 1), np.int64)
    made, freed = (played.kind == Op.alloc) | (played.kind == Op.failed), played.kind == Op.free
    size[played.id[made]] = played.bytes[made]
    step = np.zeros(len(played), np.int64)
    step[made] = played.bytes[made]
    step[freed] = -size[played.id[freed]]
    return int(np.cumsum(step).max(initial=0))
