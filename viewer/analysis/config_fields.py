"""The fields of a configuration, a Hugging Face `config.json` or a small TOML file, read and checked one by one."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

MOST = 2**31

_HF = {
    "hidden_size": ("hidden", "hidden_size", "n_embd", "d_model", "dim"),
    "num_hidden_layers": ("layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("heads", "num_attention_heads", "n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("kv_heads", "num_key_value_heads"),
    "head_dim": ("head_dim",),
    "intermediate_size": ("ffn", "intermediate_size", "n_inner", "ffn_dim", "hidden_dim"),
    "vocab_size": ("vocabulary", "vocab_size"),
    "max_position_embeddings": ("positions", "max_position_embeddings", "n_positions"),
    "num_experts": ("experts", "num_experts", "num_local_experts", "n_routed_experts"),
    "num_experts_per_tok": ("experts_per_token", "num_experts_per_tok"),
    "moe_intermediate_size": ("expert_ffn", "moe_intermediate_size"),
    "shared_expert_intermediate_size": ("shared_ffn", "shared_expert_intermediate_size"),
    "n_shared_experts": ("shared_experts", "n_shared_experts"),
    "first_k_dense_replace": ("first_dense", "first_k_dense_replace"),
    "decoder_sparse_step": ("sparse_step", "decoder_sparse_step"),
    "full_attention_interval": ("full_attention_interval",),
    "linear_num_key_heads": ("linear_key_heads", "linear_num_key_heads"),
    "linear_num_value_heads": ("linear_value_heads", "linear_num_value_heads"),
    "linear_key_head_dim": ("linear_key_dim", "linear_key_head_dim"),
    "linear_value_head_dim": ("linear_value_dim", "linear_value_head_dim"),
}
"""Hugging Face's name of each field, and the names under which it may stand; the first one is the TOML file's."""


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

    @property
    def model_type(self) -> str:
        """`qwen3_next`, say; empty where there is none."""
        return str(self.given.get("model_type") or "")

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


def fields_of_file(path: str) -> dict[str, Any]:
    """The fields of a `config.json` or a `.toml` file. Raises OSError, or ValueError with one sentence."""
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
