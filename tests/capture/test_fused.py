"""The table of what fused CUDA kernels keep: each rule against torch's table of derivatives, and by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchgen
from torch import nn

from memstrata.capture import dry_run
from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Fate
from memstrata.capture.fused import RULES, FusedKernels, Rule
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run

from .recordings import saved_bytes

B, T, H, D = 2, 40, 4, 16
ROWS = B * T


class Calls(nn.Module):
    """One weighted tensor through one function, so that only the function keeps anything."""

    def __init__(self, shape: tuple[int, ...], function: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape, dtype=dtype))
        self.scale = nn.Parameter(torch.zeros(shape[-1:], dtype=dtype))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.weight + x, self.scale)


def run(path: Path, shape: tuple[int, ...], function: Callable[..., torch.Tensor], fused: bool = True,
        dtype: torch.dtype = torch.float32) -> Recording:  # fmt: skip
    def step(model: nn.Module) -> None:
        model(torch.zeros(shape, dtype=dtype)).sum().backward()

    dry_run(lambda: Calls(shape, function, dtype), step, path / "a.mstrata", fused=fused)
    recording = files.read(path / "a.mstrata")
    assert check(Run(recording)) == []
    assert Run(recording).end_bytes >= 2 * Run(recording).baseline_bytes - shape[-1] * dtype.itemsize  # gradients
    return recording


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_keeps_what_torchs_table_of_derivatives_asks_for(rule: Rule) -> None:
    table = Path(torchgen.__file__).parent / "packaged" / "autograd" / "derivatives.yaml"
    entry = re.search(rf"^- name: {rule.derivative}\((.*?)^(?=- name:|#)", table.read_text(), re.M | re.S)
    assert entry is not None, "this torch has no such function"
    formula = entry.group(1).split("\n", 1)[1]
    words = set(re.findall(r"\w+", formula))
    assert set(rule.keeps) <= words
    signature = entry.group(1).split("\n", 1)[0]
    results = set(re.findall(r"Tensor (\w+)", signature.partition("->")[2])) | {f"result{i}" for i in (1, 2)}
    # Nothing else that the function puts out is kept (lengths are numbers, and there are none without nested tensors).
    assert (results & words) - {"cum_seq_q", "cum_seq_k"} <= {*rule.keeps, "max_q", "max_k"} | _only_in_jvp(formula)


def _only_in_jvp(formula: str) -> set[str]:
    backward = "\n".join(line for line in formula.splitlines() if not re.match(r"\s+result\d?:", line))
    return set(re.findall(r"\w+", formula)) - set(re.findall(r"\w+", backward))


CASES = {
    "rms norm": ((B, T, D), lambda x, w: F.rms_norm(x, (D,), w), ROWS * (D + 1) * 4),
    "layer norm": ((B, T, D), lambda x, w: F.layer_norm(x, (D,), w), ROWS * (D + 2) * 4),
    "dropout": ((B, T, D), lambda x, w: F.dropout(x, 0.1), ROWS * D),
    "memory-efficient attention": (
        (B, H, T, D), lambda x, w: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        2 * B * H * T * D * 4 + B * H * 64 * 4 + 16,  # 40 tokens are rounded up to 64
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bytes_by_hand(tmp_path: Path, name: str) -> None:
    shape, function, kept = CASES[name]
    recording = run(tmp_path, shape, function)
    assert saved_bytes(recording, Fate.kept) == kept
    assert recording.meta.estimates[0].startswith(f"1 calls of {name}".replace("rms", "RMS"))


def test_flash_attention_in_bfloat16_with_grouped_heads(tmp_path: Path) -> None:
    def attend(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        k = x[:, :2] * 1
        return F.scaled_dot_product_attention(x, k, k, is_causal=True, enable_gqa=True, dropout_p=0.5)

    recording = run(tmp_path, (B, H, T, D), attend, dtype=torch.bfloat16)
    q, kv, out, lse = B * H * T * D * 2, B * 2 * T * D * 2, B * H * T * D * 2, B * H * T * 4
    assert saved_bytes(recording, Fate.kept) == q + kv + out + lse + 24


def test_a_head_that_is_no_multiple_of_8_is_padded(tmp_path: Path) -> None:
    recording = run(tmp_path, (B, H, T, 12), lambda x, w: F.scaled_dot_product_attention(x, x, x), dtype=torch.half)
    padded = B * H * T * 16 * 2
    assert saved_bytes(recording, Fate.kept) == 3 * padded + padded + B * H * T * 4 + 24


def test_what_no_fused_kernel_takes_keeps_the_scores(tmp_path: Path) -> None:
    def attend(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(x, x[:, :2], x[:, :2], enable_gqa=True)

    recording = run(tmp_path, (B, H, T, D), attend)  # float32: no flash; grouped heads: not memory-efficient
    assert saved_bytes(recording, Fate.kept) > B * H * T * T * 4
    assert recording.meta.estimates == (
        "Fused CUDA kernels were asked for, but the step ran no operation of their table.",
    )


def test_on_the_cpu_the_same_calls_keep_more(tmp_path: Path) -> None:
    for name, more in (("rms norm", ROWS * D * 4), ("dropout", 3 * ROWS * D)):
        shape, function, kept = CASES[name]
        recording = run(tmp_path, shape, function, fused=False)
        assert recording.meta.kernels == "cpu"
        assert saved_bytes(recording, Fate.kept) == kept + more


def test_modules_that_call_attention_inside_are_seen(tmp_path: Path) -> None:
    def build() -> nn.Module:
        return nn.TransformerEncoderLayer(D, H, 32, batch_first=True)

    def step(model: Any) -> None:
        model(torch.zeros(B, T, D)).sum().backward()

    dry_run(build, step, tmp_path / "a.mstrata", fused=True)
    said = " ".join(files.read(tmp_path / "a.mstrata").meta.estimates)
    assert "1 calls of memory-efficient attention" in said
    assert "2 calls of layer norm" in said
    assert "3 calls of dropout" in said


def test_real_tensors_and_later_calls_are_left_alone() -> None:
    x = torch.randn(3, 8, requires_grad=True)
    plain = F.rms_norm(x, (8,))
    for _ in range(2):
        with FusedKernels():
            pass
    assert torch.equal(F.rms_norm(x, (8,)), plain)
    assert F.rms_norm(x, (8,)).grad_fn is not None and "Fused" not in F.rms_norm(x, (8,)).grad_fn.name()
