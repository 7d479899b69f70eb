"""Which pool of the allocator each allocation came from, as far as the allocator segments at the end tell."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I32, I64, NONE, Action

from .allocations import Allocations
from .events import DeviceEvents
from .ordering import ascending


def pool_names(recording: Recording, device_row: int) -> tuple[str, ...]:
    """`default pool, large`, `private pool (0, 3), small`, ...: those that have an allocator segment at the end."""
    return tuple(pool_name(*pool) for pool in _pools(recording, device_row)[0].tolist())


def pools_of(recording: Recording, device_row: int, events: DeviceEvents, allocations: Allocations) -> I32:
    """For each allocation the place of its pool among `pool_names`; -1 where it is not known: its allocator segment
    was given back before the end, so that no pool is recorded for it."""
    segments = recording.allocator_segments
    mine = np.flatnonzero(segments.device == device_row)
    order = ascending(segments.address[mine])
    mine, pool = mine[order], _pools(recording, device_row)[1][order]
    if not len(mine):
        return np.full(len(allocations), NONE, np.int32)
    address, size = segments.address[mine], segments.bytes[mine]
    at = np.maximum(np.searchsorted(address, allocations.address, "right") - 1, 0)
    inside = allocations.address - address[at]
    born = np.where(segments.is_expandable[mine], 0, _born(address, events))
    known = (inside >= 0) & (inside < size[at]) & ((allocations.end > born[at]) & (allocations.address != 0))
    return np.where(known, pool[at], NONE).astype(np.int32)


def _pools(recording: Recording, device_row: int) -> tuple[I64, I64]:
    """(owner, id, is small) of each pool of a device, and for each of its allocator segments which it belongs to."""
    segments = recording.allocator_segments
    mine = np.flatnonzero(segments.device == device_row)
    keys = np.stack([segments.pool_owner[mine], segments.pool_id[mine], segments.is_small[mine].astype(np.int64)], 1)
    found, which = np.unique(keys, axis=0, return_inverse=True)
    return found, which.reshape(-1).astype(np.int64)


def pool_name(owner: int, number: int, is_small: int) -> str:
    """`default pool, large`, `private pool (0, 3), small`."""
    pool = f"private pool ({owner}, {number})" if owner or number else "default pool"
    return f"{pool}, {'small' if is_small else 'large'}"


def _born(address: I64, events: DeviceEvents) -> I64:
    """The position at which each of the allocator segments that begin here was last made; 0 where no event made it."""
    made = np.flatnonzero(events.action == Action.segment_alloc)
    if not len(made):
        return np.zeros(len(address), np.int64)
    made = made[ascending(events.address[made])]
    last = np.searchsorted(events.address[made], address, "right") - 1
    found = (last >= 0) & (events.address[made[last]] == address)
    return np.where(found, made[last] + 1, 0)
