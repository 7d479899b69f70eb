"""The models on which plans are predicted and then applied; seeds and sizes are fixed.

`TUNED` are the four that the planner has to meet; `UNTUNED` were never looked at while it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memstrata.capture.models.hybrid import HybridConfig, HybridDecoder

SEED = 0


@dataclass(frozen=True)
class Case:
    """A model with one training step. `layers` is the path of its layer list."""

    name: str
    layers: str
    build: Callable[[], nn.Module]
    loss: Callable[[nn.Module], Tensor]
    has_matmul: bool = True


class Block(nn.Module):
    """Linear-GELU-Linear-GELU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.down(F.gelu(self.up(x))))


class Gpt2Attention(nn.Module):
    """Fused projection, causal attention."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.c_attn(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class Gpt2Block(nn.Module):
    """Pre-norm attention and GELU MLP, as in GPT-2; returns a tuple."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Gpt2Attention(width, heads, dropout)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> tuple[Tensor]:
        x = x + self.drop(self.attn(self.ln_1(x)))
        return (x + self.drop(self.mlp(self.ln_2(x))),)


class Gpt2(nn.Module):
    """Token and position embedding, blocks, norm, head (tied to the embedding or not)."""

    def __init__(self, layers: int = 8, width: int = 128, heads: int = 4, vocabulary: int = 512, dropout: float = 0.0,
                 tied: bool = False) -> None:  # fmt: skip
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(256, width)
        self.h = nn.ModuleList(Gpt2Block(width, heads, dropout) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)[0]
        return self.head(self.ln_f(x))


class Encoder(nn.Module):
    """torch's own encoder layers with a padding mask, and a classifier."""

    def __init__(self, layers: int = 8, width: int = 128) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classify = nn.Linear(width, 10)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.classify(self.encoder(x, src_key_padding_mask=padding).mean(1))


class Residual(nn.Module):
    """A convolutional block that ends in ReLU, which saves its own output."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm_1, self.norm_2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm_2(self.second(F.relu(self.norm_1(self.first(x))))))


class Llama(nn.Module):
    """bfloat16 layers whose norms compute in float32, with one rotary table for all layers."""

    def __init__(self, layers: int = 6, width: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(512, width)
        self.layers = nn.ModuleList(LlamaLayer(width) for _ in range(layers))
        self.head = nn.Linear(width, 512, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        angles = torch.arange(tokens.shape[1])[:, None] / 10000 ** (torch.arange(16) / 16)
        table = (angles.cos().to(x.dtype), angles.sin().to(x.dtype))
        for layer in self.layers:
            x = layer(x, rotary=table)
        return self.head(x)


class LlamaLayer(nn.Module):
    """Float32 RMSNorm by hand, rotary attention, gated MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.qkv, self.o = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(_rms(x, self.norm_1)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(_turned(q, rotary), _turned(k, rotary), v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        y = _rms(x, self.norm_2)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def _rms(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def _turned(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = rotary
    one, two = x.chunk(2, -1)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)


def _tokens(batch: int = 4, length: int = 128, vocabulary: int = 512) -> Tensor:
    return torch.randint(vocabulary, (batch, length))


def _language(model: nn.Module) -> Tensor:
    tokens = _tokens(vocabulary=256)
    return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


def _encoded(model: nn.Module) -> Tensor:
    padding = torch.zeros(8, 96, dtype=torch.bool)
    padding[:, 90:] = True
    return F.cross_entropy(model(torch.randn(8, 96, 128), padding), torch.randint(10, (8,)))


def _autocast(model: nn.Module) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(_tokens())
    return F.cross_entropy(logits.flatten(0, 1).float(), _tokens().flatten())


TUNED = (
    Case("uniform", "", lambda: nn.Sequential(*[Block(256) for _ in range(8)]),
         lambda model: model(torch.randn(512, 256)).square().mean()),
    Case("hybrid", "layers", lambda: HybridDecoder(HybridConfig(hidden=128, ffn=352, layers=8)), _language),
    Case("GPT-2", "h", Gpt2, _language),
    Case("encoder", "encoder.layers", Encoder, _encoded),
)  # fmt: skip

UNTUNED = (
    Case("GPT-2, dropout", "h", lambda: Gpt2(dropout=0.1), _language),
    Case("GPT-2, autocast", "h", Gpt2, _autocast),
    Case("GPT-2, tied head", "h", lambda: Gpt2(vocabulary=4096, tied=True), _language),
    Case("Llama, bfloat16", "layers", lambda: Llama().bfloat16(), _language),
    Case("convolutions", "", lambda: nn.Sequential(*[Residual(16) for _ in range(8)]),
         lambda model: model(torch.randn(8, 16, 32, 32)).square().mean(), has_matmul=False),
)  # fmt: skip

PLANS = ("1", "2", "4", "uneven")


def ranges_of(plan: str, layers: int) -> tuple[tuple[int, int], ...]:
    """The segments of a plan by name: equal ones of so many layers, or uneven ones that leave the last layer out."""
    if plan.isdecimal():
        k = int(plan)
        return tuple((a, min(a + k, layers)) for a in range(0, layers, k))
    return ((0, 1), (1, 4), (4, layers - 1))
