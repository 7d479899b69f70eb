"""What torch's fused CUDA kernels keep for backward, where the CPU's composite ones keep more: a table, and the step
run with it.

Each rule replaces one operation by an autograd function of the same shapes that computes nothing and keeps what the
CUDA kernel keeps by torch's own table of derivatives. It is used on fake tensors only, on request, and every figure
that comes of it is an estimate: no kernel ran, and memory inside the kernels is unknown. Operations without a rule
have the same derivative on both devices (matrix products, SiLU, GELU, softmax, cross-entropy, embedding, and batch and
group norm but for the dtype of their statistics), or are written out in Python, which no GPU fuses by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .step_log import thread_id

aten = torch.ops.aten
LOW_PRECISION = (torch.float16, torch.bfloat16)
FLASH_HEAD_DIM = 256
FLASH_ALIGNMENT = 8
EFFICIENT_ALIGNMENT = 32
"""The memory-efficient kernel rounds the rows of its logsumexp up to this (`kAlignLSE`)."""


@dataclass(frozen=True)
class Rule:
    """One line of the table."""

    name: str
    derivative: str
    """The function's entry in torch's derivatives.yaml."""
    keeps: tuple[str, ...]
    """What its backward asks for, in the words of that entry."""
    text: str
    """The same for people, with bytes."""


FUSED_RMS_NORM = Rule(
    "RMS norm", "_fused_rms_norm", ("input", "weight", "result1"),
    "keeps its input and one float32 per row; no float32 copies",
)  # fmt: skip
LAYER_NORM = Rule(
    "layer norm", "native_layer_norm", ("input", "weight", "bias", "result1", "result2"),
    "keeps its input and two float32 per row, mean and reciprocal deviation",
)  # fmt: skip
NATIVE_DROPOUT = Rule(
    "dropout", "native_dropout", ("result1",), "keeps a mask of one byte per value, not one value of the input's dtype"
)
FLASH_ATTENTION = Rule(
    "flash attention", "_scaled_dot_product_flash_attention",
    ("query", "key", "value", "output", "logsumexp", "rng_state", "unused"),
    "keeps query, key, value, its output, and per head and token one float32; 24 bytes of random state",
)  # fmt: skip
EFFICIENT_ATTENTION = Rule(
    "memory-efficient attention", "_scaled_dot_product_efficient_attention",
    ("query", "key", "value", "attn_bias", "output", "log_sumexp", "philox_seed", "philox_offset"),
    "keeps query, key, value, the mask, its output, and per head and token (rounded up to 32) one float32; 16 bytes"
    " of random state",
)  # fmt: skip

RULES = (FUSED_RMS_NORM, LAYER_NORM, NATIVE_DROPOUT, FLASH_ATTENTION, EFFICIENT_ATTENTION)


class FusedKernels:
    """While entered, the operations of the table follow it, on the thread that entered; elsewhere nothing changes."""

    name = "fused (estimate)"

    def __init__(self) -> None:
        self.used: Counter[Rule] = Counter()
        self._library: Any = None
        self._thread = -1

    def __enter__(self) -> FusedKernels:
        self._thread = thread_id()
        # Fake tensors are on the CPU; at this key an operation comes by before it is taken apart.
        self._library = torch.library.Library("aten", "IMPL", "AutogradCPU")
        for name, kernel in (
            ("rms_norm", self._rms_norm),
            ("layer_norm", self._layer_norm),
            ("dropout", self._dropout),
            ("scaled_dot_product_attention", self._attention),
        ):
            self._library.impl(name, self._here(kernel, getattr(aten, name).default))
        return self

    def __exit__(self, *_: Any) -> None:
        self._library._destroy()
        self._library = None

    def estimates(self) -> tuple[str, ...]:
        """One sentence for each rule that was used."""
        return tuple(
            f"{count:,} calls of {rule.name} are counted as torch's fused CUDA kernel would keep them: it {rule.text}."
            for rule, count in sorted(self.used.items(), key=lambda item: RULES.index(item[0]))
        ) or ("Fused CUDA kernels were asked for, but the step ran no operation of their table.",)

    def _here(self, kernel: Callable[..., Tensor | None], operation: Any) -> Callable[..., Tensor]:
        def run(*args: Any, **kwargs: Any) -> Tensor:
            out = kernel(*args, **kwargs) if thread_id() == self._thread else None
            return operation.decompose(*args, **kwargs) if out is None else out

        return run

    def _rms_norm(self, x: Tensor, shape: list[int], weight: Tensor | None = None, eps: Any = None) -> Tensor | None:
        if not x.is_floating_point() or (weight is not None and weight.dtype != x.dtype):
            return None  # torch takes the composite one then, on every device
        self.used[FUSED_RMS_NORM] += 1
        return FusedNorm.apply(x, len(shape), 1, weight)

    def _layer_norm(self, x: Tensor, shape: list[int], weight: Tensor | None = None, bias: Tensor | None = None,
                    *_: Any) -> Tensor | None:  # fmt: skip
        self.used[LAYER_NORM] += 1
        return FusedNorm.apply(x, len(shape), 2, weight, bias)

    def _dropout(self, x: Tensor, p: float, train: bool) -> Tensor | None:
        if not train or not 0 < p < 1 or not x.numel():
            return None
        self.used[NATIVE_DROPOUT] += 1
        return FusedDropout.apply(x)

    def _attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        dropout: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        # The order in which torch asks on most GPUs; cuDNN's kernel, first on some, keeps what flash keeps.
        if _flash_takes(q, k, v, mask, is_causal):
            self.used[FLASH_ATTENTION] += 1
            width = q.shape[-1]
            padded = [F.pad(t, (0, -width % FLASH_ALIGNMENT)) if width % FLASH_ALIGNMENT else t for t in (q, k, v)]
            return FusedAttention.apply(*padded, None, 1, (2, 1))[..., :width]
        if _efficient_takes(q, k, v):
            self.used[EFFICIENT_ATTENTION] += 1
            if mask is not None and mask.dtype == torch.bool:
                mask = torch.empty_like(mask, dtype=q.dtype)
            return FusedAttention.apply(q, k, v, mask, EFFICIENT_ALIGNMENT, (1, 1))
        math: Tensor = aten._scaled_dot_product_attention_math(
            q, k, v, mask, dropout, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )[0]
        return math


def _flash_takes(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool) -> bool:
    """`can_use_flash_attention` of torch's sdp_utils.cpp, as far as it depends on shapes."""
    square = q.dim() == 4 and (not is_causal or q.shape[-2] == k.shape[-2])
    same = q.shape[-1] == k.shape[-1] == v.shape[-1] <= FLASH_HEAD_DIM and q.shape[:1] == k.shape[:1] == v.shape[:1]
    enabled = torch.backends.cuda.flash_sdp_enabled()
    return enabled and mask is None and square and same and q.dtype in LOW_PRECISION


def _efficient_takes(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """`can_use_mem_efficient_attention`: no grouped KV heads, and no double precision."""
    same = q.dim() == 4 and q.shape[:2] == k.shape[:2] == v.shape[:2]
    enabled = torch.backends.cuda.mem_efficient_sdp_enabled()
    return enabled and same and q.dtype in (*LOW_PRECISION, torch.float32)


class FusedNorm(torch.autograd.Function):
    """RMS norm (one statistic per row) or layer norm (two), over the last `dims` dimensions."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dims: int, statistics: int, *affine: Tensor | None) -> Tensor:
        out = torch.empty_like(x)
        rows = (*x.shape[: x.dim() - dims], *(1,) * dims)
        kind = torch.float64 if x.dtype == torch.float64 else torch.float32
        ctx.save_for_backward(x, *affine, *(x.new_empty(rows, dtype=kind) for _ in range(statistics)))
        ctx.affine = len(affine)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, *others = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], *ctx.needs_input_grad[3:]]
        dx, *rest = (
            torch.empty_like(t) if w and t is not None else None for t, w in zip((x, *others[: ctx.affine]), wanted)
        )
        return dx, None, None, *rest


class FusedDropout(torch.autograd.Function):
    """Keeps the mask, one byte per value."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        ctx.save_for_backward(torch.empty_like(x, dtype=torch.bool))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        _ = ctx.saved_tensors
        return torch.empty_like(grads[0])


class FusedAttention(torch.autograd.Function):
    """`align`: what the logsumexp's rows are rounded up to; `state`: int64 values in each piece of random state."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, align: int,
                state: tuple[int, ...]) -> Tensor:  # fmt: skip
        batch, heads, rows, _ = q.shape
        # Laid out by token, not by head, as the kernels write it.
        out = q.new_empty(batch, rows, heads, v.shape[-1]).transpose(1, 2)
        lse = q.new_empty(batch, heads, -(-rows // align) * align, dtype=torch.float32)
        random = [q.new_empty(count, dtype=torch.int64) for count in state]
        ctx.save_for_backward(q, k, v, mask, out, lse, *random)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        inputs = ctx.saved_tensors[:4]
        wanted = zip(inputs, ctx.needs_input_grad)
        return *(torch.empty_like(t) if want and t is not None else None for t, want in wanted), None, None
