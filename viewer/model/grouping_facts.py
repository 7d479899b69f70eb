"""Groupings by what an allocation is, where it belongs, and where the allocator put it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memstrata.capture.format.schema import I32, NONE, Category, Phase

from .grouping_labels import ColourRule, Grouping
from .ordering import distinct
from .pools import pool_names, pools_of

if TYPE_CHECKING:
    from .run import Run


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
    streams, labels = distinct(run.allocations.stream)
    names = tuple(stream_name(stream) for stream in streams.tolist())
    return Grouping("stream", "stream", labels, names, ColourRule.DISTINCT)


def stream_name(stream: int) -> str:
    """`default stream`, or a stream by its handle."""
    return "default stream" if stream == 0 else f"stream 0x{stream & (2**64 - 1):x}"


def by_pool(run: Run) -> Grouping:
    """By the pool of the allocator that the memory came from, as far as the state at the end tells."""
    names = pool_names(run.recording, run.device_row)
    labels = pools_of(run.recording, run.device_row, run.events, run.allocations)
    labels = np.where(labels == NONE, len(names), labels).astype(np.int32)
    names = (*names, "not known (its allocator segment is gone)")
    return Grouping("pool", "pool", labels, names, ColourRule.DISTINCT, frozenset({len(names) - 1}))
