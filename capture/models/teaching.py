"""The teaching model: uniform full-attention decoder layers, whose memory can be worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .hybrid import RMSNorm


@dataclass(frozen=True)
class TeachingConfig:
    """Sizes. The query projection is twice as wide as the heads: its second half gates their output.

    Raises ValueError where the sizes cannot make a model.
    """

    layers: int = 64
    hidden: int = 5120
    heads: int = 24
    head_dim: int = 256
    kv_heads: int = 4
    ffn: int = 17408
    dropout: float = 0.0
    """After each half."""
    segment_layers: int | None = None
    """Layers recomputed together; None keeps everything."""

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "head_dim", "kv_heads", "ffn"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads must divide heads, and {self.kv_heads} does not divide {self.heads}")
        if self.segment_layers is not None and not 1 <= self.segment_layers <= self.layers:
            raise ValueError(f"a segment has 1 to {self.layers} layers in this model, not {self.segment_layers}")


class GatedAttention(nn.Module):
    """Causal softmax attention with grouped KV heads and a gate on what comes out of the heads."""

    def __init__(self, config: TeachingConfig) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        width = config.heads * config.head_dim
        self.query = nn.Linear(config.hidden, 2 * width, bias=False)
        self.key = nn.Linear(config.hidden, config.kv_heads * config.head_dim, bias=False)
        self.value = nn.Linear(config.hidden, config.kv_heads * config.head_dim, bias=False)
        self.output = nn.Linear(width, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) -> the same."""
        query, gate = self.query(x).chunk(2, dim=-1)
        q, k, v = (self._heads(projected) for projected in (query, self.key(x), self.value(x)))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2) * torch.sigmoid(gate))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class GatedFFN(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, config: TeachingConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.hidden, config.ffn, bias=False)
        self.up = nn.Linear(config.hidden, config.ffn, bias=False)
        self.down = nn.Linear(config.ffn, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., hidden) -> (..., hidden)."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class TeachingLayer(nn.Module):
    """Norm, attention, norm, FFN, each half with a residual connection."""

    def __init__(self, config: TeachingConfig) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(config.hidden), GatedAttention(config)
        self.ffn_norm, self.ffn = RMSNorm(config.hidden), GatedFFN(config)
        self.dropout = config.dropout

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) -> the same."""
        x = x + self._dropped(self.attention(self.attention_norm(x)))
        return x + self._dropped(self.ffn(self.ffn_norm(x)))

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x


class TeachingModel(nn.Module):
    """The layers alone, without embedding and head. `segment_layers` of them are one checkpoint segment."""

    def __init__(self, config: TeachingConfig) -> None:
        super().__init__()
        self.segment_layers = config.segment_layers
        self.layers = nn.ModuleList(TeachingLayer(config) for _ in range(config.layers))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) -> the same."""
        length = self.segment_layers or len(self.layers)
        for start in range(0, len(self.layers), length):
            layers = self.layers[start : start + length]
            x = checkpoint(_run, layers, x, use_reentrant=False) if self.segment_layers else _run(layers, x)
        return x


def _run(layers: nn.ModuleList, x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x
