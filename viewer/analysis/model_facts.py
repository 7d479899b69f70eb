"""What widths do not tell of a model: heads, vocabulary, and the kernels that a recording was seen to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from memstrata.capture.format.plan import PRESETS, ModelShape
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE

from ..model.run import Run
from .config_fields import fields_of_file
from .gated_delta import DeltaHeads
from .halves import is_output_name
from .kept import are_scores, words
from .kernels import RECURRENT, Kernels, Mask, ModelFacts
from .module_tree import ITEMSIZE, ModuleTree
from .shape_presets import CONFIGS

_HEADS = ("num_heads", "num_attention_heads", "nhead", "n_head", "n_heads")
_TEACHING_HEADS = 24
_SOFTMAX = ("softmax", "safe softmax")
_DROPS_SCORES = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob")
_CAPS_SCORES = "attn_logit_softcapping"


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
    delta = DeltaHeads(*(fields.get(key) or 0 for key in ("linear_num_value_heads", "linear_key_head_dim")))
    if not delta.heads or not delta.key_dim:
        delta = DeltaHeads(*(fields.get(key) or 0 for key in ("linear_value_heads", "linear_key_dim")))
    drops, caps = any(fields.get(key) for key in _DROPS_SCORES), bool(fields.get(_CAPS_SCORES))
    return ModelFacts(heads, vocabulary, shape.tokens, delta=delta, drops_scores=drops, caps_scores=caps)


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
    seen = SavedInLayers(run, tree)
    return ModelFacts(
        heads, vocabulary, meta.sequence or 0, frozenset(recurrent),
        drops_scores=seen.drops_scores(), caps_scores=seen.caps_scores(), masks=seen.masks(),
    )  # fmt: skip


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
    seen, saved = _ops(recording), SavedInLayers(run, tree)
    layer_norm = any("LayerNorm" in tree.classes[row] for row in norms)
    written_out = "rsqrt" in {op for op, module in seen if module in norms}
    ops = {op for op, module in seen if module not in norms and run.layers.layer_of_module[module] != NONE}
    return Kernels(
        norm="layer" if layer_norm else saved.norm_written_out(norms) if written_out else "fused",
        attention="math" if saved.has_scores() else "efficient",
        linear="reference" if ops & {"linalg solve triangular", "cumsum", "linalg vector norm"} else "fused",
        loss="whole",
        dropout=saved.dropout(),
        measured=True,
    )


@dataclass(frozen=True)
class _Saved:
    op: str
    dtype: str
    shape: tuple[int, ...]
    module: int
    layer: int
    known: bool
    """A parameter, an input or the like."""


class SavedInLayers:
    """What modules in layers of a run saved, each kind once."""

    def __init__(self, run: Run, tree: ModuleTree) -> None:
        table, strings = run.recording.saved_tensors, run.recording.strings
        self.tree, self.meta = tree, run.recording.meta
        self.length = self.meta.sequence or 0
        self.tokens = (self.meta.batch or 1) * (self.length or 1)
        columns = (table.op, table.dtype, table.shape, table.module, table.known != NONE)
        self.every: list[_Saved] = []
        for op, dtype, shape, module, known in dict.fromkeys(zip(*(c.tolist() for c in columns), strict=True)):
            sizes = tuple(int(n) for n in strings[shape].split(",") if n.isdecimal())
            layer = int(run.layers.layer_of_module[module]) if module != NONE else NONE
            if layer != NONE:
                self.every.append(_Saved(words(strings[op]), strings[dtype], sizes, module, layer, known))

    def has_scores(self) -> bool:
        """Whether a softmax over as many positions as a sequence has was saved: scores, and not a router's choice."""
        over = [each.shape[-1] for each in self.every if each.op in _SOFTMAX and each.shape]
        return any(last == self.length or self.length < 2 for last in over)

    def caps_scores(self) -> bool:
        """Whether a tanh over scores was."""
        return any(each.op == "tanh" and self._is_scores(each) for each in self.every)

    def drops_scores(self) -> bool:
        """Whether a mask over scores was."""
        return any(self._is_mask(each) and self._is_scores(each) for each in self.every)

    def masks(self) -> tuple[Mask, ...]:
        """Of dropout modules but those of the scores."""
        found = (each for each in self.every if self._is_mask(each) and not self._is_scores(each))
        return tuple(
            Mask(self.tree.paths[each.module], prod(each.shape) // self.tokens, _itemsize(each.dtype))
            for each in found if prod(each.shape) % self.tokens == 0
        )  # fmt: skip

    def dropout(self) -> str:
        """`mask` of bytes, `values`, or `none`."""
        sizes = {_itemsize(each.dtype) for each in self.every if self._is_mask(each)}
        return "none" if not sizes else "mask" if 1 in sizes else "values"

    def norm_written_out(self, norms: set[int]) -> str:
        """`cast` where the normalised values go back to the model's own precision before the weight, as in Llama."""
        rows = [each for each in self.every if each.module in norms and len(each.shape) > 1 and each.shape[-1] > 1]
        narrow = any(ITEMSIZE.get(each.dtype, 4) < 4 and not each.known for each in rows)
        wide = any(each.op == "mul" and each.dtype == "float32" for each in rows)
        return "cast" if narrow and not wide else "composite"

    def _is_mask(self, each: _Saved) -> bool:
        """What no operator of autograd made, in a dropout module or over scores."""
        if each.known or each.op or not each.shape:
            return False
        return "Dropout" in self.tree.classes[each.module] or self._is_scores(each)

    def _is_scores(self, each: _Saved) -> bool:
        return are_scores(each.op, each.shape, self.meta)


def _itemsize(dtype: str) -> int:
    return ITEMSIZE.get(dtype, 1)


def _ops(recording: Recording) -> set[tuple[str, int]]:
    """(op, module row) of what modules saved."""
    table, strings = recording.saved_tensors, recording.strings
    pairs = np.unique(np.stack([table.op, table.module], axis=1), axis=0) if len(table) else np.zeros((0, 2), int)
    return {(words(strings[int(op)]), int(module)) for op, module in pairs.tolist() if module != NONE}
