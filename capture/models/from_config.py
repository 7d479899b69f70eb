"""Models of the `transformers` package from a config alone: its real modules, no weights and no download."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import CaptureError
from ..messages import sentence

EXTRA = "The hybrid preset and --hf-config need transformers: pip install 'memstrata[hf]'"
REQUIRED = ("hidden_size", "num_hidden_layers", "num_attention_heads")
"""transformers has a default for every field; a model of sizes that the file does not give would be another model."""

HYBRID = {
    "vocab_size": 248_320,
    "hidden_size": 5120,
    "intermediate_size": 17_408,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_value_heads": 48,
    "linear_num_key_heads": 16,
    "full_attention_interval": 4,
}
HYBRID_TYPE = "qwen3_5_text"


def transformers() -> Any:
    """The package, quiet; CaptureError with the command that installs it where it is missing."""
    try:
        import transformers
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "transformers":
            raise CaptureError(EXTRA) from error
        raise
    transformers.logging.set_verbosity_error()  # that a kernel is the reference one is said in the recording
    return transformers


def hybrid(layers: int | None) -> Any:
    """The config of the hybrid preset: three gated-delta layers and a full-attention one in each super-block."""
    return _shortened(_made(HYBRID_TYPE, HYBRID, "the hybrid preset"), layers)


def load(path: str, layers: int | None) -> Any:
    """The config in this file (a `config.json`), of its text part where it has several.

    Raises CaptureError in one sentence that names the field, where it cannot be read or makes no model.
    """
    fields = _read(path)
    kind = fields.pop("model_type", None)
    if not isinstance(kind, str):
        raise CaptureError(f"{path} lacks the field 'model_type'")
    config = _made(kind, fields, path).get_text_config()
    _check(config, fields, path)
    return _shortened(config, layers)


def _read(path: str) -> dict[str, Any]:
    try:
        fields = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CaptureError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CaptureError(f"{path} is not JSON: {sentence(error)}") from error
    if not isinstance(fields, dict):
        raise CaptureError(f"{path} holds no JSON object but a {type(fields).__name__}")
    return fields


def _made(kind: str, fields: dict[str, Any], source: str) -> Any:
    package = transformers()
    try:
        known = package.CONFIG_MAPPING[kind]
    except KeyError as error:
        version = package.__version__
        raise CaptureError(f"transformers {version} has no model of the type {kind!r}, which {source} names") from error
    try:
        return known.from_dict(dict(fields))
    except Exception as error:
        raise CaptureError(f"{source} makes no {kind} model: {sentence(error)}") from error


def _check(config: Any, fields: dict[str, Any], path: str) -> None:
    inner = next((v for k, v in fields.items() if k == "text_config" and isinstance(v, dict)), {})
    for name in REQUIRED:
        own = config.attribute_map.get(name, name)
        if not {name, own} & {*fields, *inner}:
            raise CaptureError(f"{path} lacks the field {own!r}")
        value = getattr(config, name)
        if type(value) is not int or value < 1:
            raise CaptureError(f"the field {own!r} of {path} must be at least 1, not {value!r}")
    heads, kv_heads = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or 1
    if heads % kv_heads:
        text = f"'num_key_value_heads' of {path} must divide 'num_attention_heads': {kv_heads} does not divide {heads}"
        raise CaptureError(text)
    if getattr(config, "head_dim", None) is None and config.hidden_size % heads:
        text = f"'num_attention_heads' of {path} must divide 'hidden_size': {heads} does not divide"
        raise CaptureError(f"{text} {config.hidden_size}")


def _shortened(config: Any, layers: int | None) -> Any:
    if layers is not None:
        if layers > config.num_hidden_layers:
            raise CaptureError(f"the model has {config.num_hidden_layers} layers, not {layers}")
        config.num_hidden_layers = layers
        if getattr(config, "layer_types", None):
            config.layer_types = list(config.layer_types)[:layers]
    return config


def build(config: Any, head: bool) -> nn.Module:
    """The model of a config in its own dtype (default bfloat16), with its language-model head or without."""
    package = transformers()
    dtype = getattr(config, "dtype", None)
    torch.set_default_dtype(dtype if isinstance(dtype, torch.dtype) else torch.bfloat16)
    kind = package.AutoModelForCausalLM if head else package.AutoModel
    try:
        model: nn.Module = kind.from_config(config, attn_implementation="sdpa")
    except ValueError:  # this kind has no such attention: its own then
        try:
            model = kind.from_config(config)
        except ValueError as error:
            why = sentence(error)
            known = "" if why.startswith("Unrecognized configuration class") else f": {why}"
            raise CaptureError(
                f"transformers makes no language model of the type {config.model_type!r}{known}"
            ) from error
    return model.train()
