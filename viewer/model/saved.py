"""What autograd saved: bytes of distinct storages, known storages subtracted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I32, I64, NONE, U8, Fate

from .layers import LayerTree

_PRECEDENCE = (Fate.kept, Fate.offloaded, Fate.rematerialized, Fate.dropped)
"""One storage may be packed several times: what is kept once is kept."""


def distinct(recording: Recording, chosen: B1 | None = None) -> tuple[I64, U8, I64]:
    """(first row, fate, bytes) of each distinct storage that autograd packed and that is no known storage; of the
    `chosen` rows only, where given.

    Rows of a storage whose size is unknown are left out.
    """
    table = recording.saved_tensors
    own = np.flatnonzero((table.storage != NONE) & (table.known == NONE) & (True if chosen is None else chosen))
    storages, first, which = np.unique(table.storage[own], return_index=True, return_inverse=True)
    rank = np.array([_PRECEDENCE.index(fate) for fate in Fate], np.int64)
    best = np.full(len(storages), len(_PRECEDENCE) - 1, np.int64)
    np.minimum.at(best, which, rank[table.fate[own]])
    size = np.zeros(len(storages), np.int64)
    np.maximum.at(size, which, table.storage_bytes[own])
    return own[first], np.array(_PRECEDENCE, np.uint8)[best], size


def bytes_by_fate(recording: Recording, chosen: B1) -> dict[Fate, int]:
    """Bytes of distinct storages by fate, of the chosen rows; every fate is present."""
    _, fate, size = distinct(recording, chosen)
    return {each: int(size[fate == each].sum()) for each in Fate}


def bytes_by_layer(recording: Recording, layers: LayerTree, fates: Iterable[Fate], chosen: B1) -> dict[int, int]:
    """Bytes of distinct storages of these fates, of the chosen rows, by the first layer that packed them; -1 is
    outside layers."""
    rows, fate, size = distinct(recording, chosen)
    layer = _first_layers(recording, layers, rows)
    wanted = np.isin(fate, sorted(fates))
    sums = np.zeros(len(layers) + 1, np.int64)
    np.add.at(sums, layer[wanted], size[wanted])
    return {number: int(sums[number]) for number in (*range(len(layers)), NONE)}


def _first_layers(recording: Recording, layers: LayerTree, rows: I64) -> I32:
    """The first layer that packed the storage of each of these rows, -1 if none did."""
    table = recording.saved_tensors
    layer = layers.layer_of(table.module)
    inside = np.flatnonzero((layer != NONE) & (table.storage != NONE))
    first = np.full(int(table.storage.max(initial=NONE)) + 1, NONE, np.int32)
    first[table.storage[inside][::-1]] = layer[inside][::-1]
    return first[table.storage[rows]]
