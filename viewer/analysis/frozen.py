"""Layers that keep nothing because nothing in them or before them is trained."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.plan import covers
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE


def frozen_layers(recording: Recording) -> list[bool]:
    """For each row of layers, whether it keeps nothing for backward: no gradient passes through it.

    By the parameters alone that is so if neither the layer nor any module before it (in the order of the module tree)
    trains one. A program can ask for gradients of the input all the same (adapters do), so what the layer was seen to
    save decides against it.
    """
    trained = _first_trained(recording)
    if trained is None:
        return [False] * len(recording.layers)
    paths = [recording.strings[int(path)] for path in recording.modules.path]
    table = recording.saved_tensors
    saving = np.unique(table.module[(table.known == NONE) & (table.module != NONE)])
    found = []
    for row in recording.layers.module.tolist():
        end = row + 1  # what a module contains follows it
        while end < len(paths) and covers(paths[row], paths[end]):
            end += 1
        found.append(end <= trained and not ((row <= saving) & (saving < end)).any())
    return found


def _first_trained(recording: Recording) -> int | None:
    """The first module that trains a parameter of its own; None where none does or nothing is known."""
    table = recording.module_parameters
    rows = table.module[table.requires_grad]
    return int(rows.min()) if len(rows) else None


def frozen_text(names: list[str]) -> str:
    """The assumption, for the paths of such layers."""
    which = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return f"nothing is trained in or before {which}: no gradient passes there, and nothing is kept"
