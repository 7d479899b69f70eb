"""What widths do not tell of a model: heads, vocabulary, and the kernels that a recording was seen to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from memstrata.capture.format.plan import PRESETS, ModelShape
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE

from ..model.run import Run
from .halves import is_output_name
from .kept import words
from .kernels import RECURRENT, Kernels, ModelFacts
from .module_tree import ModuleTree
from .shape_config import fields_of_file
from .shape_presets import CONFIGS

_HEADS = ("num_heads", "num_attention_heads", "nhead", "n_head", "n_heads")
_TEACHING_HEADS = 24


def facts_of_preset(name: str, shape: ModelShape) -> ModelFacts:
    """Of a preset; all its tokens are one sequence."""
    if name in PRESETS:
        return ModelFacts(heads=_TEACHING_HEADS, sequence=shape.tokens)
    return facts_of_config(CONFIGS[name], shape)


def facts_of_config(given: Mapping[str, Any], shape: ModelShape) -> ModelFacts:
    """Of a configuration that `shape_of_config` has accepted."""
    inner = given.get("text_config")
    fields = inner if isinstance(inner, Mapping) else given
    heads = next((fields[key] for key in ("heads", *_HEADS) if key in fields), 0)
    vocabulary = next((fields[key] for key in ("vocabulary", "vocab_size") if key in fields), 0)
    return ModelFacts(heads, vocabulary, shape.tokens)


def facts_of_file(path: str, shape: ModelShape) -> ModelFacts:
    """Of a file that `shape_of_file` has accepted."""
    return facts_of_config(fields_of_file(path), shape)


def facts_of(run: Run) -> ModelFacts:
    """Of a recorded model: heads as its modules say, the vocabulary as its widest projection outside layers."""
    tree, meta = ModuleTree(run.recording), run.recording.meta
    heads = next((held[name] for held in tree.attributes for name in _HEADS if name in held), 0) or _by_head_dim(tree)
    outside = [row for row in range(len(tree.paths)) if run.layers.layer_of_module[row] == NONE]
    embedded = [held["weight"][0][0] for row in outside if "weight" in (held := tree.parameters[row])]
    heads_out = [widths[1] for row in outside if (widths := tree.linear(row)) is not None]
    vocabulary = max((width for width in heads_out if width in embedded), default=0)
    recurrent = (path for path, cls in zip(tree.paths, tree.classes, strict=True) if RECURRENT.search(cls))
    return ModelFacts(heads, vocabulary, meta.sequence or 0, frozenset(recurrent))


def _by_head_dim(tree: ModuleTree) -> int:
    """Input width of the output projection / width of a head."""
    for row, held in enumerate(tree.attributes):
        inner = [tree.linear(child) for child in tree.children[row] if is_output_name(tree.name(child))]
        if "head_dim" in held and inner and inner[0] is not None:
            return inner[0][0] // held["head_dim"]
    return 0


def kernels_of(run: Run) -> Kernels:
    """The kernels that this run was seen to use, by what its layers saved."""
    recording, tree = run.recording, ModuleTree(run.recording)
    norms = {row for row in range(len(tree.paths)) if tree.paths[row] and tree.is_norm(row)}
    seen = _ops(recording)
    in_norms = {op for op, module in seen if module in norms}
    layer_norm = any("LayerNorm" in tree.classes[row] for row in norms)
    ops = {op for op, module in seen if module not in norms and run.layers.layer_of_module[module] != NONE}
    return Kernels(
        norm="layer" if layer_norm else "composite" if "rsqrt" in in_norms else "fused",
        attention="math" if "softmax" in ops else "efficient",
        linear="reference" if ops & {"linalg solve triangular", "cumsum", "linalg vector norm"} else "fused",
        loss="whole",
        dropout=_dropout(recording, ops),
        measured=True,
    )


def _dropout(recording: Recording, ops: set[str]) -> str:
    if "native dropout" in ops:
        return "mask"
    return "values" if {"bernoulli", "div"} <= ops else "none"


def _ops(recording: Recording) -> set[tuple[str, int]]:
    """(op, module row) of what modules saved."""
    table, strings = recording.saved_tensors, recording.strings
    pairs = np.unique(np.stack([table.op, table.module], axis=1), axis=0) if len(table) else np.zeros((0, 2), int)
    return {(words(strings[int(op)]), int(module)) for op, module in pairs.tolist() if module != NONE}
