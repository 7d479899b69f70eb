"""The demo on a small model: real training, two recordings, and what checkpointing achieved."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch

from memstrata.capture import demo
from memstrata.capture.demo import DemoConfig
from memstrata.capture.format import files
from memstrata.capture.models.hybrid import HybridConfig, HybridDecoder, LinearAttention
from memstrata.capture.models.text import batches
from memstrata.capture.summary import peak_bytes

from .recordings import fates

SMALL = DemoConfig(HybridConfig(hidden=64, heads=2, ffn=128, layers=6, super_block=3, chunk=16), 2, 64, 2)


def test_two_recordings_of_the_same_training(tmp_path: Path) -> None:
    said: list[str] = []
    before, after = (files.read(path) for path in demo.run(tmp_path / "new" / "folder", SMALL, said.append))
    assert before.meta.loss == after.meta.loss and before.meta.loss is not None
    assert before.meta.plan is None
    assert after.meta.plan == (("layers.0", "layers.1", "layers.2"), ("layers.3", "layers.4", "layers.5"))
    assert peak_bytes(after) < peak_bytes(before)
    assert fates(before)["rematerialized"] == 0 < fates(after)["rematerialized"]
    assert before.meta.super_block_override == 3 and len(before.layers) == 6
    assert len([line for line in said if "loss" in line]) == 2


def test_checkpointing_gives_bit_equal_gradients() -> None:
    gradients = []
    for checkpointing in (False, True):
        torch.manual_seed(1)
        model = HybridDecoder(SMALL.model, checkpointing)
        inputs, _ = next(batches(0, 2, 64))
        model(inputs).square().mean().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_chunked_linear_attention_equals_the_plain_sum() -> None:
    torch.manual_seed(0)
    mixer = LinearAttention(SMALL.model)
    x = torch.randn(2, 48, 64)
    q, k, v = (p(x).unflatten(-1, (2, 32)).transpose(1, 2) for p in (mixer.q_proj, mixer.k_proj, mixer.v_proj))
    q, k = torch.nn.functional.normalize(q, dim=-1), torch.nn.functional.normalize(k, dim=-1)
    plain = torch.tril(q @ k.transpose(-1, -2)) @ v
    expected = mixer.o_proj(plain.transpose(1, 2).flatten(2))
    assert torch.allclose(mixer(x), expected, atol=1e-5)


def test_text_is_the_same_for_the_same_seed_and_targets_are_one_ahead() -> None:
    first, second = (list(islice(batches(7, 2, 32), 2)) for _ in range(2))
    for (inputs, targets), (again, _) in zip(first, second, strict=True):
        assert torch.equal(inputs, again) and torch.equal(inputs[:, 1:], targets[:, :-1])
        assert bytes(inputs[0].tolist()).isascii()


def test_the_demo_learns(tmp_path: Path) -> None:
    losses = demo.train(tmp_path / "a.mstrata", DemoConfig(SMALL.model, 4, 64, 20), checkpointing=False)
    assert losses[-1] < losses[0] - 0.5
