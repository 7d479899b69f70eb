"""The shape of a model that was never run, from its configuration: a Hugging Face `config.json` or a small TOML file.

Widths only, by the same rules as for a recorded model. Kinds of layers that are not known are predicted as unknown:
they have no terms, and the shape says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memstrata.capture.format.plan import Half, InnerNorm, LayerShape, ModelShape, Term, layer_shape, super_blocks

from .config_fields import Fields, fields_of_file
from .module_tree import ITEMSIZE
from .outside_layers import NORM_WIDTH, capped_term, indices_term, loss_terms
from .shape import NOT_COUNTED

TOKENS = 8192
FULL = ("full_attention", "sliding_attention", "chunked_attention", "attention")
LINEAR = ("linear_attention", "gated_delta")

_KINDS = ("layer_types", "layers_block_type", "kinds")
"""Where the kind of each layer stands; the last one is the TOML file's, and repeats."""
_OTHER_LAYERS = re.compile(r"mamba|rwkv|ssm|retnet|hyena|xlstm|lfm")
"""Model types whose layers are of kinds not known here, where the configuration does not list them."""
_PLAIN_MLP = (
    "gpt2", "bert", "roberta", "distilbert", "electra", "gpt_neox", "opt", "vit", "bloom", "gptj", "phi", "falcon",
    "starcoder2",
)  # fmt: skip
_FOUR_TIMES = ("gpt2", "bloom", "falcon", "gptj")
"""Model types whose configurations need not name the width of the FFN: four times hidden."""
_GATED_QUERY = ("qwen3_next", "qwen3_5")
"""Model types whose query projection carries an output gate, whether the configuration says so or not."""
_ENCODERS = ("bert", "roberta", "electra")
"""Model types with a norm behind the embedding, and a dense layer ahead of the head's norm."""
_TIED = ("gpt2", "bert", "roberta", "gemma", "gemma2", "gemma3", "gemma3_text")
"""Model types whose head is the embedding unless the configuration says otherwise."""
_POSITIONS = ("gpt2", "bert", "roberta")
"""Model types with an embedding of positions."""
_INNER_NORMS = ("qwen3", "gemma3")
"""Model types with a norm over the queries and one over the keys of each head."""
_POST_NORMS = ("gemma2", "gemma3")
"""Model types with a norm behind each half."""


@dataclass(frozen=True)
class _Widths:
    hidden: int
    query: int
    gated_query: bool
    kv: int
    normed_heads: int
    """Width of a head where queries and keys go through norms of their own, else 0."""
    ffn: int
    gated: bool
    relu: bool
    experts: int
    per_token: int
    expert_ffn: int
    shared_ffn: int
    """0 where no expert is shared."""
    dense: frozenset[int]
    """Layers without experts."""
    post_norms: bool
    """Whether each half has a norm behind it too."""
    linear_key: int
    linear_value: int
    linear_heads: int
    itemsize: int

    def is_sparse(self, layer: int) -> bool:
        """Whether this layer has experts."""
        return self.experts > 1 and layer not in self.dense


def shape_of_file(path: str, tokens: int | None = None) -> ModelShape:
    """The shape that a `config.json` or a `.toml` file describes, for so many tokens (batch x sequence).

    Raises OSError, or ValueError with one sentence naming the field that is missing or contradicts another.
    """
    return shape_of_config(fields_of_file(path), path, tokens)


def shape_of_config(given: Mapping[str, Any], source: str, tokens: int | None = None) -> ModelShape:
    """As `shape_of_file`, from the fields themselves; `source` begins the sentence of an error."""
    inner = given.get("text_config")
    if inner is not None and not isinstance(inner, Mapping):
        raise ValueError(f"{source}: text_config must be a table of fields, not {inner!r}")
    fields = Fields(given if inner is None else inner, source)
    kinds = _kinds(fields)
    widths = _widths(fields, known=any(kind in FULL + LINEAR for kind in kinds))
    names = tuple(f"layers.{i}" for i in range(len(kinds)))
    layers = tuple(_layer(kind, number, widths) for number, kind in enumerate(kinds))
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
        dtype=_dtype(fields),
        ahead=_ahead(fields),
        behind=_behind(fields, widths),
    ).with_tokens(TOKENS if tokens is None else tokens)


def _kinds(fields: Fields) -> list[str]:
    count = fields.number("num_hidden_layers")
    if count > 10_000:
        raise fields.fail(f"num_hidden_layers is {count}: no model has so many layers")
    given = next((fields.given[key] for key in _KINDS if fields.given.get(key) is not None), None)
    if given is None and _OTHER_LAYERS.search(fields.model_type):
        return [fields.model_type] * count
    if given is None:
        every = fields.number("full_attention_interval", 4 if fields.model_type.startswith(_GATED_QUERY) else 1)
        return [FULL[0] if (i + 1) % every == 0 else LINEAR[0] for i in range(count)]
    if not isinstance(given, list) or not all(isinstance(kind, str) for kind in given) or not given:
        raise fields.fail("layer_types must be a list of names")
    if len(given) != count and "kinds" not in fields.given:
        raise fields.fail(f"layer_types has {len(given)} entries for num_hidden_layers = {count}")
    if count % len(given):
        raise fields.fail(f"kinds has {len(given)} entries, which do not divide layers = {count}")
    return given * (count // len(given))


def _widths(fields: Fields, known: bool) -> _Widths:
    """Of layers of which some kind is `known`; else only the residual width has to be there."""
    hidden, heads = fields.number("hidden_size"), fields.number("num_attention_heads", None if known else 1)
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
    linear = [fields.number(f"linear_num_{what}_heads", heads) for what in ("key", "value")]
    if linear[1] % linear[0]:
        raise fields.fail(f"linear_num_key_heads = {linear[0]} does not divide linear_num_value_heads = {linear[1]}")
    named = fields.model_type not in _FOUR_TIMES and not (experts > 1 and fields.has("moe_intermediate_size"))
    ffn = fields.number("intermediate_size", None if named and known else 4 * hidden)
    return _Widths(
        hidden=hidden,
        query=heads * head_dim,
        gated_query=fields.flag(fields.model_type.startswith(_GATED_QUERY), "output_gate", "attn_output_gate"),
        kv=kv_heads * head_dim,
        normed_heads=head_dim * fields.flag(fields.model_type.startswith(_INNER_NORMS), "qk_norm", "use_qk_norm"),
        ffn=ffn,
        gated=fields.flag(fields.model_type not in _PLAIN_MLP, "gated"),
        relu=_activation(fields) == "relu",
        experts=experts,
        per_token=per_token,
        expert_ffn=fields.number("moe_intermediate_size", ffn),
        shared_ffn=_shared_width(fields, ffn),
        dense=_dense_layers(fields),
        post_norms=fields.model_type.startswith(_POST_NORMS),
        linear_key=linear[0] * fields.number("linear_key_head_dim", head_dim),
        linear_value=linear[1] * fields.number("linear_value_head_dim", head_dim),
        linear_heads=linear[1],
        itemsize=ITEMSIZE[_dtype(fields)],
    )


def _activation(fields: Fields) -> str:
    keys = ("activation", "hidden_act", "activation_function", "hidden_activation")
    return str(next((fields.given[key] for key in keys if fields.given.get(key)), ""))


def _shared_width(fields: Fields, ffn: int) -> int:
    """Width of the shared expert, or of all shared ones together; 0 without."""
    if fields.has("shared_expert_intermediate_size"):
        return fields.number("shared_expert_intermediate_size")
    if fields.has("n_shared_experts"):
        return fields.number("n_shared_experts") * fields.number("moe_intermediate_size", ffn)
    return 0


def _dense_layers(fields: Fields) -> frozenset[int]:
    """Layers without experts: those named, the first few, and all but every n-th."""
    count = fields.number("num_hidden_layers")
    named = fields.given.get("mlp_only_layers") or []
    if not isinstance(named, list) or not all(type(layer) is int for layer in named):
        raise fields.fail("mlp_only_layers must be a list of whole numbers")
    first = fields.number("first_k_dense_replace", 0) if fields.given.get("first_k_dense_replace") else 0
    step = fields.number("decoder_sparse_step", 1)
    return frozenset(named) | frozenset(range(first)) | frozenset(i for i in range(count) if (i + 1) % step)


def _dtype(fields: Fields) -> str:
    dtype = fields.given.get("dtype", fields.given.get("torch_dtype")) or "bfloat16"
    name = str(dtype).removeprefix("torch.")
    if name not in ITEMSIZE:
        raise fields.fail(f"dtype {dtype!r} is not known")
    return name


def _ahead(fields: Fields) -> tuple[Term, ...]:
    if not fields.has("vocab_size"):
        return ()
    normed = Term("norm input", fields.number("hidden_size"), ITEMSIZE[_dtype(fields)], NORM_WIDTH, "embedding.norm")
    return (indices_term("embedding"), *([normed] if fields.model_type in _ENCODERS else []))


def _behind(fields: Fields, widths: _Widths) -> tuple[Term, ...]:
    """Final norm, head and loss; without a vocabulary nothing is known of them."""
    if not fields.has("vocab_size"):
        return ()
    size, hidden = ITEMSIZE[_dtype(fields)], widths.hidden
    last = Term("final norm input", hidden, size, NORM_WIDTH, "norm")
    before = [Term("dense input", hidden, size, "hidden", "dense")] if fields.model_type in _ENCODERS else []
    vocabulary = fields.number("vocab_size")
    capped = [capped_term(vocabulary, size, "head")] if fields.given.get("final_logit_softcapping") else []
    head = Term("head input", hidden, size, "hidden", "head")
    return (*before, last, head, *capped, *loss_terms(vocabulary))


def _layer(kind: str, number: int, widths: _Widths) -> LayerShape:
    path = f"layers.{number}"
    if kind not in FULL + LINEAR:
        return LayerShape(kind, ())
    mixer = _attention(path, widths) if kind in FULL else _gated_delta(path, widths)
    sparse = widths.is_sparse(number)
    halves = [mixer, _experts(path, widths) if sparse else _ffn(path, widths)]
    if sparse and widths.shared_ffn:
        halves.append(_shared(path, widths))
    if widths.post_norms:
        halves = [replace(half, post_norm=f"{half.norm}_behind") for half in halves]
    shape = layer_shape(kind.replace("_", " "), path, halves, widths.hidden, widths.itemsize)
    return replace(shape, estimate=kind in LINEAR or sparse)


def _attention(path: str, widths: _Widths) -> Half:
    query = widths.query * (2 if widths.gated_query else 1)
    projections = (("query", query), ("key", widths.kv), ("value", widths.kv))
    mixer, head = f"{path}.attention", widths.normed_heads
    normed = (("query", widths.query), ("key", widths.kv)) if head else ()
    norms = tuple(InnerNorm(name, f"{mixer}.{name}_norm", width, head) for name, width in normed)
    return Half("attention", mixer, f"{path}.attention_norm", projections, f"{mixer}.query", f"{mixer}.output",
                widths.query, inner_norms=norms)  # fmt: skip


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
    """A ReLU keeps its output, which is what goes into the way back, and nothing keeps what goes into it."""
    projections = (("gate", widths.ffn), ("up", widths.ffn)) if widths.gated else (("up", widths.ffn),)
    kept = () if widths.relu and not widths.gated else projections
    return Half("FFN", f"{path}.ffn", f"{path}.ffn_norm", kept, f"{path}.ffn.{projections[0][0]}",
                f"{path}.ffn.down", widths.ffn)  # fmt: skip


def _experts(path: str, widths: _Widths) -> Half:
    """Experts as one half: router, and for each token the experts it is sent to."""
    module = f"{path}.experts"
    return Half("experts", module, f"{path}.ffn_norm", (("gate", widths.expert_ffn), ("up", widths.expert_ffn)),
                f"{module}.gate", f"{module}.down", widths.expert_ffn, widths.per_token,
                (f"{path}.router", widths.experts))  # fmt: skip


def _shared(path: str, widths: _Widths) -> Half:
    """The expert that every token goes through beside the chosen ones."""
    module, width = f"{path}.shared_expert", widths.shared_ffn
    return Half("shared_expert", module, path, (("gate", width), ("up", width)), f"{module}.gate",
                f"{module}.down", width)  # fmt: skip


def _parameters(fields: Fields, kinds: list[str], w: _Widths) -> int:
    known = [(number, kind) for number, kind in enumerate(kinds) if kind in FULL + LINEAR]
    layers = sum(_mixer(kind, w) + _feed_forward(number, w) + 2 * w.hidden for number, kind in known)
    tied = fields.flag(fields.model_type in _TIED, "tied", "tie_word_embeddings")
    vocabulary = fields.number("vocab_size", 1) if fields.has("vocab_size") else 0
    positions = fields.number("max_position_embeddings", 0) if fields.model_type in _POSITIONS else 0
    return layers + w.hidden * (1 + vocabulary * (1 if tied else 2) + positions)


def _mixer(kind: str, w: _Widths) -> int:
    if kind in LINEAR:
        return w.hidden * (2 * w.linear_key + 3 * w.linear_value + 2 * w.linear_heads)
    return w.hidden * (w.query * (3 if w.gated_query else 2) + 2 * w.kv)


def _feed_forward(number: int, w: _Widths) -> int:
    if not w.is_sparse(number):
        return (3 if w.gated else 2) * w.hidden * w.ffn
    return w.hidden * (3 * w.experts * w.expert_ffn + 3 * w.shared_ffn + w.experts + bool(w.shared_ffn))


def _assumptions(fields: Fields, kinds: list[str], widths: _Widths) -> list[str]:
    out = ["from a configuration: a memory-efficient attention kernel, no dropout, no copies in another precision"]
    if not (fields.given.get("dtype") or fields.given.get("torch_dtype")):
        out.append("the configuration names no dtype: bfloat16")
    if fields.has("vocab_size"):
        out.append("what the embedding puts out is the first layer's residual input, and counted as that")
        out.append("the loss is a cross-entropy over all logits at once, which keeps log-probabilities in float32")
    if any(kind in LINEAR for kind in kinds):
        out.append("estimate: gated-delta layers are counted for a fused kernel, which was not measured")
    if widths.experts > 1:
        out.append("estimate: experts are counted as evenly loaded, which was not measured")
    unknown = sorted({kind for kind in kinds if kind not in FULL + LINEAR})
    if unknown:
        out.append(f"{NOT_COUNTED}{', '.join(unknown)} ({sum(kind in unknown for kind in kinds)} layers)")
    return out
