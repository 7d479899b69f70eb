"""Well-known public shapes, as their configurations say."""

from __future__ import annotations

from typing import Any

from memstrata.capture.format.plan import PRESETS, ModelShape

from .shape_config import shape_of_config

_LLAMA = {"num_key_value_heads": 8, "vocab_size": 128256, "dtype": "bfloat16"}
_MISTRAL = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 32000, "dtype": "bfloat16",
}  # fmt: skip

CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {
        "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "dtype": "float32",
        "tie_word_embeddings": True,
    },
    "llama-3-8b": _LLAMA | {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 14336,
    },
    "llama-3-70b": _LLAMA | {
        "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "intermediate_size": 28672,
    },
    "mistral-7b": _MISTRAL,
    "mixtral-8x7b": _MISTRAL | {"num_local_experts": 8, "num_experts_per_tok": 2},
    "hybrid": {
        "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4,
        "head_dim": 256, "attn_output_gate": True, "intermediate_size": 17408, "vocab_size": 248320,
        "linear_num_value_heads": 48, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "dtype": "bfloat16",
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16,
    },
}  # fmt: skip


def preset(name: str) -> ModelShape:
    """The shape of a preset. ValueError with the names there are."""
    if name in PRESETS:
        return PRESETS[name]
    if name not in CONFIGS:
        known = ", ".join(sorted([*PRESETS, *CONFIGS]))
        raise ValueError(f"there is no preset called {name!r}; there is {known}")
    return shape_of_config(CONFIGS[name], name)
