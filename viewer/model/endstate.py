"""Reserved memory at the end, by what it is for and by pool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I64, Severity

from .baseline import ACTIVE


@dataclass(frozen=True)
class EndState:
    """`reserved_bytes = active_bytes + rounding_bytes + cached_bytes`, of a device or of one pool of it."""

    reserved_bytes: int
    active_bytes: int
    """Requested bytes of active blocks."""
    rounding_bytes: int
    """What active blocks hold beyond the request."""
    cached_bytes: int
    """Inactive blocks: held by the allocator, free for the next request of the same pool and stream."""


DEFAULT_POOL = (0, 0)


def end_state(recording: Recording, device_row: int) -> EndState | None:
    """The end state of a device; None where no allocator reports one."""
    if not recording.meta.has_reserved:
        return None
    return _state(recording, recording.allocator_segments.device == device_row)


def pools(recording: Recording, device_row: int) -> dict[tuple[int, int], EndState]:
    """The end state by pool id. The default pool is (0, 0); a private pool's cached bytes serve only itself."""
    segments = recording.allocator_segments
    mine = segments.device == device_row
    ids = sorted(set(zip(segments.pool_owner[mine].tolist(), segments.pool_id[mine].tolist())))
    return {p: _state(recording, mine & (segments.pool_owner == p[0]) & (segments.pool_id == p[1])) for p in ids}


def contradictions(curve: I64, reserved: I64 | None, state: EndState | None) -> list[Problem]:
    """Where a file contradicts itself; both hold in every file that an allocator wrote."""
    out = []
    if reserved is not None and (below := int((reserved < curve).sum())):
        text = "More bytes are allocated than reserved at some moments: the file contradicts itself."
        out.append(Problem("reserved_below_active", Severity.warning, text, below))
    if state is not None and state.reserved_bytes != state.active_bytes + state.rounding_bytes + state.cached_bytes:
        text = "The blocks do not fill their allocator segments: the file contradicts itself."
        out.append(Problem("blocks_do_not_fill_segments", Severity.warning, text))
    return out


def _state(recording: Recording, mine: B1) -> EndState:
    blocks = recording.blocks
    at = np.flatnonzero(mine[blocks.segment])
    active = np.isin(blocks.state[at], ACTIVE)
    held = int(blocks.bytes[at][active].sum())
    requested = int(blocks.requested_bytes[at][active].sum())
    reserved = int(recording.allocator_segments.bytes[mine].sum())
    return EndState(reserved, requested, held - requested, int(blocks.bytes[at][~active].sum()))
