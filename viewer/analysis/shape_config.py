"""The shape of a model that was never run, from its configuration: a Hugging Face `config.json` or a small TOML file.

Widths only, by the same rules as for a recorded model. Kinds of layers that are not known are predicted as unknown:
they have no terms, and the shape says so.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memstrata.capture.format.plan import Half, LayerShape, ModelShape, Term, half_terms, super_blocks

from .module_tree import ITEMSIZE
from .shape import NOT_COUNTED

TOKENS = 8192
MOST = 2**31
FULL = ("full_attention", "sliding_attention", "chunked_attention", "attention")
LINEAR = ("linear_attention", "gated_delta")

_HF = {
    "hidden_size": ("hidden", "hidden_size", "n_embd", "d_model"),
    "num_hidden_layers": ("layers", "num_hidden_layers", "n_layer", "num_layers"),
    "num_attention_heads": ("heads", "num_attention_heads", "n_head"),
    "num_key_value_heads": ("kv_heads", "num_key_value_heads"),
    "head_dim": ("head_dim",),
    "intermediate_size": ("ffn", "intermediate_size", "n_inner"),
    "vocab_size": ("vocabulary", "vocab_size"),
    "num_experts": ("experts", "num_experts", "num_local_experts"),
    "num_experts_per_tok": ("experts_per_token", "num_experts_per_tok"),
    "moe_intermediate_size": ("expert_ffn", "moe_intermediate_size"),
    "full_attention_interval": ("full_attention_interval",),
    "linear_num_key_heads": ("linear_key_heads", "linear_num_key_heads"),
    "linear_num_value_heads": ("linear_value_heads", "linear_num_value_heads"),
    "linear_key_head_dim": ("linear_key_dim", "linear_key_head_dim"),
    "linear_value_head_dim": ("linear_value_dim", "linear_value_head_dim"),
}
"""Hugging Face's name of each field, and the names under which it may stand; the first one is the TOML file's."""

_PLAIN_MLP = ("gpt2", "bert", "roberta", "gpt_neox", "opt", "vit", "bloom", "gptj")


class Fields:
    """Reads and checks fields; every complaint is one sentence that names the field."""

    def __init__(self, given: Mapping[str, Any], source: str) -> None:
        self.given, self.source = given, source

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number of at least 1. ValueError where it is missing without a default, or something else."""
        for key in _HF[name]:
            value = self.given.get(key)
            if value is None:
                continue
            if type(value) is not int or not 1 <= value < MOST:
                raise ValueError(f"{self.source}: {key} must be a whole number from 1, not {value!r}")
            return value
        if default is None:
            raise ValueError(f"{self.source}: {name} ({_HF[name][0]} in TOML) is missing")
        return default

    def has(self, name: str) -> bool:
        """Whether the field is there."""
        return any(self.given.get(key) is not None for key in _HF[name])

    def flag(self, default: bool, *keys: str) -> bool:
        """True or false under the first of these keys that is there."""
        for key in keys:
            if (value := self.given.get(key)) is not None:
                if type(value) is not bool:
                    raise ValueError(f"{self.source}: {key} must be true or false, not {value!r}")
                return value
        return default

    def fail(self, what: str) -> ValueError:
        """The error to raise."""
        return ValueError(f"{self.source}: {what}")


@dataclass(frozen=True)
class _Widths:
    hidden: int
    query: int
    gated_query: bool
    kv: int
    ffn: int
    gated: bool
    experts: int
    per_token: int
    expert_ffn: int
    linear_key: int
    linear_value: int
    linear_heads: int
    itemsize: int


def shape_of_file(path: str, tokens: int | None = None) -> ModelShape:
    """The shape that a `config.json` or a `.toml` file describes, for so many tokens (batch x sequence).

    Raises OSError, or ValueError with one sentence naming the field that is missing or contradicts another.
    """
    return shape_of_config(fields_of_file(path), path, tokens)


def fields_of_file(path: str) -> dict[str, Any]:
    """The fields of a `config.json` or a `.toml` file. Raises as `shape_of_file`."""
    with open(path, "rb") as file:
        raw = file.read()
    try:
        given = tomllib.loads(raw.decode()) if path.endswith(".toml") else json.loads(raw)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.endswith(".toml") else "JSON"
        raise ValueError(f"{path} is no {kind}: {' '.join(str(error).split())}") from error
    if not isinstance(given, dict):
        raise ValueError(f"{path} holds no configuration: it is not a table of fields")
    return given


def shape_of_config(given: Mapping[str, Any], source: str, tokens: int | None = None) -> ModelShape:
    """As `shape_of_file`, from the fields themselves; `source` begins the sentence of an error."""
    inner = given.get("text_config")
    fields = Fields(inner if isinstance(inner, Mapping) else given, source)
    kinds, widths = _kinds(fields), _widths(fields)
    names = tuple(f"layers.{i}" for i in range(len(kinds)))
    layers = tuple(_layer(kind, name, widths) for kind, name in zip(kinds, names, strict=True))
    ranges = super_blocks(kinds)
    return ModelShape(
        layers=layers,
        names=names,
        hidden=widths.hidden,
        itemsize=widths.itemsize,
        tokens=TOKENS,
        super_block_length=max(stop - start for start, stop in ranges),
        parameters=_parameters(fields, kinds, widths),
        assumptions=tuple(_assumptions(fields, kinds, widths)),
        ranges=ranges,
    ).with_tokens(TOKENS if tokens is None else tokens)


def _kinds(fields: Fields) -> list[str]:
    count = fields.number("num_hidden_layers")
    if count > 10_000:
        raise fields.fail(f"num_hidden_layers is {count}: no model has so many layers")
    given = fields.given.get("layer_types", fields.given.get("kinds"))
    if given is None:
        every = fields.number("full_attention_interval", 1)
        return [FULL[0] if (i + 1) % every == 0 else LINEAR[0] for i in range(count)]
    if not isinstance(given, list) or not all(isinstance(kind, str) for kind in given) or not given:
        raise fields.fail("layer_types must be a list of names")
    if len(given) != count and "layer_types" in fields.given:
        raise fields.fail(f"layer_types has {len(given)} entries for num_hidden_layers = {count}")
    if count % len(given):
        raise fields.fail(f"kinds has {len(given)} entries, which do not divide layers = {count}")
    return given * (count // len(given))


def _widths(fields: Fields) -> _Widths:
    hidden, heads = fields.number("hidden_size"), fields.number("num_attention_heads")
    kv_heads = fields.number("num_key_value_heads", heads)
    if heads % kv_heads:
        raise fields.fail(f"num_key_value_heads = {kv_heads} does not divide num_attention_heads = {heads}")
    if not fields.has("head_dim") and hidden % heads:
        raise fields.fail(
            f"num_attention_heads = {heads} does not divide hidden_size = {hidden}, nor is head_dim given"
        )
    head_dim = fields.number("head_dim", hidden // heads or 1)
    experts = fields.number("num_experts", 1)
    per_token = fields.number("num_experts_per_tok", 1)
    if per_token > experts:
        raise fields.fail(f"num_experts_per_tok = {per_token} is more than num_experts = {experts}")
    gpt2 = fields.given.get("model_type") == "gpt2"
    known = gpt2 or (experts > 1 and fields.has("moe_intermediate_size"))  # GPT-2 and all-expert models name no width
    ffn = fields.number("intermediate_size", 4 * hidden if known else None)
    return _Widths(
        hidden=hidden,
        query=heads * head_dim,
        gated_query=fields.flag(False, "output_gate", "attn_output_gate"),
        kv=kv_heads * head_dim,
        ffn=ffn,
        gated=fields.flag(fields.given.get("model_type") not in _PLAIN_MLP, "gated"),
        experts=experts,
        per_token=per_token,
        expert_ffn=fields.number("moe_intermediate_size", ffn),
        linear_key=fields.number("linear_num_key_heads", heads) * fields.number("linear_key_head_dim", head_dim),
        linear_value=fields.number("linear_num_value_heads", heads) * fields.number("linear_value_head_dim", head_dim),
        linear_heads=fields.number("linear_num_value_heads", heads),
        itemsize=_itemsize(fields),
    )


def _itemsize(fields: Fields) -> int:
    dtype = fields.given.get("dtype", fields.given.get("torch_dtype")) or "bfloat16"
    name = str(dtype).removeprefix("torch.")
    if name not in ITEMSIZE:
        raise fields.fail(f"dtype {dtype!r} is not known")
    return ITEMSIZE[name]


def _layer(kind: str, path: str, widths: _Widths) -> LayerShape:
    if kind not in FULL + LINEAR:
        return LayerShape(kind, ())
    mixer = _attention(path, widths) if kind in FULL else _gated_delta(path, widths)
    hidden, size = widths.hidden, widths.itemsize
    terms = [Term("residual input", hidden, size, "hidden", mixer.norm)]
    terms += half_terms(mixer, hidden, size, f"{path}.ffn_norm")
    terms += _experts(path, widths) if widths.experts > 1 else half_terms(_ffn(path, widths), hidden, size, path)
    return LayerShape(kind.replace("_", " "), tuple(terms))


def _attention(path: str, widths: _Widths) -> Half:
    query = widths.query * (2 if widths.gated_query else 1)
    projections = (("query", query), ("key", widths.kv), ("value", widths.kv))
    mixer = f"{path}.attention"
    return Half("attention", mixer, f"{path}.attention_norm", projections, f"{mixer}.query", f"{mixer}.output",
                widths.query)  # fmt: skip


def _gated_delta(path: str, widths: _Widths) -> Half:
    """What any kernel has to keep; the reference kernel keeps several times more."""
    mixed = 2 * widths.linear_key + widths.linear_value
    projections = (
        ("query, key and value", mixed), ("convolution", mixed), ("gate", widths.linear_value),
        ("decay and beta", 2 * widths.linear_heads), ("state", widths.linear_value),
    )  # fmt: skip
    mixer = f"{path}.linear_attention"
    return Half("gated delta", mixer, f"{path}.attention_norm", projections, f"{mixer}.qkv", f"{mixer}.output",
                widths.linear_value)  # fmt: skip


def _ffn(path: str, widths: _Widths) -> Half:
    projections = (("gate", widths.ffn), ("up", widths.ffn)) if widths.gated else (("up", widths.ffn),)
    return Half("FFN", f"{path}.ffn", f"{path}.ffn_norm", projections, f"{path}.ffn.{projections[0][0]}",
                f"{path}.ffn.down", widths.ffn)  # fmt: skip


def _experts(path: str, widths: _Widths) -> list[Term]:
    """Router, and for each token the experts it is sent to: their inputs, both projections, product and output."""
    k, hidden, ffn, size = widths.per_token, widths.hidden, widths.expert_ffn, widths.itemsize
    module = f"{path}.experts"
    parts = (
        ("norm output", hidden, "hidden"),
        ("router scores", widths.experts, "experts"),
        ("expert input", k * hidden, "experts per token x hidden"),
        ("expert gate output", k * ffn, "experts per token x expert width"),
        ("expert up output", k * ffn, "experts per token x expert width"),
        ("expert down input", k * ffn, "experts per token x expert width"),
        ("expert output", k * hidden, "experts per token x hidden"),
        ("output", hidden, "hidden"),
    )
    return [Term(f"experts {name}", width, size, formula, module) for name, width, formula in parts]


def _parameters(fields: Fields, kinds: list[str], w: _Widths) -> int:
    full = w.hidden * (w.query * (3 if w.gated_query else 2) + 2 * w.kv)
    delta = w.hidden * (2 * w.linear_key + 3 * w.linear_value + 2 * w.linear_heads)
    dense = (3 if w.gated else 2) * w.hidden * w.ffn
    ffn = w.experts * 3 * w.hidden * w.expert_ffn + w.hidden * w.experts if w.experts > 1 else dense
    mixers = sum(full if kind in FULL else delta if kind in LINEAR else 0 for kind in kinds)
    known = sum(kind in FULL + LINEAR for kind in kinds)
    tied = fields.flag(False, "tied", "tie_word_embeddings")
    vocabulary = fields.number("vocab_size", 1) if fields.has("vocab_size") else 0
    return mixers + known * (ffn + 2 * w.hidden) + w.hidden + vocabulary * w.hidden * (1 if tied else 2)


def _assumptions(fields: Fields, kinds: list[str], widths: _Widths) -> list[str]:
    out = ["from a configuration: a memory-efficient attention kernel, no dropout, no copies in another precision"]
    if fields.has("vocab_size"):
        vocabulary = fields.number("vocab_size")
        out.append(f"not in the layers: {vocabulary:,} logits per token, and the loss's copy of them in float32")
    if any(kind in LINEAR for kind in kinds):
        out.append("estimate: gated-delta layers are counted for a fused kernel, which was not measured")
    if widths.experts > 1:
        out.append("estimate: experts are counted as evenly loaded, which was not measured")
    unknown = sorted({kind for kind in kinds if kind not in FULL + LINEAR})
    if unknown:
        out.append(f"{NOT_COUNTED}{', '.join(unknown)} ({sum(kind in unknown for kind in kinds)} layers): unknown")
    return out
