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
        "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
        "vocab_size": 50257, "dtype": "float32", "attn_pdrop": 0.1,
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
    "qwen3-8b": {
        "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
        "dtype": "bfloat16",
    },
    "qwen3-next-80b-a3b": {
        "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16,
        "num_key_value_heads": 2, "head_dim": 256, "num_experts": 512, "num_experts_per_tok": 10,
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "linear_num_value_heads": 32,
        "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "vocab_size": 151936,
        "dtype": "bfloat16",
    },
    "gemma-2-9b": {
        "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
        "model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 14336, "vocab_size": 256000,
        "layer_types": ["sliding_attention", "full_attention"] * 21, "dtype": "bfloat16",
    },
    "bert-base": {
        "model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512, "dtype": "float32",
    },
    "hybrid": {
        "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4,
        "head_dim": 256, "attn_output_gate": True, "qk_norm": True, "intermediate_size": 17408, "vocab_size": 248320,
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
