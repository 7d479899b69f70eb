"""Another configuration, another GPU, an emptied cache: what a recording's allocations would have done there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...model.run import Run
from ...model.said import Said, quiet
from .config import Config
from .recorded import Recorded
from .replay import Replay, replay
from .sequence import Op, Sequence, State, empty_state, sequence
from .verified import unverified

ALLOCATED_AFRESH = (
    "What was alive before the first event is allocated again in the order of its addresses: how it came to lie"
    " under other settings is not in the file."
)
MADE_UP = "Where new memory lies is made up, so equally good free blocks may be chosen otherwise than on a GPU."
CPU_KERNELS = "kernels: cpu. The allocations are those of CPU kernels; a GPU's own workspaces are not among them."
NO_FRACTION = "garbage_collection_threshold acts only with a memory fraction; taken to be all of the capacity."
NO_CAPACITY = "garbage_collection_threshold acts only on a GPU of known capacity: it changes nothing here."
OOM_PASSED = "An allocation that failed in the recording passes here; what the program would have done then is unknown."


@dataclass(frozen=True, eq=False)
class WhatIf:
    """A replay under changed conditions, and how far it can be trusted."""

    replay: Replay
    fresh: bool
    """Started from an empty allocator instead of the recorded state."""
    estimates: tuple[str, ...]
    """One sentence for everything that is not measured."""
    unverified: tuple[str, ...]
    """Settings and rules that no real trace has confirmed."""
    empty_cache_at: tuple[int, ...] = ()
    """Events at which the cache was emptied besides."""


def what_if(
    known: Recorded, config: Config | None = None, capacity: int | None = None, empty_cache_at: tuple[int, ...] = (),
    said: Said = quiet,
) -> WhatIf:  # fmt: skip
    """The recording's allocations under these conditions; `config` None keeps the recorded one.

    Events are numbered as in the device's events. Raises ValueError for an event that does not exist.
    """
    conditions = known.config if config is None else config
    kept = known.state.reserved_bytes > 0 and conditions == known.config and _fits(known.state, capacity)
    fresh = not kept and len(known.run.allocations) > 0
    state = known.state if kept else empty_state()
    played = known.sequence if kept else afresh(known)
    if empty_cache_at:
        played = played.with_empty_cache(*_checked(known.run, empty_cache_at))
    done = replay(played, conditions, capacity, state, said)
    return WhatIf(done, fresh, _estimates(known, done, fresh), unverified(known, conditions), empty_cache_at)


def _fits(state: State, capacity: int | None) -> bool:
    return capacity is None or state.reserved_bytes <= capacity


def afresh(known: Recorded) -> Sequence:
    """The recording's sequence with everything that was alive before it allocated first, in order of address."""
    a, s = known.run.allocations, known.sequence
    old = np.flatnonzero(a.before & (a.bytes > 0) & (a.address != 0))
    old = old[np.argsort(a.address[old], kind="stable")]
    first = np.full(len(old), Op.alloc)
    pools = np.zeros(len(old), np.int64)
    return sequence(
        np.concatenate([first, s.kind]), np.concatenate([old, s.id]), np.concatenate([a.bytes[old], s.bytes]),
        np.concatenate([a.stream[old], s.stream]), np.concatenate([pools, s.pool]),
        np.concatenate([np.full(len(old), -1), s.event]), s.count,
    )  # fmt: skip


def _checked(run: Run, events: tuple[int, ...]) -> tuple[int, ...]:
    for event in events:
        if not 0 <= event < run.n_events:
            raise ValueError(f"there is no event {event}: the events of {run.device.name} are 0 to {run.n_events - 1}")
    return events


def _estimates(known: Recorded, done: Replay, fresh: bool) -> tuple[str, ...]:
    """What stands between the figures and a measurement."""
    a, config = known.run.allocations, done.config
    out = [CPU_KERNELS] if known.run.reserved is None else []
    out += [ALLOCATED_AFRESH] if fresh and bool((a.before & (a.address != 0)).any()) else []
    out += [MADE_UP] if done.outcome.moves else []
    if config.garbage_collection_threshold and config.memory_fraction is None:
        out.append(NO_CAPACITY if done.capacity is None else NO_FRACTION)
    played = done.outcome.stopped_at if done.outcome.stopped_at is not None else len(done)
    out += [OOM_PASSED] if (done.sequence.kind[:played] == Op.failed).any() else []
    return tuple(out)
