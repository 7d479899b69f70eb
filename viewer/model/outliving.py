"""Memory that lives on for no good reason: small views of large storages, and activations beyond their step."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I32, I64, NONE, Category, Fate, Phase, Severity

from ..look.units import bytes_text
from . import saved, stacks
from .allocations import Allocations
from .attribution import Attribution
from .cut_off import cut_off_position
from .events import DeviceEvents

LARGE = 1 << 20
"""Bytes worth a sentence."""
NAMED = 3
_FOR_BACKWARD = (Category.activation, Category.rematerialized, Category.selective_cache)


def kept_by_views(recording: Recording) -> list[Problem]:
    """Storages of at least 1 MiB of which all that autograd saved is less than half: the view keeps the rest alive."""
    table = recording.saved_tensors
    rows, fates, sizes = saved.distinct(recording)
    seen = np.zeros(int(table.storage.max(initial=NONE)) + 1, np.int64)
    packed = table.storage != NONE
    np.add.at(seen, table.storage[packed], table.tensor_bytes[packed])
    part = seen[table.storage[rows]]
    found = np.flatnonzero(np.isin(fates, (Fate.kept, Fate.rematerialized)) & (sizes >= LARGE) & (2 * part < sizes))
    if not len(found):
        return []
    largest = found[np.argsort(part[found] - sizes[found], kind="stable")]
    user = stacks.first_user_frames(recording)
    said = [
        f"{bytes_text(int(part[i]))} keeps {bytes_text(int(sizes[i]))}{_at(recording, user, int(table.stack[rows[i]]))}"
        for i in largest[:NAMED].tolist()
    ]
    rest = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    text = f"Saved views keep larger storages alive: {', '.join(said)}{rest}."
    both = tuple(int(size) for i in largest[:NAMED].tolist() for size in (part[i], sizes[i]))
    return [Problem("views_keep_storages", Severity.info, text, sizes=both)]


def outlived(recording: Recording, events: DeviceEvents, allocations: Allocations,
             attribution: Attribution) -> list[Problem]:  # fmt: skip
    """What was saved for backward in a step and is alive at the end, though a backward ran.

    A variable may hold it until the next step gives it another value, so of one step it is only said. What outlives
    the step after its own, where two were recorded, is a leak.
    """
    spans = recording.spans
    if not (spans.phase == Phase.backward).any() or cut_off_position(recording, events) is not None:
        return []
    alive = ~allocations.before & (allocations.end > len(events)) & np.isin(attribution.category, _FOR_BACKWARD)
    starts = recording.steps.start_time[recording.steps.recorded]
    leak = len(starts) > 1
    if leak:
        alive &= allocations.start <= events.before_tick(starts[-1:])[0]
    rows = np.flatnonzero(alive)
    whole = int(allocations.bytes[rows].sum())
    if whole < LARGE:
        return []
    total, largest = bytes_text(whole), _largest(recording, allocations, attribution, rows)
    named = [f"{bytes_text(size)}{place}" for place, size in largest[:NAMED]]
    places = ", ".join(named + ([f"{len(largest) - NAMED} more places"] if len(largest) > NAMED else []))
    sizes = whole, *(size for _, size in largest[:NAMED])
    if leak:
        text = f"{total} that was saved for the backward of one step is still alive after the next: {places}."
        return [Problem("activations_leak", Severity.warning, text, sizes=sizes)]
    text = (
        f"{total} that was saved for backward is still alive at the end of the step, and leaks if the next step does"
        f" not let go of it: {places}."
    )
    return [Problem("activations_outlive_step", Severity.info, text, sizes=sizes)]


def _largest(
    recording: Recording, allocations: Allocations, attribution: Attribution, rows: I64
) -> list[tuple[str, int]]:
    """` at train.py:12 (forward)` and its bytes, for the places where they were made, the largest first."""
    table, user = recording.saved_tensors, stacks.first_user_frames(recording)
    packed = attribution.saved[rows]
    stack = np.where(allocations.stack[rows] != NONE, allocations.stack[rows], np.append(table.stack, NONE)[packed])
    places = [_at(recording, user, int(s)) for s in stack.tolist()]
    sums: dict[str, int] = {}
    for place, size in zip(places, allocations.bytes[rows].tolist(), strict=True):
        sums[place] = sums.get(place, 0) + size
    return sorted(sums.items(), key=lambda part: -part[1])


def _at(recording: Recording, user: I32, stack: int) -> str:
    """` at train.py:12 (forward)`: the first frame of the user's own code; empty without a stack."""
    if stack == NONE:
        return ""
    frame, frames, strings = int(user[stack]), recording.frames, recording.strings
    file = strings[int(frames.file[frame])].replace("\\", "/").rsplit("/", 1)[-1]
    name, line = strings[int(frames.name[frame])], int(frames.line[frame])
    return f" at {file}:{line} ({name})" if file else f" in {name}"
