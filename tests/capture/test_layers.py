"""Layer lists and kinds of real modules."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from memstrata.capture.layers import batch_and_sequence, kind_of, layer_lists
from memstrata.capture.models.hybrid import HybridConfig, HybridDecoder


def lengths(model: nn.Module) -> list[int]:
    return [len(found) for found in layer_lists(model)]


def test_a_hybrid_has_one_list_of_two_kinds() -> None:
    model = HybridDecoder(HybridConfig(hidden=32, heads=2, ffn=48))
    (layers,) = layer_lists(model)
    kinds = [kind_of(layer) for layer in layers]
    assert len(layers) == 12 and all(type(layer).__name__ == "DecoderLayer" for layer in layers)
    assert kinds[:4] == kinds[4:8] == kinds[8:] and len(set(kinds[:3])) == 1 and kinds[3] != kinds[2]
    assert "FullAttention" in kinds[3] and "LinearAttention" in kinds[0]


def test_encoder_and_decoder_are_two_lists() -> None:
    transformer = nn.Transformer(16, 2, num_encoder_layers=3, num_decoder_layers=2, dim_feedforward=32)
    assert lengths(transformer) == [3, 2]


def test_a_head_of_bare_operations_is_no_layer_list() -> None:
    block = lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    model = nn.Sequential(nn.ModuleList([block() for _ in range(3)]), nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)))
    assert lengths(model) == [3]


def test_layers_of_a_model_that_does_not_repeat_are_its_children() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Conv1d(8, 4, 1)

    assert [[type(layer).__name__ for layer in found] for found in layer_lists(Model())] == [["Linear", "Conv1d"]]
    lonely = nn.Linear(2, 2)
    assert layer_lists(lonely) == [[lonely]]


@pytest.mark.parametrize("shape, is_index, expected", [
    ((4, 512), True, (4, 512)), ((512,), True, (1, 512)), ((4, 512, 64), False, (4, 512)),
    ((2048, 512), False, (2048, 1)),
    ((8, 3, 32, 32), False, (8, 1)),
])  # fmt: skip
def test_batch_and_sequence(shape: tuple[int, ...], is_index: bool, expected: tuple[int, int]) -> None:
    assert batch_and_sequence(torch.Size(shape), is_index) == expected


def test_no_input_has_no_batch() -> None:
    assert batch_and_sequence(None, False) == (None, None)
