"""The layers of the recorded model and the super-blocks they repeat in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format import plan
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I32, NONE

WHOLE_MODEL = "the model"
"""Stands for the empty path, which is that of the model itself."""


@dataclass(frozen=True)
class SuperBlock:
    """Layers start .. stop - 1 (rows of the layer table) of layer list `list`. One that holds a single layer bears the
    layer's own path as its name."""

    name: str
    list: int
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class LayerTree:
    """Layers by row of the recording's layer table. Empty where the file has no layers."""

    names: tuple[str, ...]
    """Module path of each layer, e.g. `layers.12`."""
    kinds: tuple[str, ...]
    modules: I32
    """Module row of each layer."""
    super_blocks: tuple[SuperBlock, ...]
    super_block_of_layer: I32
    layer_of_module: I32
    """Layer that each module is or lies in, -1 outside layers."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def super_block_names(self) -> tuple[str, ...]:
        """Names of the super-blocks, e.g. `super-block 2 (layers 8-11)`."""
        return tuple(block.name for block in self.super_blocks)

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each layer for people: its path, or `the model` where that is empty."""
        return tuple(name or WHOLE_MODEL for name in self.names)

    def layer_of(self, modules: I32) -> I32:
        """Layer of each of these module rows; -1 stays -1."""
        return _looked_up(self.layer_of_module, modules)

    def super_block_of(self, layers: I32) -> I32:
        """Super-block of each of these layers; -1 stays -1."""
        return _looked_up(self.super_block_of_layer, layers)


def _looked_up(table: I32, rows: I32) -> I32:
    if len(table) == 0:
        return np.full(len(rows), NONE, np.int32)
    return np.where(rows >= 0, table[rows], NONE).astype(np.int32)


def layer_tree(recording: Recording) -> LayerTree:
    """The layer tree of a recording, with super-blocks as found from the kinds or as the user set them."""
    layers, strings = recording.layers, recording.strings
    names = tuple(strings[i] for i in recording.modules.path[layers.module].tolist())
    kinds = tuple(strings[i] for i in layers.kind.tolist())
    blocks = _super_blocks(recording, names, kinds)
    of_layer = np.full(len(layers), NONE, np.int32)
    for number, block in enumerate(blocks):
        of_layer[block.start : block.stop] = number
    return LayerTree(names, kinds, layers.module, blocks, of_layer, _layer_of_module(recording))


def _super_blocks(recording: Recording, names: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[SuperBlock, ...]:
    numbers = recording.layers.list
    out: list[SuperBlock] = []
    edges = np.flatnonzero(np.diff(numbers)) + 1
    begins = [0, *edges.tolist()] if len(numbers) else []
    for begin, end in zip(begins, [*begins[1:], len(numbers)]):
        ranges = plan.super_blocks(kinds[begin:end], recording.meta.super_block_override)
        where = names[begin].rpartition(".")[0] if len(begins) > 1 else ""
        for number, (start, stop) in enumerate(ranges):
            index = recording.layers.index[begin + start : begin + stop].tolist()
            name = _name(where, number, index) if len(index) > 1 else names[begin + start] or WHOLE_MODEL
            out.append(SuperBlock(name, int(numbers[begin]), begin + start, begin + stop))
    return tuple(out)


def _name(where: str, number: int, index: list[int]) -> str:
    """The list's path is named only where there is more than one list."""
    prefix = f"{where} " if where else ""
    return f"{prefix}super-block {number} (layers {index[0]}-{index[-1]})"


def _layer_of_module(recording: Recording) -> I32:
    """The nearest layer at or above each module; parents have smaller rows."""
    out = np.full(len(recording.modules), NONE, np.int32)
    out[recording.layers.module] = np.arange(len(recording.layers))
    for row, parent in enumerate(recording.modules.parent.tolist()):
        if out[row] == NONE and parent >= 0:
            out[row] = out[parent]
    return out
