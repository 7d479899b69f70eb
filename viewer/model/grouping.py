"""Groupings: a label for each allocation, the names of the labels, and how to colour them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from memstrata.capture.format.schema import I32, I64, NONE, Category, Phase

from . import stacks
from .frame_names import frame_name
from .inference_sites import module_frames, operator_frames

if TYPE_CHECKING:
    from .run import Run


class ColourRule(Enum):
    """How the labels of a grouping get their colours."""

    CATEGORY = "category"
    """Label n is Category(n)."""
    PHASE = "phase"
    """Label n is Phase(n)."""
    RAMP = "ramp"
    """Labels are ordered: one ramp over them."""
    DISTINCT = "distinct"
    """Labels have no order: colours that differ, the largest groups first."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """`labels[i]` is the group of allocation i and indexes `names`; no allocation is left out."""

    key: str
    title: str
    labels: I32
    names: tuple[str, ...]
    colour: ColourRule
    neutral: frozenset[int] = frozenset()
    """Labels that stand for "the rest" and are painted grey."""

    def __len__(self) -> int:
        return len(self.names)

    def largest(self, group_bytes: I64, keep: int) -> Grouping:
        """The same grouping with all but the `keep` largest groups (by these bytes) as one group "other (N)"."""
        if len(self.names) <= keep:
            return self
        order = np.argsort(-group_bytes, kind="stable")
        kept = np.sort(order[:keep])
        mapping = np.full(len(self.names), len(kept), np.int32)
        mapping[kept] = np.arange(len(kept), dtype=np.int32)
        names = tuple(self.names[i] for i in kept.tolist()) + (f"other ({len(self.names) - keep})",)
        neutral = frozenset(int(mapping[n]) for n in self.neutral) | {len(kept)}
        return Grouping(self.key, self.title, mapping[self.labels], names, self.colour, neutral)


@dataclass(frozen=True)
class GroupingSpec:
    """A grouping on offer: `needs` are capabilities a run must have."""

    title: str
    needs: frozenset[str]
    make: Callable[[Run], Grouping]


def by_category(run: Run) -> Grouping:
    """By what an allocation is."""
    names = tuple(category.label for category in Category)
    labels = run.attribution.category.astype(np.int32)
    neutral = frozenset({int(Category.unattributed)})
    title = "category (inferred)" if run.attribution.inferred.any() else "category"
    return Grouping("category", title, labels, names, ColourRule.CATEGORY, neutral)


def by_super_block(run: Run) -> Grouping:
    """By super-block, the rest last."""
    return _with_rest("super_block", "super-block", run.attribution.super_block, run.layers.super_block_names)


def by_layer(run: Run) -> Grouping:
    """By layer, the rest last."""
    return _with_rest("layer", "layer", run.attribution.layer, run.layers.labels)


def _with_rest(key: str, title: str, labels: I32, names: tuple[str, ...]) -> Grouping:
    labels = np.where(labels == NONE, len(names), labels).astype(np.int32)
    return Grouping(key, title, labels, (*names, "outside layers"), ColourRule.RAMP, frozenset({len(names)}))


def by_phase(run: Run) -> Grouping:
    """By the phase an allocation was born in; what is older than the recording is its own group."""
    labels = np.where(run.allocations.before, len(Phase), run.attribution.phase).astype(np.int32)
    names = (*(phase.name for phase in Phase), "before the recording")
    return Grouping("phase", "phase of birth", labels, names, ColourRule.PHASE, frozenset({len(Phase)}))


def by_inferred_phase(run: Run) -> Grouping:
    """By the phase an allocation was born in, as its stack and what lies around it tell."""
    found = by_phase(run)
    names = (*found.names[:-1], "before the trace")
    return Grouping("inferred_phase", "phase of birth (inferred)", found.labels, names, found.colour, found.neutral)


def by_stream(run: Run) -> Grouping:
    """By the stream an allocation was made on."""
    streams, labels = np.unique(run.allocations.stream, return_inverse=True)
    names = tuple("default stream" if s == 0 else f"stream 0x{s & (2**64 - 1):x}" for s in streams.tolist())
    return Grouping("stream", "stream", labels.astype(np.int32), names, ColourRule.DISTINCT)


def by_first_user_frame(run: Run) -> Grouping:
    """By the innermost frame of the user's own code, in order of the bytes at the peak."""
    return _by_frame(run, "frame", "first user frame", stacks.first_user_frames(run.recording))


def by_operator(run: Run) -> Grouping:
    """By the operator that allocated, as the stack names it."""
    return _by_frame(run, "operator", "operator (inferred)", operator_frames(run.recording), "no operator on the stack")


def by_user_module(run: Run) -> Grouping:
    """By the innermost `forward` of the user's code; a stack knows its line, not the path of the module."""
    return _by_frame(run, "user_module", "module (inferred)", module_frames(run.recording), "no forward on the stack")


_UNNAMED = 1 << 40
"""Stands for a stack without a frame of the kind asked for."""


def _by_frame(run: Run, key: str, title: str, frames: I32, unnamed: str = "") -> Grouping:
    """By the frame that stands for each stack, in order of the bytes at the peak; -1 is `unnamed`."""
    named: I64 = np.where(frames == NONE, _UNNAMED, frames.astype(np.int64))
    keys = np.where(run.allocations.stack >= 0, _frames_of(run, named), -1 - _no_stack(run))
    unique, labels = np.unique(keys, return_inverse=True)
    names = [unnamed if number == _UNNAMED else _name(run, number) for number in unique.tolist()]
    at_peak = np.zeros(len(unique), np.int64)
    alive = run.allocations.alive(run.peak_position)
    np.add.at(at_peak, labels[alive], run.allocations.bytes[alive])
    order = np.argsort(-at_peak, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    neutral = frozenset(int(rank[i]) for i, number in enumerate(unique.tolist()) if number < 0 or number == _UNNAMED)
    sorted_names = tuple(names[i] for i in order.tolist())
    return Grouping(key, title, rank[labels], sorted_names, ColourRule.DISTINCT, neutral)


def _name(run: Run, number: int) -> str:
    return frame_name(run.recording, number) if number >= 0 else _no_stack_name(run, -1 - number)


def _frames_of(run: Run, frames: I64) -> I64:
    return np.append(frames, NONE)[run.allocations.stack]


def _no_stack(run: Run) -> I64:
    """A number for why, and as closely as known where, each allocation without a stack was made."""
    n_layers = len(run.layers) + 1
    where = run.attribution.phase.astype(np.int64) * n_layers + run.attribution.layer + 1
    return np.where(run.allocations.before, 0, 1 + where)


def _no_stack_name(run: Run, number: int) -> str:
    if number == 0:
        return "no stack (older than the recording)"
    phase, layer = divmod(number - 1, len(run.layers) + 1)
    if len(run.spans):
        place = f" of {run.layers.labels[layer - 1]}" if layer else ""
        return f"no stack ({Phase(phase).name}{place})"
    if "stacks" not in run.capabilities:
        return "no stack (stacks were not recorded)"
    if Phase(phase) != Phase.other:
        return f"no stack ({Phase(phase).name}, inferred: its threads have no Python frames)"
    return "no stack (made outside Python, as the backward pass is)"


GROUPINGS: dict[str, GroupingSpec] = {
    "category": GroupingSpec("category", frozenset(), by_category),
    "super_block": GroupingSpec("super-block", frozenset({"layers"}), by_super_block),
    "layer": GroupingSpec("layer", frozenset({"layers"}), by_layer),
    "phase": GroupingSpec("phase of birth", frozenset({"spans"}), by_phase),
    "inferred_phase": GroupingSpec("phase of birth (inferred)", frozenset({"inferred_phases"}), by_inferred_phase),
    "frame": GroupingSpec("first user frame", frozenset({"stacks"}), by_first_user_frame),
    "operator": GroupingSpec("operator (inferred)", frozenset({"inferred_operators"}), by_operator),
    "user_module": GroupingSpec("module (inferred)", frozenset({"inferred_modules"}), by_user_module),
    "stream": GroupingSpec("stream", frozenset(), by_stream),
}
"""Every grouping there is, by key, in the order of menus."""


def available(run: Run) -> list[str]:
    """Keys of the groupings that this run can have."""
    return [key for key, spec in GROUPINGS.items() if spec.needs <= run.capabilities]


def preferred(run: Run) -> str:
    """The grouping to open with: categories where the recorder named some, else the first user frame."""
    if run.capabilities & {"saved_tensors", "known_storages"} or "stacks" not in run.capabilities:
        return "category"
    return "frame"
