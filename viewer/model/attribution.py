"""The one place that decides the category and the layer of an allocation, from recorded facts.

In this order: a known storage (parameter, gradient, ...) says what it is; what collectives allocate inside is known
by its stack, cuBLAS workspaces by their size or their stack; what autograd kept is an activation, what it packed
during a recompute is rematerialized; what was born and freed inside the step is temporary; the rest is unattributed.
What was alive before the recording and is no known storage is unattributed too.

A plain snapshot recorded none of this. There, what nothing recorded explains is what `inference` finds evidence for,
and marked so; a recording is never inferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I32, I64, NONE, U8, Category, Fate, Phase, StorageKind

from . import stacks
from .allocations import Allocations
from .events import DeviceEvents
from .inference import Inferred
from .layers import LayerTree
from .matching import Matcher
from .spans import SpanTable
from .stamped import Running, running

WORKSPACE_BYTES = 8_519_680
"""torch's default cuBLAS workspace on most devices: 2 x 4 MiB + 8 x 16 KiB, `CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8`."""

_WORKSPACE_STACK = r"getNewWorkspace|getChosenWorkspaceSize|BlasLtWorkspace|getCurrent\w*BlasHandle|cublas\w*Workspace"

_COMMUNICATION_STACK = r"^(c10d|_c10d_functional|gloo|nccl|mpi|ucc):"
"""Operators of torch's collectives, and what their backends call their work: they copy tensors while they run."""

_OF_KIND = {
    StorageKind.parameter: Category.parameter,
    StorageKind.buffer: Category.buffer,
    StorageKind.optimizer_state: Category.optimizer_state,
    StorageKind.gradient: Category.gradient,
    StorageKind.input: Category.input,
    StorageKind.communication: Category.communication,
    StorageKind.selective_cache: Category.selective_cache,
    StorageKind.autocast_cache: Category.autocast_cache,
}
"""In order of precedence, where one storage is known as two things."""

_OF_FATE = {Fate.kept: Category.activation, Fate.rematerialized: Category.rematerialized}
"""Autograd does not hold what was dropped or offloaded, so those fates say nothing about the original."""

_FATES = (Fate.kept, Fate.rematerialized, Fate.offloaded, Fate.dropped)
"""In order of precedence, where one allocation was packed several times."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """One value for each allocation."""

    category: U8
    layer: I32
    """-1 outside layers."""
    super_block: I32
    phase: U8
    """The phase it was born in; `other` before the recording and outside all spans."""
    module: I32
    """Row of modules, -1 none."""
    known: I32
    """Row of known_storages that explains it, -1 none."""
    saved: I32
    """Row of saved_tensors in which autograd packed it (the one that says most), -1 none."""
    inferred: B1
    """Whether the category was not recorded but inferred from stacks, annotations and lifetimes."""


@dataclass(frozen=True, eq=False)
class Facts:
    """What attribution looks at."""

    recording: Recording
    device_row: int
    events: DeviceEvents
    allocations: Allocations
    layers: LayerTree
    spans: SpanTable
    inferred: Inferred | None = None
    """What a plain snapshot tells; None for a recording."""


def attribute(facts: Facts) -> Attribution:
    """Category, layer, phase and module of every allocation."""
    matcher = Matcher(facts.events, facts.allocations)
    known = _known(facts, matcher)
    saved, packer = _saved(facts, matcher)
    ran = running(facts.recording, facts.events, facts.layers, facts.spans)
    module, layer = _places(facts, known, packer, ran)
    category = _categories(facts, known, saved)
    inferred = np.zeros(len(category), np.bool_)
    if facts.inferred is not None:
        category = np.where(category == Category.unattributed, facts.inferred.category, category)
        inferred = (category != Category.unattributed) & (known == NONE) & (saved == NONE)
    return Attribution(
        category=category,
        layer=layer,
        super_block=facts.layers.super_block_of(layer),
        phase=_born(facts.allocations, _phases(facts, ran), Phase.other).astype(np.uint8),
        module=module,
        known=known,
        saved=saved,
        inferred=inferred,
    )


def _phases(facts: Facts, ran: Running) -> U8:
    """The phase of each event, as recorded; else as inferred."""
    if facts.inferred is None:
        return ran.phase
    return np.where(ran.phase == Phase.other, facts.inferred.phases.phase, ran.phase).astype(np.uint8)


def _known(facts: Facts, matcher: Matcher) -> I32:
    """The known storage of each allocation; the strongest kind, and of that the first seen."""
    known = facts.recording.known_storages
    rows = np.flatnonzero((known.device == facts.device_row) & (known.address != 0))
    found = matcher.overlapping(known.address[rows], known.start_time[rows], known.end_time[rows])
    out = np.full(len(facts.allocations), NONE, np.int32)
    for kind in reversed(_OF_KIND):
        _assign_first(out, rows, found, (known.kind[rows] == kind) & (found != NONE))
    return out


def _saved(facts: Facts, matcher: Matcher) -> tuple[I32, I32]:
    """(saved tensor, packing module) of each allocation: the row of the strongest fate, and of that the first packed;
    the module of the first row inside a layer, if there is one.

    A checkpoint keeps its input as a saved tensor of the module around the segment; the segment's first layer packs
    the same storage again, so that the boundary is booked on the layer it leads into.
    """
    saved = facts.recording.saved_tensors
    rows = np.flatnonzero((saved.address != 0) & (saved.known == NONE))
    found = matcher.alive(saved.address[rows], saved.time[rows])
    inside = facts.layers.layer_of(saved.module[rows]) != NONE
    out = np.full(len(facts.allocations), NONE, np.int32)
    packer = out.copy()
    for fate in reversed(_FATES):
        _assign_first(out, rows, found, (saved.fate[rows] == fate) & (found != NONE))
    for within in (False, True):
        _assign_first(packer, rows, found, (inside == within) & (found != NONE))
    return out, _column(saved.module, packer)


def _assign_first(out: I32, rows: I64, found: I64, mask: B1) -> None:
    """out[found] = rows where the mask holds; of several rows for one place the first wins."""
    out[found[mask][::-1]] = rows[mask][::-1]


def _categories(facts: Facts, known: I32, saved: I32) -> U8:
    recording, allocations = facts.recording, facts.allocations
    out = np.full(len(allocations), Category.unattributed, np.uint8)
    out[_inside(facts.spans.step(), allocations)] = Category.temporary
    out[_inside_collectives(facts)] = Category.communication
    packed = np.flatnonzero((saved != NONE) & ~allocations.before)
    fate = recording.saved_tensors.fate[saved[packed]]
    for each, category in _OF_FATE.items():
        out[packed[fate == each]] = category
    out[_workspaces(facts)] = Category.workspace
    named = np.flatnonzero(known != NONE)
    of_kind = np.array([_OF_KIND[kind] for kind in StorageKind], np.uint8)
    out[named] = of_kind[recording.known_storages.kind[known[named]]]
    return out


def _inside(step: tuple[int, int], allocations: Allocations) -> B1:
    """Born in the step and freed before it ends."""
    first, last = step
    return (allocations.start > first) & (allocations.end <= last)


def _inside_collectives(facts: Facts) -> B1:
    found = stacks.mentions(facts.recording, _COMMUNICATION_STACK)
    inside: B1 = ~facts.allocations.before & np.append(found, False)[facts.allocations.stack]
    return inside


def _workspaces(facts: Facts) -> B1:
    """cuBLAS workspaces: by the functions on the stack, or by their size if they are never freed."""
    recording, allocations = facts.recording, facts.allocations
    by_stack: B1 = np.append(stacks.mentions(recording, _WORKSPACE_STACK), False)[allocations.stack]
    if recording.meta.source != "cuda" and recording.meta.kind == "recording":
        return by_stack
    by_size: B1 = (allocations.bytes == WORKSPACE_BYTES) & (allocations.end > len(facts.events))
    return by_stack | by_size


def _places(facts: Facts, known: I32, packer: I32, ran: Running) -> tuple[I32, I32]:
    """(module, layer) of each allocation: as the known storage says, else the saved tensor, else what ran at birth."""
    running_then = _born(facts.allocations, ran.module, NONE)
    around = _born(facts.allocations, ran.layer, NONE)
    if not len(facts.recording.known_storages) and not len(facts.recording.saved_tensors):
        return running_then.astype(np.int32), around.astype(np.int32)
    holder = _column(facts.recording.known_storages.module, known)
    cached = _column(facts.recording.known_storages.kind.astype(np.int32), known) == StorageKind.selective_cache
    held = (known != NONE) & ~(cached & (holder == NONE))  # where nobody says, it was packed or born there
    module = np.where(held, holder, np.where(packer != NONE, packer, running_then))
    named = held | (packer != NONE)
    layer = np.where(named, facts.layers.layer_of(module.astype(np.int32)), around)
    return module.astype(np.int32), layer.astype(np.int32)


def _column(values: I32, rows: I32) -> I32:
    """values[rows], with -1 where the row is -1."""
    return np.append(values, np.int32(NONE))[rows]


def _born(allocations: Allocations, of_event: NDArray[Any], before: int) -> NDArray[Any]:
    """The value of the event that made each allocation; `before` for those without one."""
    value = of_event.dtype.type(before)
    if not any(of_event.strides):  # one value for all: nobody recorded what ran
        of_event = of_event[:1]
        if len(of_event) and of_event[0] == value:
            return np.full(len(allocations), value)
    return np.append(of_event, value)[allocations.start - 1]
