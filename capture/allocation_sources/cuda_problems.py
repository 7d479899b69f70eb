"""What a memory history could not show of the step, said in sentences. Pure."""

from __future__ import annotations

import numpy as np

from ..format import schema
from ..format.problems import Problem
from ..format.schema import NONE, Severity
from ..format.torch_records import TorchRecords
from .cuda_cut import Cut


def problems_of(read: TorchRecords, step: Cut, ring: int | None, still_on: bool) -> list[Problem]:
    """`ring` is the size of our own history, None where the user's was used; `still_on` as the step ended."""
    found = [problem for problem in read.problems if problem.code != "trace_overflowed"]
    names = [device.name for device in read.devices]
    lost = [_lost(names[row], kept, made, ring) for row, (kept, made) in sorted(step.lost.items())]
    if not still_on:
        text = "The memory history was switched off inside the step: what it held until then is lost."
        return [*found, Problem("history_ended", Severity.error, text)]
    if not names:
        text = "The step used no CUDA memory. A step on the CPU is recorded with source='cpu'."
        return [*found, Problem("no_cuda_memory", Severity.error, text)]
    if not lost and ring is not None:
        lost = [_full(names[row], ring) for row in _full_rings(read, len(names), ring)]
    return [*found, *lost, *_without_stacks(step, ring)]


def _lost(name: str, kept: int, made: int, ring: int | None) -> Problem:
    missing = made - kept
    if ring is None:
        text = (
            f"{missing:,} of the step's {made:,} allocations on {name} are missing from the memory history that was on "
            "already, and was left as it was: its max_entries is too small, it keeps only the state, or it skips "
            "actions."
        )
    else:
        text = (
            f"{missing:,} of the step's {made:,} allocations on {name} are missing: the memory history overflowed its "
            f"{ring:,} entries. Record with a larger ring: MEMSTRATA_CUDA_RING."
        )
    return Problem("history_overflowed", Severity.error, text, missing)


def _full_rings(read: TorchRecords, count: int, ring: int) -> list[int]:
    """Devices whose ring is as full as it can be: the oldest entries may be gone, though no allocation of the step."""
    events = read.tables["events"]
    assert isinstance(events, schema.Events)
    return [int(row) for row in np.flatnonzero(np.bincount(events.device, minlength=count) >= ring)]


def _full(name: str, ring: int) -> Problem:
    text = f"The memory history of {name} is full ({ring:,} entries): frees from the step's first moments may be lost."
    return Problem("history_full", Severity.warning, text)


def _without_stacks(step: Cut, ring: int | None) -> list[Problem]:
    if ring is not None or len(step.events) == 0 or bool((step.events.stack != NONE).any()):
        return []
    text = "The memory history that was on already keeps no stacks, and was left as it was."
    return [Problem("history_without_stacks", Severity.info, text)]
