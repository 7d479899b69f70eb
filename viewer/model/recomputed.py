"""Two measurements of what recomputation made again, held against each other: autograd's packs and the allocator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, NONE, Category, Fate, Phase, Severity

from ..look.units import bytes_text
from . import saved
from .allocations import Allocations
from .attribution import Attribution
from .spans import SpanTable

_UNEXPLAINED = (Category.temporary, Category.unattributed)


@dataclass(frozen=True)
class Rematerialized:
    """Bytes over the whole step; the two sums differ by `unseen_bytes - unmeasured_bytes`."""

    hooks_bytes: int
    """Distinct storages that autograd packed during a recomputation, and that live in no other way."""
    allocator_bytes: int
    """Allocations born in a recomputation and alive at its end: what is held, whoever holds it."""
    unseen_bytes: int
    """Held beyond a recomputation, but packed by no hook and no known storage."""
    unmeasured_bytes: int
    """Packed as made again, but allocated outside of a recomputation, gone at its end, or by no allocator event."""


def rematerialized(recording: Recording, device_row: int, allocations: Allocations, attribution: Attribution,
                   spans: SpanTable) -> Rematerialized:  # fmt: skip
    """Both measurements of one device."""
    rows, fates, sizes = saved.distinct(recording)
    here = (fates == Fate.rematerialized) & (recording.saved_tensors.device[rows] == device_row)
    hooks = int(sizes[here].sum())
    packed = attribution.category == Category.rematerialized
    held = _held_beyond_recompute(allocations, spans)
    both = int(allocations.bytes[held & packed].sum())
    unseen = int(allocations.bytes[held & np.isin(attribution.category, _UNEXPLAINED)].sum())
    return Rematerialized(hooks, both + unseen, unseen, hooks - both)


def _held_beyond_recompute(allocations: Allocations, spans: SpanTable) -> B1:
    """Allocations born in a recomputation and alive at the position where it ends; recomputations do not overlap."""
    rows = np.flatnonzero((spans.module == NONE) & (spans.phase == Phase.recompute))
    starts, ends = spans.start_position[rows], spans.end_position[rows]
    if len(rows) == 0:
        return np.zeros(len(allocations), np.bool_)
    which = np.searchsorted(starts, allocations.start, side="left") - 1
    inside = (which >= 0) & (allocations.start <= ends[which]) & ~allocations.before
    held: B1 = inside & (allocations.end > ends[which])
    return held


def disagreement(found: Rematerialized) -> list[Problem]:
    """One problem that says by how much the two differ, or none."""
    if not found.unseen_bytes and not found.unmeasured_bytes:
        return []
    text = (
        f"Made again by recomputation: {bytes_text(found.hooks_bytes)} by autograd's packs,"
        f" {bytes_text(found.allocator_bytes)} by the allocator"
        f" ({found.unseen_bytes:,} B outlived a recomputation unpacked,"
        f" {found.unmeasured_bytes:,} B were packed but not allocated in one)."
    )
    sizes = found.hooks_bytes, found.allocator_bytes
    return [Problem("rematerialized_disagrees", Severity.info, text, sizes=sizes)]
