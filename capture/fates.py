"""What became of each saved tensor, once the whole step is known."""

from __future__ import annotations

from .format.schema import NONE, Fate, Phase, StorageKind
from .step_log import Saved, StepLog


def settled_fates(log: StepLog) -> list[Fate]:
    """The fate of each pack, in order.

    A checkpoint drops its own reference, and a recomputation packs what it finds. Neither says that the memory was
    freed and made again: what the selective cache holds, or what forward made outside of the checkpoint and something
    else kept (the checkpoint's input, a mask that a closure captured), lives on from its one allocation and is kept.
    """
    alive = _outlived(log.saved) | _cached(log)
    return [Fate.kept if s.storage in alive and s.fate in _BY_CHECKPOINTS else s.fate for s in log.saved]


_BY_CHECKPOINTS = (Fate.dropped, Fate.rematerialized)


def _outlived(rows: list[Saved]) -> set[int]:
    """Storages dropped in forward and met again by a recomputation; a number is never given twice, so they lived."""
    dropped = {s.storage for s in rows if s.fate == Fate.dropped and s.phase == Phase.forward and s.storage != NONE}
    return {s.storage for s in rows if s.fate == Fate.rematerialized and s.storage in dropped}


def _cached(log: StepLog) -> set[int]:
    known, row = log.storages.known, log.storages.known_row
    rows = {s.storage: row(s.storage) for s in log.saved}
    return {number for number, at in rows.items() if at != NONE and known[at].kind == StorageKind.selective_cache}
