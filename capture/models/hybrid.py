"""The demo's model: a decoder-only transformer whose super-blocks are three linear-attention layers and a full one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class HybridConfig:
    """Sizes; `layers` is a multiple of `super_block`, and the last layer of each super-block has full attention."""

    vocabulary: int = 256
    hidden: int = 256
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 704
    layers: int = 12
    super_block: int = 4
    chunk: int = 64


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        """(..., hidden) -> (..., hidden)."""
        return F.rms_norm(x, (x.shape[-1],), self.weight)


class FullAttention(nn.Module):
    """Causal softmax attention with grouped KV heads."""

    def __init__(self, config: HybridConfig) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = config.heads, config.kv_heads
        self.head_dim = config.hidden // config.heads
        self.q_proj = nn.Linear(config.hidden, self.num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden, self.num_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden, self.num_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.num_heads * self.head_dim, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) -> the same."""
        q, k, v = (_heads(project(x), self.head_dim) for project in (self.q_proj, self.k_proj, self.v_proj))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class LinearAttention(nn.Module):
    """Causal attention without softmax: exact inside a chunk, a running sum of k v^T between chunks."""

    def __init__(self, config: HybridConfig) -> None:
        super().__init__()
        self.num_heads, self.head_dim = config.heads, config.hidden // config.heads
        self.chunk = config.chunk
        width = self.num_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden, width, bias=False)
        self.k_proj = nn.Linear(config.hidden, width, bias=False)
        self.v_proj = nn.Linear(config.hidden, width, bias=False)
        self.o_proj = nn.Linear(width, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) -> the same; tokens must be a multiple of the chunk."""
        q, k, v = (self._chunks(project(x)) for project in (self.q_proj, self.k_proj, self.v_proj))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        inside = torch.tril(q @ k.transpose(-1, -2)) @ v
        states = torch.cumsum(k.transpose(-1, -2) @ v, dim=2)
        before = F.pad(states[:, :, :-1], (0, 0, 0, 0, 1, 0))
        mixed = inside + q @ before
        return self.o_proj(mixed.flatten(2, 3).transpose(1, 2).flatten(2))

    def _chunks(self, x: Tensor) -> Tensor:
        return _heads(x, self.head_dim).unflatten(2, (-1, self.chunk))


def _heads(x: Tensor, head_dim: int) -> Tensor:
    """(batch, tokens, heads x head_dim) -> (batch, heads, tokens, head_dim)."""
    return x.unflatten(-1, (-1, head_dim)).transpose(1, 2)


class GatedMLP(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, config: HybridConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.ffn, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.ffn, bias=False)
        self.down_proj = nn.Linear(config.ffn, config.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., hidden) -> (..., hidden)."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """Norm, mixer, norm, MLP, each with a residual connection."""

    def __init__(self, config: HybridConfig, full: bool) -> None:
        super().__init__()
        self.mixer_norm = RMSNorm(config.hidden)
        self.mixer = FullAttention(config) if full else LinearAttention(config)
        self.mlp_norm = RMSNorm(config.hidden)
        self.mlp = GatedMLP(config)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, hidden) -> the same."""
        x = x + self.mixer(self.mixer_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class HybridDecoder(nn.Module):
    """Embedding, layers, norm, head. With `checkpointing` each super-block is one checkpoint segment."""

    def __init__(self, config: HybridConfig, checkpointing: bool = False) -> None:
        super().__init__()
        self.config, self.checkpointing = config, checkpointing
        self.embed = nn.Embedding(config.vocabulary, config.hidden)
        full = [(i + 1) % config.super_block == 0 for i in range(config.layers)]
        self.layers = nn.ModuleList(DecoderLayer(config, f) for f in full)
        self.norm = RMSNorm(config.hidden)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens) integers -> (batch, tokens, vocabulary) logits."""
        x = self.embed(tokens)
        for start in range(0, self.config.layers, self.config.super_block):
            layers = self.layers[start : start + self.config.super_block]
            x = checkpoint(_run, layers, x, use_reentrant=False) if self.checkpointing else _run(layers, x)
        return self.head(self.norm(x))


def _run(layers: nn.ModuleList, x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x
